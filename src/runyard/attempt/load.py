"""Load the function of a target. Never imports the user's main module."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runyard.attempt import forked
from runyard.errors import BadTarget
from runyard.spec.codec import load_function
from runyard.spec.task import FILE_MODULE, Target


def load(
    target: Target, root: str, functions: Mapping[str, bytes] | None = None
) -> Callable[..., Any]:
    """The function of a target, which is relative to the folder `root`."""
    if target.kind == "shell":
        from runyard.attempt.shell import command

        return command(target.ref)
    if target.kind == "value":
        if not functions or target.ref not in functions:
            raise BadTarget(
                f"the function {target.ref} was sent by value and is not available here",
                hint="functions of a script or notebook are never stored: "
                "run that script again to continue",
            )
        return load_function(functions[target.ref])
    module, found = _looked_up(target, root)
    if not callable(found):
        raise _missing(target, module, "function")
    return found  # type: ignore[no-any-return]


def load_object(text: str, root: str) -> Any:
    """What `module:name` or `path/file.py:name` refers to, a function or anything else."""
    target = Target.parse(text)
    module, found = _looked_up(target, root)
    if found is None:
        raise _missing(target, module, "attribute")
    return found


def _looked_up(target: Target, root: str) -> tuple[Any, Any]:
    """The module of a target, and what its name refers to there."""
    place, _, name = target.ref.rpartition(":")
    module = _load_file(Path(root, place)) if target.kind == "file" else _import(place, root)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return module, found


def _missing(target: Target, module: Any, what: str) -> BadTarget:
    place, _, name = target.ref.rpartition(":")
    defined = sorted(k for k, v in vars(module).items() if callable(v) and not k.startswith("_"))
    return BadTarget(
        f"{place} has no {what} {name!r}",
        hint=f"its functions: {', '.join(defined[:12]) or 'none'}",
    )


def _import(name: str, root: str) -> Any:
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        with forked.contained():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise BadTarget(f"importing {name} failed: {error}") from error
        raise BadTarget(
            f"no module named {name!r}",
            hint=f"Python looked in {root} and on its path; "
            "for a file, write path/file.py:function",
        ) from None
    except (Exception, SystemExit) as error:
        raise BadTarget(
            f"importing {name} failed: {type(error).__name__}: {error}",
            hint=f"try: python -c 'import {name}'",
        ) from error


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise BadTarget(f"no such file: {path}", hint="write path/file.py:function")
    path = path.resolve()
    # The content is part of the name, so that a changed file is a new module.
    version = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:8]
    name = f"{FILE_MODULE}{path.stem}_{version}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with forked.contained():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise BadTarget(
            f"loading {path} failed: {type(error).__name__}: {error}", hint=f"try: python {path}"
        ) from error
    return module

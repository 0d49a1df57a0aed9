"""Makes `joblib.parallel_config("runyard")` work, whichever of the two is imported first.

`import runyard` does not import joblib: it registers the backend where joblib is loaded already,
and otherwise registers it when joblib is imported, by way of `sys.meta_path`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

NAME = "runyard"
_PLACE = "joblib.parallel"  # where joblib keeps its register of backends


def register_joblib() -> None:
    """Register the backend `runyard` with joblib; `import runyard` does so where possible."""
    import joblib.parallel

    _register(joblib.parallel)


def watch_joblib() -> None:
    """Register now if joblib is loaded, else as soon as it is."""
    if _PLACE in sys.modules:
        _register(sys.modules[_PLACE])
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


def _register(module: ModuleType) -> None:
    with contextlib.suppress(AttributeError):  # it is still being loaded, or failed to
        module.register_parallel_backend(NAME, _backend)


def _backend(**options: Any) -> Any:
    from runyard.adapters.joblib import RunyardBackend

    return RunyardBackend(**options)


class _Watch:
    """Finds no module itself; lets others find joblib, and registers once it is loaded."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:  # noqa: ARG002
        if name != _PLACE:
            return None
        with contextlib.suppress(ValueError):  # another thread was faster
            sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                _register(module)

            with contextlib.suppress(AttributeError):  # a loader that can't be watched
                spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec

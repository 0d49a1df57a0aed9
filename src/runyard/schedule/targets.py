"""What a batch wants to run: read from a target or a file, and checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from runyard.attempt.load import load
from runyard.attempt.shell import fields
from runyard.errors import BadBatchFile, BadSpec
from runyard.spaces import near, read_text
from runyard.spec import batchfile, toml
from runyard.spec.batch import Batch, grid
from runyard.spec.task import Target, check_parameters, defaults_of
from runyard.store.stored_batch import StoredBatch


def batch_of_target(target: str) -> Batch:
    """The batch of a file (`.toml`), or of one function, with the options of its decorator."""
    if target.endswith(".toml"):
        return _from_file(Path(target))
    called = Target.parse(target)
    return grid(called).with_options(**_own_options(called, ()))


def _from_file(path: Path) -> Batch:
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise BadBatchFile(f"there is no batch file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadBatchFile(f"the batch file {path} can't be read: {error}") from None
    # Relative if possible, so that the same file is the same batch in any copy of the project.
    folder = near(path.resolve().parent)
    batch = batchfile.parse(text, source=str(path), folder=str(folder))
    if batch.target is None:
        return batch
    given = toml.loads(text).get("options", {})
    return batch.with_options(**_own_options(batch.target, given))


def _own_options(target: Target, given: Collection[str]) -> dict[str, Any]:
    """The options of the function's decorator, except those given."""
    if target.kind == "shell":
        return {}
    found = defaults_of(load(target, os.getcwd()))
    return {name: value for name, value in found.items() if name not in given}


def check_targets(batch: Batch, root: str) -> dict[str, Callable[..., Any]]:
    """Load what can be loaded, so that a mistake shows before anything starts."""
    found = {}
    described = [(batch.target, _names(batch))] if batch.target is not None else []
    listed = {(t.target, frozenset(t.params)) for t in batch.listed}  # most are alike
    for target, names in described + [(target, set(names)) for target, names in listed]:
        assert target is not None
        if target.kind == "shell":
            _check_command(target, names)
        elif target.kind in ("import", "file"):
            function = load(target, root)
            check_parameters(function, names)
            found[target.ref] = function
    return found


def check_recorded_target(recorded: StoredBatch) -> None:
    """Refuse to go on with a grid whose function can't be loaded: every task would fail."""
    target = recorded.target
    if target is not None and target.kind in ("import", "file"):
        load(target, recorded.row.root)


def _names(batch: Batch) -> set[str]:
    assert batch.plan is not None
    if not batch.plan.total:
        return set(batch.plan.fixed) | {axis.name for axis in batch.plan.axes}
    return set(batch.plan.params(0))


def _check_command(target: Target, names: set[str]) -> None:
    missing = sorted(fields(target.ref) - names)
    if missing:
        raise BadSpec(
            f"the command uses {{{missing[0]}}}, which has no value",
            hint=f"give it one with --set {missing[0]}=… or --grid {missing[0]}=…; "
            f"for literal braces, write {{{{{missing[0]}}}}}",
        )

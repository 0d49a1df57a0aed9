"""What a batch wants to run, looked at before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runyard.attempt.load import load
from runyard.attempt.shell import fields
from runyard.errors import BadSpec
from runyard.spec.batch import Batch
from runyard.spec.task import Target, check_parameters


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
            f"for braces that the shell is to see, write {{{{{missing[0]}}}}}",
        )

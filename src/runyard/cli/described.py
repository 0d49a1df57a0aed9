"""From a command line to a batch."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import msgspec

from runyard.cli.values import assignments, value_of, values_of
from runyard.errors import BadSpec, UsageError
from runyard.schedule.targets import batch_of_target
from runyard.spec.batch import Batch, grid
from runyard.spec.codec import encode
from runyard.spec.names import safe_name
from runyard.spec.plan import Axis, Plan, distinct
from runyard.spec.seeds import check_root
from runyard.spec.task import shell as command


def batch_of(
    target: str | None,
    shell: str | None,
    fixed: Sequence[str],
    lists: Sequence[str],
    *,
    replicates: int | None,
    common_random_numbers: bool | None,
    seed: int | None,
    name: str | None,
    codec: str | None,
    **options: Any,
) -> Batch:
    """The batch that the arguments of `run` describe: a file's with changes, or a function's."""
    if (target is None) == (shell is None):
        raise UsageError(
            "pass either TARGET or --shell",
            hint="TARGET is module:function, path/file.py:function or a batch file (.toml)",
        )
    batch = batch_of_target(target) if target is not None else grid(command(shell or ""))
    changes: dict[str, Any] = {}
    if name is not None:
        changes["name"] = safe_name(name, "batch name")
    if seed is not None:
        changes["seed"] = check_root(seed)
    if codec is not None:
        changes["codec"] = codec
    if batch.plan is not None:
        changes["plan"] = _changed(batch.plan, fixed, lists, replicates, common_random_numbers)
    elif fixed or lists or replicates or common_random_numbers:
        raise UsageError(
            "--set, --grid, --replicates and --common-random-numbers don't apply to [[task]]s",
            hint="change the batch file instead",
        )
    return msgspec.structs.replace(batch, **changes).with_options(**options)


def _changed(
    plan: Plan,
    fixed_texts: Sequence[str],
    list_texts: Sequence[str],
    replicates: int | None,
    common_random_numbers: bool | None,
) -> Plan:
    """The plan with changes. Built from axes, as a parameter may be called `name` or `seed`."""
    fixed = {name: value_of(text) for name, text in assignments(fixed_texts, "--set").items()}
    lists = {name: values_of(text) for name, text in assignments(list_texts, "--grid").items()}
    for name in fixed.keys() & lists.keys():
        raise BadSpec(f"{name!r} is in both --set and --grid", hint="remove one of them")
    for name, values in lists.items():
        if not len(values):
            raise BadSpec(f"{name!r} has no values", hint=f"write --grid {name}=1,2,3")
        distinct(values, name)
    changed = fixed.keys() | lists.keys()
    kept = [axis for axis in plan.axes if axis.role != "param" or axis.name not in changed]
    _refuse_tables(kept, changed)
    encode(fixed)
    crn = plan.common_random_numbers if common_random_numbers is None else common_random_numbers
    return Plan(
        {name: value for name, value in plan.fixed.items() if name not in lists} | fixed,
        [*kept, *(Axis(name, "param", values) for name, values in lists.items())],
        replicates or plan.replicates,
        common_random_numbers=crn,
    )


def _refuse_tables(axes: Sequence[Axis], names: Set[str]) -> None:
    """Refuse parameters that a variant or case would override."""
    for axis in axes:
        if axis.role == "param":
            continue
        for position in range(len(axis.values)):
            for name in axis.params(position).keys() & names:
                raise BadSpec(
                    f"{name!r} is set by a [[{axis.role}]] of the batch file",
                    hint=f"change that table, or remove {name} from --set and --grid",
                )

"""From a command line to a batch."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.cli.values import assignments, value_of, values_of
from runyard.errors import BadBatchFile, BadSpec, UsageError

if TYPE_CHECKING:
    from runyard.spec.batch import Batch
    from runyard.spec.plan import Axis, Plan
    from runyard.spec.task import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchArguments:
    """The arguments that describe a batch; None or empty if not given."""

    target: str | None = None
    shell: str | None = None
    set: Sequence[str] = ()
    grid: Sequence[str] = ()
    replicates: int | None = None
    common_random_numbers: bool | None = None
    seed: int | None = None
    name: str | None = None
    codec: str | None = None


def batch_of(words: BatchArguments) -> Batch:
    """The batch that the arguments describe: a file's with changes, or a function's."""
    if (words.target is None) == (words.shell is None):
        raise UsageError(
            "pass either TARGET or --shell",
            hint="TARGET is module:function, path/file.py:function or a batch file (.toml)",
        )
    if words.target is not None and words.target.endswith(".toml"):
        found = _from_file(Path(words.target))
    else:
        found = _of_one_target(words)
    return _changed(found, words)


def _of_one_target(words: BatchArguments) -> Batch:
    from runyard.spec.batch import grid
    from runyard.spec.task import Target, shell

    if words.shell is not None:
        return grid(shell(words.shell))
    target = Target.parse(words.target or "")
    return grid(target).with_options(**_brought(target, ()))


def _from_file(path: Path) -> Batch:
    from runyard.spaces import read_text
    from runyard.spec import toml
    from runyard.spec.batchfile import parse

    try:
        text = read_text(path)
    except FileNotFoundError:
        raise BadBatchFile(f"there is no batch file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadBatchFile(f"the batch file {path} can't be read: {error}") from None
    batch = parse(text, source=str(path), folder=_folder(path))
    if batch.target is None:
        return batch
    given = toml.loads(text).get("options", {})
    return batch.with_options(**_brought(batch.target, given))


def _folder(path: Path) -> str:
    """The file's folder, relative if possible, so that the same file is the same batch."""
    folder = path.resolve().parent
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def _brought(target: Target, given: Collection[str]) -> dict[str, Any]:
    """The options of the function's decorator, except those given."""
    from runyard.attempt.load import load
    from runyard.spec.task import defaults_of

    if target.kind == "shell":
        return {}
    found = defaults_of(load(target, os.getcwd()))
    return {name: value for name, value in found.items() if name not in given}


def _changed(batch: Batch, words: BatchArguments) -> Batch:
    """The batch with the changes from the command line."""
    import msgspec

    from runyard.spec.names import safe_name
    from runyard.spec.seeds import check_root

    changes: dict[str, Any] = {}
    if words.name is not None:
        changes["name"] = safe_name(words.name, "batch name")
    if words.seed is not None:
        changes["seed"] = check_root(words.seed)
    if words.codec is not None:
        changes["codec"] = words.codec
    if batch.plan is not None:
        changes["plan"] = _changed_plan(batch.plan, words)
    elif words.set or words.grid or words.replicates or words.common_random_numbers:
        raise UsageError(
            "--set, --grid, --replicates and --common-random-numbers don't apply to [[task]]s",
            hint="change the batch file instead",
        )
    return msgspec.structs.replace(batch, **changes)


def _changed_plan(plan: Plan, words: BatchArguments) -> Plan:
    """The plan with changes. Built from axes, as a parameter may be called `name` or `seed`."""
    from runyard.spec.codec import encode
    from runyard.spec.plan import Axis, Plan

    fixed = {name: value_of(text) for name, text in assignments(words.set, "--set").items()}
    lists = {name: values_of(text) for name, text in assignments(words.grid, "--grid").items()}
    for name in fixed.keys() & lists.keys():
        raise BadSpec(f"{name!r} is in both --set and --grid", hint="remove one of them")
    for name, values in lists.items():
        _check_values(name, values)
    kept = [
        axis
        for axis in plan.axes
        if axis.role != "param" or (axis.name not in fixed and axis.name not in lists)
    ]
    _refuse_tables(kept, fixed.keys() | lists.keys())
    encode(fixed)
    return Plan(
        {name: value for name, value in plan.fixed.items() if name not in lists} | fixed,
        [*kept, *(Axis(name, "param", values) for name, values in lists.items())],
        words.replicates or plan.replicates,
        common_random_numbers=(
            plan.common_random_numbers
            if words.common_random_numbers is None
            else words.common_random_numbers
        ),
    )


def _check_values(name: str, values: tuple[Any, ...] | range) -> None:
    from runyard.spec.plan import distinct

    if not len(values):
        raise BadSpec(f"{name!r} has no values", hint=f"write --grid {name}=1,2,3")
    distinct(values, name)


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

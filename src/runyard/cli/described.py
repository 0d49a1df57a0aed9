"""From a command line to a batch."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.cli.values import assignments, value_of, values_of
from runyard.errors import BadBatchFile, BadSpec, UsageError

if TYPE_CHECKING:
    from runyard.spec.batch import Batch
    from runyard.spec.plan import Axis, Plan
    from runyard.spec.task import Target


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
    import msgspec

    from runyard.spec.names import safe_name
    from runyard.spec.seeds import check_root

    if (target is None) == (shell is None):
        raise UsageError(
            "pass either TARGET or --shell",
            hint="TARGET is module:function, path/file.py:function or a batch file (.toml)",
        )
    is_file = target is not None and target.endswith(".toml")
    batch = _from_file(Path(target or "")) if is_file else _of_one_target(target, shell)
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


def _of_one_target(target: str | None, shell: str | None) -> Batch:
    from runyard.spec.batch import grid
    from runyard.spec.task import Target
    from runyard.spec.task import shell as command

    if target is None:
        return grid(command(shell or ""))
    called = Target.parse(target)
    return grid(called).with_options(**_brought(called, ()))


def _from_file(path: Path) -> Batch:
    from runyard.spec import toml
    from runyard.spec.batchfile import parse

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadBatchFile(f"there is no batch file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadBatchFile(f"the batch file {path} can't be read: {error}") from None
    # Relative if possible, so that the same file is the same batch in any checkout.
    folder = near(path.resolve().parent)
    batch = parse(text, source=str(path), folder=str(folder))
    if batch.target is None:
        return batch
    given = toml.loads(text).get("options", {})
    return batch.with_options(**_brought(batch.target, given))


def near(path: Path) -> Path:
    """The path from here, where it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _brought(target: Target, given: Collection[str]) -> dict[str, Any]:
    """The options of the function's decorator, except those given."""
    from runyard.attempt.load import load
    from runyard.spec.task import defaults_of

    if target.kind == "shell":
        return {}
    found = defaults_of(load(target, os.getcwd()))
    return {name: value for name, value in found.items() if name not in given}


def _changed(
    plan: Plan,
    fixed_texts: Sequence[str],
    list_texts: Sequence[str],
    replicates: int | None,
    common_random_numbers: bool | None,
) -> Plan:
    """The plan with changes. Built from axes, as a parameter may be called `name` or `seed`."""
    from runyard.spec.codec import encode
    from runyard.spec.plan import Axis, Plan, distinct

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

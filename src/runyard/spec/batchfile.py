"""A batch as a TOML text.

    name = "walks"
    run = "walks.py:walk"          # or  shell = "simulate --dim {dimension}"
    seed = 7
    replicates = 100

    [params]                       # the same for every task
    steps = 1000

    [grid]                         # every combination
    dimension = [1, 2, 3]

    [options]
    retries = 2
    timeout = "30s"

`[[variant]]` and `[[case]]` tables take the place of `[grid]`, `[[task]]` tables (with `name`,
`run` or `shell`, `params`, `after`, `priority`, `timeout`, `retries`) the place of all of them.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import msgspec

from runyard.errors import BadBatchFile, BadSpec, RunyardError
from runyard.spec import toml
from runyard.spec.batch import Batch, batch, grid, tasks
from runyard.spec.task import Target, Task, shell


class _TaskTable(msgspec.Struct, forbid_unknown_fields=True):
    run: str | None = None
    shell: str | None = None
    name: str | None = None
    params: dict[str, Any] = {}
    after: list[str] = []
    priority: str | None = None
    timeout: str | float | None = None
    retries: int | None = None


class _BatchTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str | None = None
    run: str | None = None
    shell: str | None = None
    seed: int | None = None
    replicates: int = 1
    common_random_numbers: bool = False
    codec: str = "msgpack"
    params: dict[str, Any] = {}
    grid: dict[str, list[Any]] = {}
    variant: list[dict[str, Any]] = []
    case: list[dict[str, Any]] = []
    task: list[_TaskTable] = []
    options: dict[str, Any] = {}


def parse(text: str, *, source: str = "batch file", folder: str = "") -> Batch:
    """The batch that a TOML text describes; `folder` is where its file targets are relative to."""
    try:
        found = toml.loads(text)
    except ValueError as error:
        raise BadBatchFile(f"{source} is not TOML: {error}") from None
    try:
        return _build(msgspec.convert(found, _BatchTable), PurePath(folder))
    except msgspec.ValidationError as error:
        keys = ", ".join(_BatchTable.__struct_fields__)
        raise BadBatchFile(f"{source}: {_readable(error)}", hint=f"the keys are: {keys}") from None
    except BadBatchFile:
        raise
    except RunyardError as error:
        raise BadBatchFile(f"{source}: {error.message}", hint=error.hint) from None


def _build(table: _BatchTable, folder: PurePath) -> Batch:
    if table.task:
        return _listed(table, folder)
    call = _call(table, folder)
    if table.variant or table.case:
        if table.grid:
            raise BadSpec("[grid] and [[variant]]/[[case]] exclude each other", hint="keep one")
        made = batch(
            call,
            table.variant or None,
            table.case or None,
            params=table.params,
            replicates=table.replicates,
            seed=table.seed,
            name=table.name,
            common_random_numbers=table.common_random_numbers,
            codec=table.codec,
        )
    else:
        made = grid(
            call,
            params=table.params,
            replicates=table.replicates,
            seed=table.seed,
            name=table.name,
            common_random_numbers=table.common_random_numbers,
            codec=table.codec,
            **_grid_names(table.grid),
        )
    return made.with_options(**table.options)


def _grid_names(values: dict[str, list[Any]]) -> dict[str, list[Any]]:
    own = {"fn", "params", "replicates", "seed", "name", "common_random_numbers", "codec"}
    taken = sorted(own & values.keys())
    if taken:
        raise BadSpec(
            f"[grid] can't vary a parameter named {taken[0]!r}",
            hint=f"use [[case]] tables: [[case]] {taken[0]} = …",
        )
    return values


def _listed(table: _BatchTable, folder: PurePath) -> Batch:
    for key in ("run", "shell", "params", "grid", "variant", "case"):
        if getattr(table, key):
            raise BadSpec(f"{key!r} and [[task]] exclude each other", hint="keep one of them")
    if table.common_random_numbers:
        raise BadSpec(
            "[[task]] tables have no common_random_numbers", hint="drop it, or use [grid]"
        )
    if table.replicates != 1:
        raise BadSpec("[[task]] tables have no replicates", hint="list the tasks, or use [grid]")
    listed = [
        Task(
            _call(task, folder, f"[[task]] number {number}: "),
            task.params,
            task.name,
            tuple(task.after),
            task.priority,
            task.timeout,
            task.retries,
        )
        for number, task in enumerate(table.task, start=1)
    ]
    return tasks(listed, name=table.name, seed=table.seed, codec=table.codec, **table.options)


def _call(table: _BatchTable | _TaskTable, folder: PurePath, where: str = "") -> Target:
    if (table.run is None) == (table.shell is None):
        raise BadSpec(
            f"{where}give one of 'run' and 'shell'",
            hint='run = "module:function" or run = "file.py:function" or shell = "command {x}"',
        )
    if table.shell is not None:
        return shell(table.shell)
    target = Target.parse(str(table.run))
    return Target("file", str(folder / target.ref)) if target.kind == "file" else target


def _readable(error: msgspec.ValidationError) -> str:
    text = str(error)
    message, _, place = text.partition(" - at ")
    return f"{message} (at {place.strip('`').removeprefix('$.') or 'the top'})" if place else text

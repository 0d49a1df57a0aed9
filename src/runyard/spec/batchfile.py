"""A batch as a TOML text.

    name = "walks"
    run = "walks.py:walk"          # or  shell = "simulate --dim {dimension}"
    seed = 7
    replicates = 100

    [params]                       # fixed for every task
    steps = 1000

    [grid]                         # every combination
    dimension = [1, 2, 3]

    [options]
    retries = 2
    timeout = "30s"

`[[variant]]` and `[[case]]` tables replace `[grid]`; `[[task]]` tables (with `name`, `run` or
`shell`, `params`, `after`, `priority`, `timeout`, `retries`) replace all of these.
"""

from __future__ import annotations

import re
from collections.abc import Set
from pathlib import PurePath
from typing import Any

import msgspec

from runyard.errors import BadBatchFile, BadSpec, RunyardError
from runyard.spec import toml
from runyard.spec.batch import Batch, batch, grid, tasks
from runyard.spec.names import did_you_mean
from runyard.spec.options import SPECS
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


_OF_A_GRID = (
    "run", "shell", "params", "grid", "variant", "case", "replicates", "common_random_numbers",
)  # fmt: skip


def parse(text: str, *, source: str = "batch file", folder: str = "") -> Batch:
    """The batch that a TOML text describes; its file targets are relative to `folder`."""
    try:
        data = toml.loads(text)
    except ValueError as error:
        raise BadBatchFile(f"{source} is not TOML: {error}") from None
    try:
        _check_keys(data)
        return _build(msgspec.convert(data, _BatchTable), PurePath(folder))
    except msgspec.ValidationError as error:
        raise BadBatchFile(f"{source}: {_sentence(error)}") from None
    except RunyardError as error:
        raise BadBatchFile(f"{source}: {error.message}", hint=error.hint) from None


def _build(table: _BatchTable, folder: PurePath) -> Batch:
    if table.task:
        return _listed(table, folder)
    call = _call(table, folder)
    settings: dict[str, Any] = {
        name: getattr(table, name)
        for name in ("params", "replicates", "seed", "name", "common_random_numbers", "codec")
    }
    if not table.variant and not table.case:
        made = grid(call, **settings, **_grid_names(table.grid, settings.keys()))
    elif table.grid:
        raise BadSpec("[grid] can't be combined with [[variant]] or [[case]]", hint="keep one")
    else:
        made = batch(call, table.variant or None, table.case or None, **settings)
    return made.with_options(**table.options)


def _grid_names(values: dict[str, list[Any]], settings: Set[str]) -> dict[str, Any]:
    """Refuse parameters with the name of a setting, which `grid` can't take as keywords."""
    taken = sorted({"fn", *settings} & values.keys())
    if taken:
        raise BadSpec(
            f"[grid] can't vary a parameter named {taken[0]!r}",
            hint=f"use [[case]] tables: [[case]] {taken[0]} = …",
        )
    return values


def _listed(table: _BatchTable, folder: PurePath) -> Batch:
    default = _BatchTable()
    for key in _OF_A_GRID:
        if getattr(table, key) != getattr(default, key):
            raise BadSpec(f"{key!r} can't be combined with [[task]]", hint="keep one of them")
    listed = [
        Task(
            _call(task, folder, f"[[task]] number {number}: "), task.params, task.name,
            tuple(task.after), task.priority, task.timeout, task.retries,
        )
        for number, task in enumerate(table.task, start=1)
    ]  # fmt: skip
    return tasks(listed, name=table.name, seed=table.seed, codec=table.codec, **table.options)


def _call(table: _BatchTable | _TaskTable, folder: PurePath, where: str = "") -> Target:
    if (table.run is None) == (table.shell is None):
        raise BadSpec(
            f"{where}write either 'run' or 'shell'",
            hint='run = "module:function" or run = "file.py:function" or shell = "command {x}"',
        )
    if table.shell is not None:
        return shell(table.shell)
    target = Target.parse(str(table.run))
    return Target("file", str(folder / target.ref)) if target.kind == "file" else target


def _check_keys(data: dict[str, Any]) -> None:
    """Refuse unknown keys."""
    places: list[tuple[str, Any, type[msgspec.Struct]]] = [("", data, _BatchTable)]
    if isinstance(data.get("task"), list):
        places += [
            (f" in [[task]] number {number}", table, _TaskTable)
            for number, table in enumerate(data["task"], start=1)
            if isinstance(table, dict)
        ]
    for where, table, known in places:
        for key in table.keys() - set(known.__struct_fields__):
            hint = f"the keys are: {', '.join(known.__struct_fields__)}"
            if key in SPECS:
                hint = f"{key} is an option: put it into the table [options]"
            close = did_you_mean(key, known.__struct_fields__)
            raise BadSpec(f"there is no key {key!r}{where}{close}", hint=hint)


def _sentence(error: msgspec.ValidationError) -> str:
    """What is wrong with a value, such as "seed must be a whole number, not text"."""
    message, _, path = str(error).partition(" - at ")
    place = path.strip("`").removeprefix("$").removeprefix(".")
    place = _ITEM.sub(lambda item: f"[[{item[1]}]] number {int(item[2]) + 1}", place)
    place = _ENTRY.sub(r"a value of \1", place).replace(".", ": ")
    wanted = _EXPECTED.fullmatch(message)
    if wanted is None:
        return f"{place}: {message}" if place else message
    kinds = [_WORDS.get(kind, kind) for kind in wanted[1].split(" | ") if kind != "null"]
    got = "a decimal number" if wanted[2] == "float" else _WORDS.get(wanted[2], wanted[2])
    return f"{place} must be {' or '.join(kinds)}, not {got}"


_ITEM = re.compile(r"(\w+)\[(\d+)\]")
_ENTRY = re.compile(r"(\w+)\[\.\.\.\]")
_EXPECTED = re.compile(r"Expected `(.+)`, got `(.+)`")
_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list", "object": "a table", "datetime": "a date", "date": "a date",
    "time": "a time",
}  # fmt: skip

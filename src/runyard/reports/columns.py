"""A batch's outcomes as columns of numbers: read once from the record, then used as arrays.

    record ── rows, each checked ──▶ build ── one file a column ──▶ arrays mapped from disk

A finished batch keeps its columns in its folder, so that ten million outcomes are decoded once.
Any numeric field of what a task returned is a metric, by its dotted path; one that is a boolean in
every task is a rate.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from runyard.errors import NotFound, StoreDamaged, UsageError
from runyard.spec.codec import decode, decode_as
from runyard.spec.fields import WHOLE, as_float, parts
from runyard.spec.names import did_you_mean
from runyard.spec.outcome import OutcomeRow, decoding_stored
from runyard.spec.status import COMPLETED

if TYPE_CHECKING:
    from runyard.reports.result import Result

FORMAT = 3
CHUNK = 65_536
MOST_METRICS = 500
FIXED = {"status": "u1", "attempt": "u4", "started": "f8", "seconds": "f8", "worker": "i8"}
"""The columns of every outcome; tasks without one have status 0."""

NUMBER, BOOLEAN, TEXT, OTHER = 1, 2, 4, 8
"""What a field of the outcomes holds, besides None; their sum where outcomes differ."""

NUMERIC = frozenset({NUMBER, BOOLEAN, NUMBER | BOOLEAN})
"""What a metric holds."""

_NUMBERS = frozenset({int, float, bool})

Array = NDArray[Any]


class Columns:
    """The columns of one batch, in task order; a task without a value is NaN."""

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        """Map every file now, so that a later rebuild can't remove them."""
        self._folder = folder
        self._sums: dict[str, int] = index["sums"]
        self._checked: set[str] = set()
        self.total: int = index["total"]
        self.names: tuple[str, ...] = tuple(index["metrics"])
        self.fields: dict[str, int] = index["fields"]
        """Every field that a completed task returned, and what it holds."""
        self.rates = frozenset(name for name in self.names if not self.fields[name] & NUMBER)
        """The metrics of which every value is a boolean."""
        kinds = {f"_{name}": kind for name, kind in FIXED.items()}
        kinds |= {str(number): "f8" for number in range(len(self.names))}
        self._files = {name: self._mapped(name, kind) for name, kind in kinds.items()}

    def fixed(self, name: str) -> Array:
        """One of `FIXED`."""
        return self._whole(f"_{name}")

    def metric(self, name: str) -> NDArray[np.float64]:
        """A metric by its path."""
        if name not in self.names:
            known = ", ".join(self.names[:20]) or "none: the tasks return no number"
            close = did_you_mean(name, self.names)
            raise NotFound(f"there is no metric {name!r}{close}", hint=f"the metrics are: {known}")
        return self._whole(str(self.names.index(name)))

    def chosen(self, names: Iterable[str] | None) -> list[str]:
        """The requested metrics; all of them if none is."""
        wanted = list(dict.fromkeys(names or ())) or list(self.names)
        for name in wanted:
            self.metric(name)
        return wanted

    def _mapped(self, name: str, kind: str) -> Array:
        if not self.total:
            return np.empty(0, kind)
        mapped = np.memmap(self._folder / name, kind, "r").view(np.ndarray)
        if len(mapped) != self.total:
            raise ValueError(f"{name} has another size")
        return mapped

    def _whole(self, name: str) -> Array:
        """A column, checked when it is used for the first time."""
        array = self._files[name]
        if self.total and name not in self._checked:
            if zlib.crc32(array.data) != self._sums[name]:
                raise StoreDamaged(
                    f"{self._folder / name} is not what was written",
                    hint="the file is damaged: remove its folder; it will be rebuilt",
                )
            self._checked.add(name)
        return array


def read_columns(result: Result) -> Columns:
    """The columns of a batch as it stands now; of a finished one from its folder, if they are."""
    recorded = result.recorded
    row = recorded.row
    key = [FORMAT, row.id, row.created, row.total, row.completed, row.failed, row.seconds]
    if result.folder is None or row.pending:
        scratch = _scratch(None)
        return _passing(scratch, _build_whole(result, scratch, key))
    home = result.folder / "columns"
    with _alone(home.parent):
        return _load(home, key) or _made(result, home, key)


def _made(result: Result, home: Path, key: list[Any]) -> Columns:
    """Columns that are kept beside the batch's files."""
    scratch = _scratch(home.parent)
    index = _build_whole(result, scratch, key)
    shutil.rmtree(home, ignore_errors=True)
    with contextlib.suppress(OSError):  # they can't be kept there
        scratch.rename(home)
        return Columns(home, index)
    return _passing(scratch, index)


def _passing(folder: Path, index: dict[str, Any]) -> Columns:
    """Columns whose files are removed with the object."""
    columns = Columns(folder, index)
    weakref.finalize(columns, shutil.rmtree, folder, ignore_errors=True)
    return columns


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time build the columns; the others then find them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # then nothing is put there either
        yield
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _scratch(parent: Path | None) -> Path:
    """A folder to build in: beside its final place, unless nothing can be written there."""
    if parent is not None:
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=".columns-", dir=parent))
    return Path(tempfile.mkdtemp(prefix="runyard-columns-"))


def _load(home: Path, key: list[Any]) -> Columns | None:
    try:
        index = json.loads((home / "index.json").read_text())
        return Columns(home, index) if index["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build_whole(result: Result, folder: Path, key: list[Any]) -> dict[str, Any]:
    """Fill a folder with columns and their index, or remove it."""
    try:
        index = _build(result, folder)
        (folder / "index.json").write_text(json.dumps({**index, "key": key}))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return index


def _build(result: Result, folder: Path) -> dict[str, Any]:
    """Read every outcome once and write each column."""
    with contextlib.ExitStack() as files:
        writer = _Writer(folder, files)
        total = result.recorded.row.next_task
        codec = result.codec_of_values()
        task = 0
        for rows in batched(result.rows(), CHUNK):
            first, last = rows[0].task, rows[-1].task
            writer.skip(first - task)
            if last - first + 1 == len(rows):
                writer.write(rows, codec)
            else:
                _write_gaps(writer, rows, codec)
            task = last + 1
        writer.skip(total - task)
        return {
            "total": max(total, task), "metrics": list(writer.names), "fields": writer.fields,
            "sums": writer.sums(),
        }  # fmt: skip


def _write_gaps(writer: _Writer, rows: list[OutcomeRow], codec: str) -> None:
    start = 0
    for at in range(1, len(rows) + 1):
        if at == len(rows) or rows[at].task != rows[at - 1].task + 1:
            writer.write(rows[start:at], codec)
            if at < len(rows):
                writer.skip(rows[at].task - rows[at - 1].task - 1)
            start = at


class _Column:
    """An open file, and the checksum of what it holds."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.checksum = 0

    def add(self, values: Array) -> None:
        values.tofile(self._file)
        self.checksum = zlib.crc32(values.data, self.checksum)


class _Writer:
    """One open file per column; a metric that appears late starts with NaN."""

    def __init__(self, folder: Path, files: contextlib.ExitStack) -> None:
        self._folder = folder
        self._files = files
        self._fixed = {name: self._open(f"_{name}") for name in FIXED}
        self._metrics: dict[str, _Column] = {}
        self.fields: dict[str, int] = {}
        self._written = 0

    @property
    def names(self) -> Iterable[str]:
        return self._metrics

    def sums(self) -> dict[str, int]:
        """The checksum of each file."""
        fixed = {f"_{name}": column.checksum for name, column in self._fixed.items()}
        metrics = enumerate(self._metrics.values())
        return fixed | {str(number): column.checksum for number, column in metrics}

    def skip(self, count: int) -> None:
        """Leave a gap of `count` tasks without an outcome."""
        while count > 0:
            step = min(count, CHUNK)
            for name, kind in FIXED.items():
                self._fixed[name].add(np.zeros(step, kind))
            for column in self._metrics.values():
                column.add(np.full(step, np.nan))
            self._written += step
            count -= step

    def write(self, rows: list[OutcomeRow], codec: str) -> None:
        """Rows of neighbouring tasks."""
        for name, kind in FIXED.items():
            at = OutcomeRow._fields.index(name)
            self._fixed[name].add(np.array([row[at] for row in rows], kind))
        read = decode if codec == "msgpack" else partial(decode_as, codec)
        with decoding_stored(f"the values of tasks {rows[0].task} to {rows[-1].task}"):
            values = [
                (None if row[3] is None else read(row[3])) if row[1] == COMPLETED else _NOTHING
                for row in rows
            ]
        columns = _numbers(values, self.fields)
        for name in columns:
            if name not in self._metrics:
                self._metrics[name] = self._begin(len(self._metrics))
        missing = np.full(len(rows), np.nan)
        for name, column in self._metrics.items():
            column.add(columns.get(name, missing))
        self._written += len(rows)

    def _begin(self, number: int) -> _Column:
        if number >= MOST_METRICS:
            raise UsageError(
                f"the tasks return more than {MOST_METRICS} different numbers",
                hint="return a list where the number of fields is not fixed",
            )
        column = self._open(str(number))
        for start in range(0, self._written, CHUNK):
            column.add(np.full(min(CHUNK, self._written - start), np.nan))
        return column

    def _open(self, name: str) -> _Column:
        file = (self._folder / name).open("wb", buffering=0)
        return _Column(self._files.enter_context(file))


_NOTHING: Any = object()
"""In place of the value of a task that did not complete."""


def _numbers(values: list[Any], fields: dict[str, int]) -> dict[str, NDArray[np.float64]]:
    """The numeric fields of many values, by path; notes in `fields` what each of them holds."""
    alike = _of_one_shape(values)
    if alike is not None:
        with contextlib.suppress(OverflowError):  # a number too large for an array
            columns, kinds = alike
            found = {path: np.array(column, float) for path, column in columns.items()}
            for path, kind in kinds.items():
                fields[path] = fields.get(path, 0) | kind
            return found
    found = {}
    for at, value in enumerate(values):
        for path, part in parts(value) if value is not _NOTHING else ():
            kind = kind_of(part)
            fields[path] = fields.get(path, 0) | kind
            if kind in NUMERIC:
                if path not in found:
                    found[path] = np.full(len(values), np.nan)
                found[path][at] = as_float(part)
    return found


def kind_of(part: Any) -> int:
    """What a field holds; nothing for None."""
    if isinstance(part, bool):
        return BOOLEAN
    if isinstance(part, int | float):
        return NUMBER
    if isinstance(part, str):
        return TEXT
    return 0 if part is None else OTHER


def _of_one_shape(values: list[Any]) -> tuple[dict[str, list[Any]], dict[str, int]] | None:
    """The columns of values that are all bare numbers, or all the same flat fields of numbers."""
    kinds = {type(value) for value in values}
    if kinds <= _NUMBERS:
        columns = {WHOLE: values}
    elif kinds != {dict} or any(value.keys() != values[0].keys() for value in values):
        return None
    else:
        columns = {key: [value[key] for value in values] for key in values[0]}
    held = {key: {type(x) for x in column} for key, column in columns.items()}
    if not all(type(key) is str and kinds <= _NUMBERS for key, kinds in held.items()):
        return None
    mixed = NUMBER | BOOLEAN
    found = {key: NUMBER if bool not in kinds else mixed for key, kinds in held.items()}
    return columns, found | {key: BOOLEAN for key, kinds in held.items() if kinds == {bool}}


def batched(rows: Iterable[OutcomeRow], size: int) -> Iterator[list[OutcomeRow]]:
    """Lists of `size` rows."""
    source = iter(rows)
    while page := list(islice(source, size)):
        yield page

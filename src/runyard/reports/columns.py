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
import math
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from runyard import modes
from runyard.errors import NotFound, StoreDamaged, StoreFull, UsageError
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
PADDED = 1 << 20
"""Up to this number, and `TIMES` the last outcome's, tasks without an outcome have a place."""

TIMES, MOST_GAP = 8, 1 << 26
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
        """Map all files at once, so that a later rebuild can't remove them."""
        self._folder = folder
        self._sums: dict[str, int] = index["sums"]
        self._checked: set[str] = set()
        self.total: int = index["total"]
        """How many tasks have a place: all, unless far more are planned than have an outcome."""
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
    """The columns of a batch as recorded now; those of a finished batch are kept in its folder."""
    recorded = result.recorded
    row = recorded.row
    key = [FORMAT, row.id, row.created, row.total, row.completed, row.failed, row.seconds]
    if result.folder is None or row.pending:
        return _built(result, key, None)
    home = result.folder / "columns"
    with _alone(home.parent):
        return _load(home, key) or _built(result, key, home)


def _built(result: Result, key: list[Any], home: Path | None) -> Columns:
    """New columns; if they can't be kept at `home`, their files are removed with the object."""
    folder = _scratch(None if home is None else home.parent)
    try:
        index = _build(result, folder)
        with open(folder / "index.json", "w", opener=modes.opener) as file:
            json.dump({**index, "key": key}, file)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        if home is not None:  # the disk of the yard is full
            return _built(result, key, None)
        raise StoreFull(
            f"no room left in {folder.parent}: {error}", hint="name another folder in TMPDIR"
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if home is not None:
        shutil.rmtree(home, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.rename(home)
            return Columns(home, index)
    columns = Columns(folder, index)
    weakref.finalize(columns, shutil.rmtree, folder, ignore_errors=True)
    return columns


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time build the columns; the others then find them."""
    try:
        modes.make_folder(folder)
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


def _build(result: Result, folder: Path) -> dict[str, Any]:
    """Read every outcome once and write each column."""
    total, codec = result.recorded.row.next_task, result.codec_of_values()
    with contextlib.ExitStack() as files:
        writer = _Writer(folder, codec, files)
        for window, rows in groupby(result.rows(), lambda row: row.task // CHUNK):
            writer.write(window * CHUNK, list(rows))
        return writer.finish(total)


class _Column:
    """An open file that grows to the right; places that are skipped hold `missing`."""

    def __init__(self, file: BinaryIO, kind: str, missing: float) -> None:
        self._file = file
        self._kind = kind
        self._missing = missing
        self.length = 0
        self.checksum = 0

    def pad(self, length: int) -> None:
        while self.length < length:
            self._add(np.full(min(CHUNK, length - self.length), self._missing, self._kind))

    def put(self, start: int, at: Array, values: Array | list[Any]) -> None:
        """Write values to ascending places from `start` on."""
        self.pad(start)
        window = np.full(at[-1] + 1, self._missing, self._kind)
        window[at] = values
        self._add(window)

    def _add(self, values: Array) -> None:
        values.tofile(self._file)
        self.checksum = zlib.crc32(values.data, self.checksum)
        self.length += len(values)


class _Writer:
    """One open file per column."""

    def __init__(self, folder: Path, codec: str, files: contextlib.ExitStack) -> None:
        self._folder = folder
        self._decode = decode if codec == "msgpack" else partial(decode_as, codec)
        self._files = files
        self._fixed = {name: self._open(f"_{name}", kind, 0) for name, kind in FIXED.items()}
        self._metrics: dict[str, _Column] = {}
        self._fields: dict[str, int] = {}

    def write(self, start: int, rows: list[OutcomeRow]) -> None:
        """Write the outcomes of tasks from `start` on, at most `CHUNK` of them."""
        if start - self._fixed["status"].length > MOST_GAP:
            raise UsageError(
                f"task {rows[0].task:,} has an outcome, and more than {MOST_GAP:,} before it don't",
                hint="outcomes this far apart can be listed and exported as rows, not summarised",
            )
        at = np.array([row.task for row in rows]) - start
        for name, column in self._fixed.items():
            field = OutcomeRow._fields.index(name)
            column.put(start, at, [row[field] for row in rows])
        read = self._decode
        with decoding_stored(f"the values of tasks {rows[0].task} to {rows[-1].task}"):
            values = [
                (None if row[3] is None else read(row[3])) if row[1] == COMPLETED else _NOTHING
                for row in rows
            ]
        for name, numbers in _numbers(values, self._fields).items():
            if name not in self._metrics:
                if len(self._metrics) >= MOST_METRICS:
                    raise UsageError(
                        f"the tasks return more than {MOST_METRICS} different numbers",
                        hint="return a list where the number of fields is not fixed",
                    )
                self._metrics[name] = self._open(str(len(self._metrics)), "f8", math.nan)
            self._metrics[name].put(start, at, numbers)

    def finish(self, total: int) -> dict[str, Any]:
        """Bring all columns to one length; return the index."""
        columns = {f"_{name}": column for name, column in self._fixed.items()}
        columns |= {str(at): column for at, column in enumerate(self._metrics.values())}
        end = max(column.length for column in columns.values())
        total = max(end, min(total, max(PADDED, TIMES * end)))
        for column in columns.values():
            column.pad(total)
        sums = {name: column.checksum for name, column in columns.items()}
        names = list(self._metrics)
        return {"total": total, "metrics": names, "fields": self._fields, "sums": sums}

    def _open(self, name: str, kind: str, missing: float) -> _Column:
        file = open(self._folder / name, "wb", buffering=0, opener=modes.opener)  # noqa: SIM115
        return _Column(self._files.enter_context(file), kind, missing)


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
    return columns, {
        key: BOOLEAN if kinds == {bool} else mixed if bool in kinds else NUMBER
        for key, kinds in held.items()
    }

"""The wide table of Parquet and polars: a row per task, a column per parameter and field.

A field of the returned values that holds numbers alone is a column of doubles; one of text alone is
that text. Every other one, a list or a field of mixed kinds, has each value as JSON. Fields that a
task did not return are null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.reports.columns import NUMERIC, TEXT
from runyard.reports.export import AFTER, BEFORE, heads, text_of
from runyard.reports.formats import missing
from runyard.reports.result import codes_of
from runyard.spec.codec import decode_as
from runyard.spec.fields import parts
from runyard.spec.outcome import ErrorInfo, OutcomeRow, decoding_stored
from runyard.spec.shown import jsonable
from runyard.spec.status import COMPLETED, FINAL_STATES, Status

if TYPE_CHECKING:
    import polars

    from runyard.reports.coordinates import Coordinate
    from runyard.reports.result import Result

ROW_GROUP = 1 << 18
_NAMES = {status.code: status.value for status in FINAL_STATES}


def wide(result: Result, status: Status | str | None = None) -> Iterator[dict[str, Any]]:
    """Columns by name, some rows at a time; only tasks that have an outcome."""
    labels, fields = _heads(result)
    errors = _errors(result)
    begun = result.recorded.row.started or 0.0
    wanted = codes_of(status)
    texts = _Texts(result)
    columns = result.columns
    axes = [
        (head, axis, _text if _kind(axis) == "string" else _plain)
        for head, axis in zip(labels, result.coordinates.values(), strict=True)
    ]
    for low in range(0, columns.total, ROW_GROUP):
        states = columns.fixed("status")[low : low + ROW_GROUP]
        kept = low + np.flatnonzero(states > 0 if wanted is None else states == wanted[0])
        if not len(kept):
            continue
        tasks = kept.tolist()
        page: dict[str, Any] = {
            "task": kept,
            "status": [_NAMES[code] for code in states[kept - low].tolist()],
        }
        for head, axis, shown in axes:
            codes = axis.codes(low, low + len(states))[kept - low].tolist()
            page[head] = [shown(axis.values[code]) if code >= 0 else None for code in codes]
        found = texts.of(tasks)
        for head, name in zip(fields, columns.fields, strict=True):
            page[head] = found[name] if name in found else columns.metric(name)[kept]
        for name in ("attempt", "started", "seconds"):
            page[name] = columns.fixed(name)[kept]
        page["wait"] = np.maximum(0.0, page["started"] - begun)
        page["worker"] = columns.fixed("worker")[kept]
        page["error"] = [errors[task].kind if task in errors else None for task in tasks]
        page["message"] = [errors[task].message if task in errors else None for task in tasks]
        yield page


class _Texts:
    """The fields that are not purely numbers, read from the store in task order."""

    def __init__(self, result: Result) -> None:
        self._name = result.name
        self._kinds = {name: k for name, k in result.columns.fields.items() if k not in NUMERIC}
        self._codec = result.codec_of_values()
        self._rows = result.rows() if self._kinds else iter(())
        self._row = next(self._rows, None)

    def of(self, tasks: list[int]) -> dict[str, list[str | None]]:
        """The fields of some tasks, which must come after those of the last call."""
        found: dict[str, list[str | None]] = {name: [None] * len(tasks) for name in self._kinds}
        for at, task in enumerate(tasks if self._kinds else ()):
            while self._row is not None and self._row.task < task:
                self._row = next(self._rows, None)
            if self._row is not None and self._row.task == task:
                for name, part in self._fields(self._row):
                    found[name][at] = part
        return found

    def _fields(self, row: OutcomeRow) -> Iterator[tuple[str, str]]:
        if row.status != COMPLETED or row.value is None:
            return
        with decoding_stored(f"the value of {self._name}/{row.task}"):
            value = decode_as(self._codec, row.value)
        for name, part in parts(value):
            if name in self._kinds and part is not None:
                text = jsonable(part)
                is_text = self._kinds[name] == TEXT
                yield name, text if is_text else json.dumps(text, ensure_ascii=False)


def to_polars(result: Result) -> polars.DataFrame:
    """The wide table in memory."""
    try:
        import polars as pl
    except ImportError:
        raise missing("to_polars", "polars") from None
    types = {
        "int64": pl.Int64, "double": pl.Float64, "bool": pl.Boolean, "string": pl.String,
        "uint32": pl.UInt32,
    }  # fmt: skip
    schema = {name: types[kind] for name, kind in kinds(result).items()}
    pages = [pl.DataFrame(page, schema_overrides=schema) for page in wide(result)]
    return pl.concat(pages).fill_nan(None) if pages else pl.DataFrame(schema=schema)


def _heads(result: Result) -> tuple[list[str], list[str]]:
    """The names of the columns of parameters and of what tasks returned."""
    taken = {*BEFORE, *AFTER}
    labels = heads(result.coordinates, taken, "param")
    return labels, heads(result.columns.fields, taken | set(labels), "value")


def kinds(result: Result) -> dict[str, str]:
    """The kind of each column, in order."""
    labels, fields = _heads(result)
    of_labels = map(_kind, result.coordinates.values())
    held = result.columns.fields.values()
    of_fields = ("double" if kind in NUMERIC else "string" for kind in held)
    own = [*zip(labels, of_labels, strict=True), *zip(fields, of_fields, strict=True)]
    return {**BEFORE, **dict(own), **AFTER}


def _kind(axis: Coordinate) -> str:
    if isinstance(axis.values, range):
        return "int64"
    values = [_plain(value) for value in axis.values]
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64" if all(abs(v or 0) < 2**63 for v in values) else "string"
    return "double" if kinds and kinds <= {int, float} else "string"


def _plain(value: Any) -> Any:
    """A numpy scalar as Python's own number; anything else as it is."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar else value


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else text_of(value)


def _errors(result: Result) -> dict[int, ErrorInfo]:
    """Why tasks did not complete, by number."""
    found = {}
    for status in (Status.FAILED, Status.CANCELLED):
        for outcome in result.outcomes(status):
            if outcome.error is not None:
                found[outcome.task] = outcome.error
    return found

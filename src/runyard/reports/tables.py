"""The wide table: a row a task, a column for each parameter and each metric. Parquet and polars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.errors import UsageError
from runyard.reports.export import heads, text_of
from runyard.reports.metrics import Table, read_table
from runyard.reports.result import codes_of
from runyard.spec.status import FINAL_STATES, Status

if TYPE_CHECKING:
    import polars

    from runyard.reports.coordinates import Coordinate
    from runyard.reports.result import Result

FIRST, LAST = ("task", "status"), ("attempt", "started", "seconds", "worker", "error")
ROW_GROUP = 1 << 18
_NAMES = {status.code: status.value for status in FINAL_STATES}


def wide(result: Result, status: Status | str | None = None) -> Iterator[dict[str, Any]]:
    """Columns by name, some rows at a time; only tasks that have an outcome."""
    labels, metrics = _heads(result)
    texts = {name for name, axis in result.coordinates.items() if _kind(axis) == "string"}
    errors = _errors(result)
    wanted = codes_of(status)
    for table in read_table(result, ROW_GROUP):
        kept = table.status > 0 if wanted is None else table.status == wanted[0]
        if kept.any():
            yield _page(table, kept, labels, metrics, texts, errors)


def _page(
    table: Table, kept: Any, labels: list[str], metrics: list[str], texts: set[str],
    errors: dict[int, str],
) -> dict[str, Any]:  # fmt: skip
    at = kept.nonzero()[0].tolist()
    tasks = table.task[kept]
    page: dict[str, Any] = {
        "task": tasks,
        "status": [_NAMES[code] for code in table.status[kept].tolist()],
    }
    for head, (name, values) in zip(labels, table.labels.items(), strict=True):
        mine = values if len(at) == len(values) else [values[i] for i in at]
        page[head] = [_text(v) for v in mine] if name in texts else [_plain(v) for v in mine]
    for head, array in zip(metrics, table.metrics.values(), strict=True):
        page[head] = array[kept]
    for name in ("attempt", "started", "seconds", "worker"):
        page[name] = getattr(table, name)[kept]
    page["error"] = [errors.get(task) for task in tasks.tolist()]
    return page


def write_parquet(result: Result, path: Path, status: Status | str | None = None) -> int:
    """Write the wide table, a part at a time; how many rows."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing("Parquet files need pyarrow") from None
    schema = pa.schema(_fields(result, pa))
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for page in wide(result, status):
            arrays = [pa.array(page[field.name], field.type, from_pandas=True) for field in schema]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            count += len(page["task"])
    return count


def to_polars(result: Result) -> polars.DataFrame:
    """The wide table in memory."""
    try:
        import polars as pl
    except ImportError:
        raise missing("to_polars needs polars") from None
    kinds = {
        "int64": pl.Int64, "double": pl.Float64, "bool": pl.Boolean, "string": pl.String,
        "uint32": pl.UInt32,
    }  # fmt: skip
    schema = {name: kinds[kind] for name, kind in _kinds(result).items()}
    pages = [pl.DataFrame(page, schema_overrides=schema) for page in wide(result)]
    return pl.concat(pages).fill_nan(None) if pages else pl.DataFrame(schema=schema)


def missing(what: str) -> UsageError:
    """An optional package that is not installed."""
    return UsageError(what, hint="install it: pip install 'runyard[tables]'")


def _fields(result: Result, pa: Any) -> list[Any]:
    kinds = {
        "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_(), "string": pa.string(),
        "uint32": pa.uint32(),
    }  # fmt: skip
    return [pa.field(name, kinds[kind]) for name, kind in _kinds(result).items()]


def _heads(result: Result) -> tuple[list[str], list[str]]:
    """The names of the columns of parameters and of metrics."""
    labels = heads(result.coordinates, {*FIRST, *LAST}, "param")
    return labels, heads(result.columns.names, {*FIRST, *LAST, *labels}, "value")


def _kinds(result: Result) -> dict[str, str]:
    """The kind of each column, in order."""
    labels, metrics = _heads(result)
    axes = result.coordinates.values()
    kinds = {"task": "int64", "status": "string"}
    kinds |= {head: _kind(axis) for head, axis in zip(labels, axes, strict=True)}
    kinds |= dict.fromkeys(metrics, "double")
    rest = {"attempt": "uint32", "started": "double", "seconds": "double", "worker": "int64"}
    return kinds | rest | {"error": "string"}


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


def _errors(result: Result) -> dict[int, str]:
    return {
        outcome.task: outcome.error.kind
        for outcome in result.outcomes(Status.FAILED)
        if outcome.error is not None
    }

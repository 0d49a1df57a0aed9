"""Outcomes as files: JSON, CSV, text and Parquet, streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from runyard.errors import UsageError
from runyard.plaintext import ascii_json, plain
from runyard.reports.result import Outcome, Result
from runyard.reports.sheets import write_csv
from runyard.spaces import whole_file
from runyard.spec.fields import parts
from runyard.spec.shown import jsonable
from runyard.spec.status import Status

BEFORE, AFTER = (
    ("task", "status"),
    ("attempt", "started", "seconds", "wait", "worker", "error", "message"),
)
"""Columns that every table has, on both sides of the batch's own."""


def outcome_document(outcome: Outcome, *, trace: bool = True) -> dict[str, Any]:
    """An outcome as plain JSON."""
    error = None
    if outcome.error is not None:
        error = {
            "class": outcome.error.kind,
            "message": outcome.error.message,
            "where": outcome.error.where,
        }
        if trace:
            error["trace"] = outcome.error.trace
    return {
        "task": outcome.id,
        "status": str(outcome.status),
        "params": jsonable(outcome.params),
        "labels": jsonable(outcome.labels),
        "value": jsonable(outcome.value),
        "error": error,
        "attempt": outcome.attempt,
        "started": outcome.started,
        "seconds": outcome.seconds,
        "wait": outcome.wait,
        "worker": outcome.worker,
    }


def export(result: Result, format_: str, path: Path, status: Status | str | None = None) -> int:
    """Write a batch's outcomes to a file, whole or not at all; how many there were."""
    writer = _writer(format_)
    with whole_file(path) as place:
        if writer is None:
            from runyard.reports.tables import write_parquet

            return write_parquet(result, place, status)
        with place.open("w", newline="", encoding="utf-8") as file:
            return writer(result, file, status)


def write_to(result: Result, format_: str, file: TextIO, status: Status | str | None = None) -> int:
    """Write a batch's outcomes to an open file; how many there were."""
    writer = _writer(format_)
    if writer is None:
        raise UsageError("a Parquet file can't go to stdout", hint="give a file with -o")
    return writer(result, file, status)


def outcome_line(outcome: Outcome) -> str:
    """An outcome on one line."""
    labels = " ".join(f"{name}={text_of(value)}" for name, value in outcome.labels.items())
    parts = (outcome.id, str(outcome.status), labels, outcome_cell(outcome))
    return "  ".join(part for part in parts if part)


def outcome_cell(outcome: Outcome) -> str:
    """What a task returned, or why it did not, on one line."""
    if outcome.error is not None:
        return " ".join(f"{outcome.error.kind}: {outcome.error.message}".split())
    return json.dumps(jsonable(outcome.value), ensure_ascii=False)


def text_of(value: Any) -> str:
    """A parameter on one line: text as it is, everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)
    return " ".join(text.split())


def _write_json(result: Result, file: TextIO, status: Status | str | None) -> int:
    recorded = result.recorded
    head = {"batch": result.name, "seed": recorded.seed, "total": recorded.row.total}
    file.write(ascii_json(head)[:-1] + ', "outcomes": [')
    count = 0
    for outcome in result.outcomes(status):
        file.write(("," if count else "") + "\n" + ascii_json(outcome_document(outcome)))
        count += 1
    file.write("\n]}\n")
    return count


def _write_csv(result: Result, file: TextIO, status: Status | str | None) -> int:
    labels, values = _columns(result, status)
    taken = {*BEFORE, *AFTER}
    label_heads = heads(labels, taken, "param")
    value_heads = heads(values, taken | set(label_heads), "value")
    count = 0

    def rows() -> Iterator[list[Any]]:
        nonlocal count
        yield [*BEFORE, *label_heads, *value_heads, *AFTER]
        for outcome in result.outcomes(status):
            yield _row(outcome, labels, values)
            count += 1

    write_csv(file, rows())
    return count


def _row(outcome: Outcome, labels: list[str], values: list[str]) -> list[Any]:
    flat = dict(parts(outcome.value)) if outcome.status is Status.COMPLETED else {}
    error = outcome.error
    return [
        outcome.id,
        str(outcome.status),
        *(_cell(outcome.labels.get(name)) for name in labels),
        *(_cell(flat.get(name)) for name in values),
        outcome.attempt,
        outcome.started,
        outcome.seconds,
        outcome.wait,
        outcome.worker,
        error.kind if error else "",
        error.message if error else "",
    ]


def _write_text(result: Result, file: TextIO, status: Status | str | None) -> int:
    file.write(result.summary() + "\n\n")
    count = 0
    for outcome in result.outcomes(status):
        file.write(plain(outcome_line(outcome)) + "\n")
        count += 1
    return count


def _columns(result: Result, status: Status | str | None) -> tuple[list[str], list[str]]:
    labels: dict[str, None] = {}
    values: dict[str, None] = {}
    for outcome in result.outcomes(status):
        labels |= dict.fromkeys(outcome.labels)
        if outcome.status is Status.COMPLETED:
            values |= dict.fromkeys(path for path, _ in parts(outcome.value))
    return list(labels), list(values)


def heads(names: Iterable[str], taken: set[str], prefix: str) -> list[str]:
    """Column names; one that is taken gets a prefix, so that no two columns share theirs."""
    found: dict[str, None] = {}
    for name in names:
        head = name
        while head in taken or head in found:
            head = f"{prefix}.{head}"
        found[head] = None
    return list(found)


def _cell(value: Any) -> Any:
    plain = jsonable(value)
    return json.dumps(plain) if isinstance(plain, dict | list) else plain


def _writer(format_: str) -> Writer | None:
    if format_ not in FORMATS:
        raise UsageError(f"no format {format_!r}", hint=f"use one of: {', '.join(FORMATS)}")
    return FORMATS[format_]


Writer = Callable[[Result, TextIO, Status | str | None], int]
FORMATS: dict[str, Writer | None] = {
    "json": _write_json, "csv": _write_csv, "parquet": None, "txt": _write_text,
}  # fmt: skip
"""Every format there is, and what writes it as text; a file's suffix names one of them."""

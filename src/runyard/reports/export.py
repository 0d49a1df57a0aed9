"""Outcomes as files: JSON, CSV and text, streamed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from runyard.errors import UsageError
from runyard.reports.result import Outcome, Result
from runyard.spec.codec import jsonable
from runyard.spec.status import Status


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
    writer = FORMATS.get(format_)
    if writer is None:
        raise UsageError(f"no format {format_!r}", hint=f"use one of: {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", newline="", encoding="utf-8") as file:
            count = writer(result, file, status)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write_json(result: Result, file: TextIO, status: Status | str | None) -> int:
    recorded = result.recorded
    head = {"batch": result.name, "seed": recorded.seed, "total": recorded.row.total}
    file.write(json.dumps(head)[:-1] + ', "outcomes": [')
    count = 0
    for outcome in result.outcomes(status):
        file.write(("," if count else "") + "\n" + json.dumps(outcome_document(outcome)))
        count += 1
    file.write("\n]}\n")
    return count


def _write_csv(result: Result, file: TextIO, status: Status | str | None) -> int:
    rows = csv.writer(file)
    labels, values = _columns(result, status)
    rows.writerow(
        [
            "task",
            "status",
            *labels,
            *values,
            "attempt",
            "started",
            "seconds",
            "wait",
            "error",
            "message",
        ]
    )
    count = 0
    for outcome in result.outcomes(status):
        flat = flatten(outcome.value)
        error = outcome.error
        rows.writerow(
            [
                outcome.id,
                str(outcome.status),
                *(_cell(outcome.labels.get(name)) for name in labels),
                *(_cell(flat.get(name)) for name in values),
                outcome.attempt,
                outcome.started,
                outcome.seconds,
                outcome.wait,
                error.kind if error else "",
                error.message if error else "",
            ]
        )
        count += 1
    return count


def _write_text(result: Result, file: TextIO, status: Status | str | None) -> int:
    file.write(result.summary() + "\n\n")
    count = 0
    for outcome in result.outcomes(status):
        file.write(outcome_line(outcome) + "\n")
        count += 1
    return count


def outcome_line(outcome: Outcome) -> str:
    """An outcome on one line."""
    labels = " ".join(f"{k}={_cell(v)}" for k, v in outcome.labels.items())
    what = f"{outcome.error.kind}: {outcome.error.message}" if outcome.error else None
    shown = what if what is not None else json.dumps(jsonable(outcome.value))
    return f"{outcome.id}  {outcome.status}  {labels}  {shown}".replace("\n", " ")


def flatten(value: Any, prefix: str = "value") -> dict[str, Any]:
    """A nested value as one level, its fields by dotted path."""
    plain = jsonable(value)
    if not isinstance(plain, dict) or not plain:
        return {prefix: plain}
    found: dict[str, Any] = {}
    for key, inner in plain.items():
        path = key if prefix == "value" else f"{prefix}.{key}"
        found.update(flatten(inner, path) if isinstance(inner, dict) else {path: inner})
    return found


def _columns(result: Result, status: Status | str | None) -> tuple[list[str], list[str]]:
    labels: dict[str, None] = {}
    values: dict[str, None] = {}
    for outcome in result.outcomes(status):
        labels |= dict.fromkeys(outcome.labels)
        if outcome.status is Status.COMPLETED:
            values |= dict.fromkeys(flatten(outcome.value))
    return list(labels), [name for name in values if name not in labels]


def _cell(value: Any) -> Any:
    plain = jsonable(value)
    return json.dumps(plain) if isinstance(plain, dict | list) else plain


Writer = Callable[[Result, TextIO, Status | str | None], int]
FORMATS: dict[str, Writer] = {"json": _write_json, "csv": _write_csv, "txt": _write_text}

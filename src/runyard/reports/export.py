"""Outcomes as documents, rows and lines, and as files in every format, streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from runyard.plaintext import ascii_json
from runyard.reports.formats import Exportable, format_named
from runyard.reports.result import Outcome, Result, codes_of
from runyard.spec.fields import parts
from runyard.spec.shown import jsonable
from runyard.spec.status import Status

BEFORE = {"task": "int64", "status": "string"}
AFTER = {
    "attempt": "uint32", "started": "double", "seconds": "double", "wait": "double",
    "worker": "int64", "error": "string", "message": "string",
}  # fmt: skip
"""Columns of every table, before and after those of the batch, with their Arrow types."""


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


class Outcomes(Exportable):
    """The outcomes of a batch, of one status or all."""

    closing = "\n]}\n"

    def __init__(self, result: Result, status: Status | str | None = None) -> None:
        codes_of(status)  # refuses an unknown status before a file is made
        self._result = result
        self._status = status

    @property
    def opening(self) -> str:  # type: ignore[override]
        """Name, seed and size of the batch, before the outcomes."""
        recorded = self._result.recorded
        head = {"batch": recorded.name, "seed": recorded.seed, "total": recorded.row.total}
        return ascii_json(head)[:-1] + ', "outcomes": ['

    def documents(self) -> Iterator[dict[str, Any]]:
        """Every outcome as plain JSON."""
        return (outcome_document(outcome) for outcome in self._result.outcomes(self._status))

    def rows(self) -> Iterator[list[Any]]:
        """A column for each parameter and each field of the values."""
        labels, values = _columns(self._result, self._status)
        taken = {*BEFORE, *AFTER}
        label_heads = heads(labels, taken, "param")
        value_heads = heads(values, taken | set(label_heads), "value")
        yield [*BEFORE, *label_heads, *value_heads, *AFTER]
        for outcome in self._result.outcomes(self._status):
            yield _row(outcome, labels, values)

    def heading(self) -> str:
        """The batch in a few lines."""
        return self._result.summary() + "\n\n"

    def lines(self) -> Iterator[str]:
        """Every outcome on a line."""
        return (outcome_line(outcome) for outcome in self._result.outcomes(self._status))

    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        from runyard.reports.tables import kinds

        return kinds(self._result)

    def pages(self) -> Iterator[dict[str, Any]]:
        """The wide table, some rows at a time."""
        from runyard.reports.tables import wide

        return wide(self._result, self._status)


def export(result: Result, format_: str, path: Path, status: Status | str | None = None) -> int:
    """Write a batch's outcomes to a file completely or not at all; return how many there were."""
    return format_named(format_).write(Outcomes(result, status), path)


def outcome_line(outcome: Outcome) -> str:
    """An outcome on one line."""
    labels = " ".join(f"{name}={text_of(value)}" for name, value in outcome.labels.items())
    parts = (outcome.id, str(outcome.status), labels, outcome_cell(outcome))
    return "  ".join(part for part in parts if part)


def outcome_cell(outcome: Outcome) -> str:
    """The value or the error of a task, on one line."""
    if outcome.error is not None:
        lines = f"{outcome.error.kind}: {outcome.error.message}".splitlines()
        return "; ".join(filter(None, (" ".join(line.split()) for line in lines)))
    return json.dumps(jsonable(outcome.value), ensure_ascii=False)


def text_of(value: Any) -> str:
    """A parameter on one line: text as it is, everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)
    return " ".join(text.split())


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


def _columns(result: Result, status: Status | str | None) -> tuple[list[str], list[str]]:
    labels: dict[str, None] = {}
    values: dict[str, None] = {}
    for outcome in result.outcomes(status):
        labels |= dict.fromkeys(outcome.labels)
        if outcome.status is Status.COMPLETED:
            values |= dict.fromkeys(path for path, _ in parts(outcome.value))
    return list(labels), list(values)


def heads(names: Iterable[str], taken: set[str], prefix: str) -> list[str]:
    """Unique column names; one that is taken gets a prefix."""
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

"""What happened to one task: its attempts, what they printed, and its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runyard.errors import NotFound
from runyard.reports.printed import TaskOutput
from runyard.spec.outcome import ErrorInfo
from runyard.spec.shown import jsonable
from runyard.spec.status import Status
from runyard.store.base import Store
from runyard.store.rows import AttemptRow
from runyard.store.stored_batch import StoredBatch


def task_story(
    store: Store,
    recorded: StoredBatch,
    number: int,
    printed: Mapping[int, TaskOutput],
    events: Iterable[dict[str, Any]],
    attempt: int | None = None,
) -> dict[str, Any]:
    """All that is known about a task, or about one attempt of it, as plain JSON."""
    name = f"{recorded.name}/{number}"
    with store.snapshot() as view:
        recorded.check_task(view, number)
        row = recorded.outcome(view, number)
        earlier = view.attempts(recorded.id, number)
        labels = recorded.labels(view, number)
    attempts = _attempts(printed, earlier, attempt)
    if attempt is not None and not attempts and (row is None or row.attempt != attempt):
        raise NotFound(f"{name} has no attempt {attempt}")
    error = None if row is None or row.error is None else ErrorInfo.decode(row.error)
    return {
        "task": name,
        "status": "unfinished" if row is None else str(Status.of(row.status)),
        "labels": jsonable(labels),
        "seconds": None if row is None else row.seconds,
        "error": None if error is None else error._asdict(),
        "attempts": attempts,
        "events": [
            event for event in events if attempt is None or event.get("attempt", attempt) == attempt
        ],
    }


def _attempts(
    printed: Mapping[int, TaskOutput], earlier: Sequence[AttemptRow], wanted: int | None
) -> list[dict[str, Any]]:
    """What each attempt printed, and the errors of all but the last."""
    errors: dict[int, str] = {}
    own = 0
    for row in earlier:
        info = ErrorInfo.decode(row.error)
        errors[own] = f"{info.kind}: {info.message}"
        own += 1 - row.crash
    return [
        {"attempt": n, "error": errors.get(n), **printed.get(n, TaskOutput())._asdict()}
        for n in sorted(printed.keys() | errors.keys())
        if wanted in (None, n)
    ]

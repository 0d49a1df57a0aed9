"""Views of a queue: its status, one task, a page of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runyard.doors.agent.queue import messages
from runyard.doors.agent.queue.figures import figures, resources
from runyard.doors.agent.queue.ledger import Ledger, Running
from runyard.doors.agent.queue.model import BatchStats, Response, TaskStatus
from runyard.spec.status import FINAL_STATES
from runyard.store.base import Snapshot
from runyard.store.rows import BatchRow

MOST_LISTED = 20
"""How many running and how many upcoming tasks a detailed status lists."""

MOST_FAILURES = 5


def status(ledger: Ledger, *, detailed: bool = False) -> Response:
    """The statistics of a queue; in detail also its running, upcoming and failed tasks."""
    with ledger.yard.store.snapshot() as view:
        if not ledger.exists(view):
            data = {"state": "stopped", **BatchStats().document()}
            return Response("the queue is empty", data=data)
        now = figures(ledger, view)
        data = {**now.document(), "resources": resources(now.engines)}
        if detailed:
            data |= _tasks(ledger, view, now.row, now.under_way)
            left_out = {
                "running_tasks": now.stats.running - len(data["running_tasks"]),
                "next_tasks": now.stats.queued - len(data["next_tasks"]),
                "failures": now.stats.failed - len(data["failures"]),
            }
            data["left_out"] = {name: count for name, count in left_out.items() if count > 0}
            data["functions"] = ledger.functions.names
    return Response(messages.status(data), data=data)


def _tasks(ledger: Ledger, view: Snapshot, row: BatchRow, under_way: Running) -> dict[str, Any]:
    running = ledger.tasks(view, row, TaskStatus.RUNNING, 0, MOST_LISTED)
    failed = ledger.tasks(view, row, TaskStatus.FAILED, 0, MOST_FAILURES, "latest")
    following, position = [], 1
    for queued in ledger.queued(view, row, under_way, 0, MOST_LISTED):
        task = messages.brief(ledger.task(view, row, queued.task, under_way))
        following.append({**task, "position": position, "waits_for": queued.waiting})
        position += not queued.waiting
    return {
        "running_tasks": [messages.brief(task) for task in running],
        "next_tasks": following,
        "failures": [messages.brief(task) for task in failed],
    }


def task_status(ledger: Ledger, number: int) -> Response:
    """One task in full, with its position while it is queued."""
    with ledger.yard.store.snapshot() as view:
        row = ledger.row(view)
        under_way = ledger.under_way(view, row)
        task = ledger.task(view, row, number, under_way)
        data = task.document()
        queued = view.queued(row.id, number)
        if queued is not None and task.status is TaskStatus.QUEUED:
            data["position"] = ledger.position(view, queued, under_way)
            data["waits_for"] = queued.waiting
    return Response(messages.task(data), data=data)


def progress(ledger: Ledger, numbers: Sequence[int]) -> Response:
    """Progress of some tasks: like the status of a queue that holds these alone."""
    with ledger.yard.store.snapshot() as view:
        row = ledger.row(view)
        under_way = ledger.under_way(view, row)
        engines = ledger.engines(view, row)
        tasks = [ledger.task(view, row, number, under_way) for number in numbers]
    counts = {each.value: sum(task.status is each for task in tasks) for each in TaskStatus}
    done = sum(counts[each.value] for each in FINAL_STATES)
    is_running = done < len(tasks) and bool(engines or under_way)
    data = {
        "state": "running" if is_running else "stopped", "total_tasks": len(tasks), **counts,
        "progress_percentage": round(100 * done / len(tasks), 2),
        "tasks": [messages.brief(task) for task in tasks],
    }  # fmt: skip
    return Response(messages.progress(data), data=data)


def results(
    ledger: Ledger,
    redact: Any,
    *,
    kind: str,
    status: TaskStatus | None,
    offset: int,
    limit: int,
    order: str,
) -> Response:
    """A page of results in one of `ORDERS`, and where the next page starts."""
    with ledger.yard.store.snapshot() as view:
        row = ledger.row(view)
        found = ledger.tasks(view, row, status, offset, limit + 1, order)
        count = row.done if status is None else getattr(row, status.value, None)
    page = [redact(task.document()) for task in found[:limit]]
    shown, message = messages.results(page, kind)
    more = len(found) > limit or shown < len(page)
    following = offset + shown if more else None
    data = {
        "results": page, "order": order, "offset": offset, "total": count,
        "next_offset": following,
    }  # fmt: skip
    return Response(messages.paged(message, following, count), data=data)

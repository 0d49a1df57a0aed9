"""`runyard status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import command
from runyard.cli.session import Session
from runyard.cli.table import pairs, table
from runyard.format import count, duration, rate

if TYPE_CHECKING:
    from runyard.reports.result import Result
    from runyard.store.rows import BatchRow
    from runyard.yard import Yard


@command("runyard status", "runyard status walks", "runyard status walks --json")
@click.argument("batch", required=False)
def status(session: Session, batch: str | None) -> None:
    """Show counts, progress, rate, time left and workers.

    Without BATCH: every batch, oldest first.
    """
    with session.yard() as yard:
        if batch is not None:
            _one(session, yard, yard.results(batch))
        else:
            _all(session, yard.status())


def _all(session: Session, results: list[Result]) -> None:
    found = [_document(result) for result in results]
    rows = [
        [
            each["batch"],
            each["state"],
            f"{each['done']:,}/{each['total']:,}",
            f"{each['failed']:,}",
            f"{each['cancelled']:,}",
            _rate(each),
            _left(each),
        ]
        for each in found
    ]
    heads = ["batch", "state", "done", "failed", "cancelled", "rate", "left"]
    text = table(heads, rows, numbers=(2, 3, 4, 5, 6)) if rows else "no batches yet"
    session.answer(text, {"batches": found})


def _one(session: Session, yard: Yard, result: Result) -> None:
    from runyard.spec.status import Priority

    recorded, alive = result.recorded, result.engines_alive()
    with yard.store.snapshot() as view:
        timings = view.timings(recorded.id)
        engines = [engine for engine in view.engines() if engine.id in alive]
    document = _document(result) | {
        "seed": recorded.seed,
        "priority": Priority(recorded.row.priority).name.lower(),
        "digest": result.digest,
        "mean_seconds": timings.mean_seconds,
        "max_seconds": timings.max_seconds,
        "mean_wait": timings.mean_wait,
        "engines": [
            {"pid": e.pid, "host": e.host, "backend": e.backend, "workers": e.workers}
            for e in engines
        ],
    }
    done, total = document["done"], document["total"]
    share = done / total if total else 1.0
    left = _left(document)
    task_time = (
        f"mean {duration(timings.mean_seconds)}, longest {duration(timings.max_seconds)}; "
        f"mean wait {duration(max(0.0, timings.mean_wait))}"
    )
    facts = {
        "state": document["state"],
        "progress": f"{_bar(share)} {done:,}/{total:,} ({share:.0%})",
        "queue": f"{document['queued']:,} waiting, {document['running']:,} running",
        "rate": _rate(document) and _rate(document) + (f", {left} left" if left else ""),
        "task time": task_time if done else "",
        "engine": [
            f"pid {e.pid} on {e.host}, {count(e.workers, 'worker')} ({e.backend})" for e in engines
        ],
        "priority": document["priority"],
        "seed": str(recorded.seed),
        "digest": document["digest"],
    }
    if done >= total:
        facts |= {"queue": "", "rate": ""}
    shown = pairs(facts)
    session.answer(f"{result.headline()}\n{shown}", document)


def _document(result: Result) -> dict[str, Any]:
    row, stats = result.recorded.row, result.stats
    return {
        "batch": row.name,
        "state": _state(row, stats.workers),
        "total": stats.total,
        "done": stats.done,
        "queued": stats.queued,
        "running": stats.running,
        "completed": stats.completed,
        "failed": stats.failed,
        "cancelled": stats.cancelled,
        "rate": round(stats.rate, 3),
        "eta": None if stats.eta is None else round(stats.eta, 1),
        "workers": stats.workers,
        "seconds": round(stats.seconds, 3),
        "created": row.created,
    }


def _rate(document: dict[str, Any]) -> str:
    return rate(document["rate"]) if document["rate"] else ""


def _left(document: dict[str, Any]) -> str:
    is_done = document["eta"] is None or document["done"] >= document["total"]
    return "" if is_done else duration(document["eta"])


def _state(row: BatchRow, workers: int) -> str:
    if not row.pending:  # even if an engine is waiting for more
        return "finished"
    if workers:
        return "running"
    return "unfinished" if row.started is not None else "queued"


def _bar(share: float, width: int = 20) -> str:
    full = int(share * width)
    return "━" * full + "─" * (width - full)

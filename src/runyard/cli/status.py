"""`runyard status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.session import Session, examples, shared
from runyard.cli.table import pairs, table

if TYPE_CHECKING:
    from runyard.reports.result import Result, Stats
    from runyard.store.rows import BatchRow, EngineRow, Timings
    from runyard.yard import Yard


@click.command(
    epilog=examples("runyard status", "runyard status walks", "runyard status walks --json")
)
@click.argument("batch", required=False)
@shared
def status(session: Session, batch: str | None) -> int:
    """Show counts, progress, rate, time left and workers.

    Without BATCH: every batch, oldest first.
    """
    if batch is None and not session.has_yard():
        session.note(f"there is no yard at {session.place} yet")
        session.document({"batches": []})
        return 0
    with session.yard() as yard:
        if batch is not None:
            _one(session, yard, batch)
        else:
            _all(session, yard)
    return 0


def _all(session: Session, yard: Yard) -> None:
    found = [_document(result.recorded.row, result.stats) for result in yard.status()]
    session.document({"batches": found})
    if not found:
        session.say("no batches yet")
        return
    rows = [
        (
            each["batch"],
            each["state"],
            f"{each['done']:,}/{each['total']:,}",
            f"{each['failed']:,}",
            f"{each['cancelled']:,}",
            each["rate_text"],
            each["left_text"],
        )
        for each in map(_with_texts, found)
    ]
    heads = ("batch", "state", "done", "failed", "cancelled", "rate", "left")
    session.say(table(heads, rows, numbers=(2, 3, 4, 5, 6)))


def _one(session: Session, yard: Yard, name: str) -> None:
    result = yard.results(name)
    recorded, stats = result.recorded, result.stats
    with yard.store.snapshot() as view:
        timings = view.timings(recorded.id)
        engines = [
            engine
            for engine in view.engines()
            if engine.batch == recorded.id and yard.store.alive(engine.id)
        ]
    document = _document(recorded.row, stats)
    document |= {
        "seed": recorded.seed,
        "priority": _priority(recorded.row.priority),
        "digest": result.digest,
        "mean_seconds": timings.mean_seconds,
        "max_seconds": timings.max_seconds,
        "mean_wait": timings.mean_wait,
        "engines": [
            {"pid": e.pid, "host": e.host, "backend": e.backend, "workers": e.workers}
            for e in engines
        ],
    }
    session.document(document)
    session.say(result.headline())
    session.say(pairs(_facts(result, stats, timings, engines, _with_texts(document))))


def _facts(
    result: Result,
    stats: Stats,
    timings: Timings,
    engines: list[EngineRow],
    document: dict[str, Any],
) -> list[tuple[str, str]]:
    from runyard.format import count, duration

    share = stats.done / stats.total if stats.total else 1.0
    facts = [
        ("state", document["state"]),
        ("progress", f"{_bar(share)} {stats.done:,}/{stats.total:,} ({share:.0%})"),
    ]
    if stats.done < stats.total:
        facts.append(("queue", f"{stats.queued:,} waiting, {stats.running:,} running"))
    if stats.rate and stats.done < stats.total:
        left = f", {document['left_text']} left" if document["left_text"] else ""
        facts.append(("rate", document["rate_text"] + left))
    if stats.done:
        facts.append(
            (
                "task time",
                f"mean {duration(timings.mean_seconds)}, longest {duration(timings.max_seconds)}; "
                f"mean wait {duration(max(0.0, timings.mean_wait))}",
            )
        )
    facts += [
        ("engine", f"pid {e.pid} on {e.host}, {count(e.workers, 'worker')} ({e.backend})")
        for e in engines
    ]
    facts.append(("priority", document["priority"]))
    facts.append(("seed", str(result.seed)))
    if document["digest"]:
        facts.append(("digest", document["digest"]))
    return facts


def _document(row: BatchRow, stats: Stats) -> dict[str, Any]:
    return {
        "batch": row.name,
        "state": _state(row, stats),
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


def _with_texts(document: dict[str, Any]) -> dict[str, Any]:
    from runyard.format import duration, rate

    eta = document["eta"] if document["done"] < document["total"] else None
    return document | {
        "rate_text": rate(document["rate"]) if document["rate"] else "",
        "left_text": "" if eta is None else duration(eta),
    }


def _state(row: BatchRow, stats: Stats) -> str:
    if not row.pending:  # even if an engine is waiting for more
        return "finished"
    if stats.workers:
        return "running"
    return "unfinished" if row.started is not None else "queued"


def _priority(number: int) -> str:
    from runyard.spec.status import Priority

    return Priority(number).name.lower()


def _bar(share: float, width: int = 20) -> str:
    full = int(share * width)
    return "━" * full + "─" * (width - full)

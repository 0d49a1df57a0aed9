"""`runyard run --dry-run`: what a batch would take, from a few of its tasks tried out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from runyard.cli.session import Session, style
from runyard.errors import NotFound

if TYPE_CHECKING:
    from runyard.reports.result import Result
    from runyard.spec.batch import Batch
    from runyard.spec.task import Options

TRIED = 20
PATIENCE = 10.0
"""Tasks that are tried, and seconds after which no more are started."""


def estimate(session: Session, batch: Batch, left: int, **place: Any) -> int:
    """Try some tasks in a yard of their own, which is gone afterwards; say what all would take."""
    from runyard.yard import Yard

    limits = {"tasks": TRIED, "minutes": PATIENCE / 60}
    with Yard("memory:") as yard:
        tried = batch.with_options(budget=limits, fail_fast=False)
        result = yard.run(tried, **place, progress=False)
        _tell(session, batch, result, left, _lanes(**place))
    return 0


def left_to_run(session: Session, batch: Batch) -> int:
    """How many tasks have no outcome in the yard yet."""
    try:
        with session.yard() as yard:
            row = yard.results(batch.record_name).recorded.row
            return max(0, batch.total - row.done)
    except NotFound:
        return batch.total


def _lanes(backend: str, workers: int | None, **where: Any) -> int:
    from runyard.backends import open_backend

    place = open_backend(backend, workers, **where)
    place.close()
    return place.lanes


def _tell(session: Session, batch: Batch, result: Result, left: int, lanes: int) -> None:
    from runyard.reports.progress import duration
    from runyard.stats.summary import Summary, plus_minus

    stats = result.stats
    times = Summary(_seconds(result))
    seconds = times.mean * left / min(lanes, max(1, left)) if times.count else math.nan
    session.say(
        f"{left:,} of {batch.total:,} tasks to run on {lanes} workers: "
        + style(f"about {duration(seconds)}", bold=True)
    )
    session.say(f"  from {stats.done} tasks tried, {stats.failed} of which failed")
    sums: dict[str, Any] = {}
    for name, most in _metrics(batch.options, result).items():
        summary = result.summaries(name)[0].summaries[name]
        interval = summary.interval()
        half = interval.half * left if interval is not None else math.inf
        sums[name] = {"sum": summary.mean * left, "half": half if math.isfinite(half) else None}
        limit = "" if most is None else f" of a budget of {most:g}"
        session.say(f"  {name}: {plus_minus(summary.mean * left, half)} in all{limit}")
    for group in result.failures()[:3]:
        session.say("  " + style(group.line(), fg="red"))
    session.document(
        {
            "batch": batch.record_name, "total": batch.total, "left": left, "workers": lanes,
            "tried": stats.done, "failed": stats.failed, "seconds": seconds, "metrics": sums,
        }
    )  # fmt: skip


def _seconds(result: Result) -> list[float]:
    """What tasks took; without each worker's first, which also imports what all of them use."""
    outcomes = sorted(result.outcomes(), key=lambda outcome: outcome.started)
    firsts = {outcome.worker: outcome.task for outcome in reversed(outcomes)}
    rest = [o.seconds for o in outcomes if o.task != firsts[o.worker]]
    return rest or [o.seconds for o in outcomes]


def _metrics(options: Options, result: Result) -> dict[str, float | None]:
    """What to add up: the metrics of the budget, or the first few that there are."""
    names = result.columns.names
    asked: dict[str, float | None] = {n: m for n, m in options.budget.items() if n in names}
    return asked or dict.fromkeys(names[:5])

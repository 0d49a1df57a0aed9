"""What the rest of a batch would take, by its outcomes on record."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runyard.cli.session import style
from runyard.spec.status import Status
from runyard.spec.task import UNITS

if TYPE_CHECKING:
    from runyard.reports.result import Result
    from runyard.yard import Yard

SAMPLE = 10_000
"""Outcomes of which each worker's first is left out; among more of them it makes no difference."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What tasks that have not run will take, at the mean of those that have."""

    outcomes: int  # on record, those of cancelled tasks left out
    left: int
    workers: int
    seconds: float | None = None  # None: there is nothing to tell it from
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def lines(self, budget: dict[str, float]) -> list[str]:
        """The estimate for people."""
        from runyard.format import count, duration
        from runyard.stats.summary import plus_minus

        if self.seconds is None:
            return ["no estimate: nothing is on record; --try 20 runs 20 tasks and gives one"]
        workers = count(self.workers, "worker")
        outcomes = count(self.outcomes, "outcome")
        took = style(f"about {duration(self.seconds)}", bold=True)
        tasks = "1 task takes" if self.left == 1 else f"{self.left:,} tasks take"
        found = [f"{tasks} {took} on {workers}, by {outcomes} on record"]
        for name, each in self.metrics.items():
            half = math.inf if each["half"] is None else each["half"]
            limit = f" of a budget of {budget[name]:g}" if name in budget else ""
            found.append(f"{name}: {plus_minus(each['sum'] or 0.0, half)} more{limit}")
        return found

    def document(self) -> dict[str, Any]:
        """The estimate as JSON."""
        return {"seconds": self.seconds, "workers": self.workers, "metrics": self.metrics}


def estimate(yard: Yard, result: Result, left: int, workers: int, asked: list[str]) -> Estimate:
    """What `left` tasks will take, from the outcomes that the batch has."""
    count, mean = _timings(yard, result)
    if not count:
        return Estimate(0, left, workers)
    seconds = mean * left / max(1, min(workers, left))
    return Estimate(count, left, workers, seconds, _sums(result, left, asked))


def _timings(yard: Yard, result: Result) -> tuple[int, float]:
    """Tasks that ran, and their mean seconds.

    A worker's first task also imports what all of them use, which counts for too much in a sample.
    """
    row = result.recorded.row
    if row.done > SAMPLE:
        with yard.store.snapshot() as view:
            timings = view.timings(row.id)
        return timings.tasks, timings.mean_seconds
    ran = [row for row in result.rows() if row.status != Status.CANCELLED.code]
    ran.sort(key=lambda row: row.started)
    firsts = {row.worker: row.task for row in reversed(ran)}
    rest = [row.seconds for row in ran if row.task != firsts[row.worker]]
    times = rest or [row.seconds for row in ran]
    return len(ran), sum(times) / len(times) if times else 0.0


def _sums(result: Result, left: int, asked: list[str]) -> dict[str, dict[str, float | None]]:
    """What metrics will add up to, those that there are."""
    found: dict[str, dict[str, float | None]] = {}
    for name in asked:
        if name in UNITS or name not in result.columns.names:
            continue
        summary = result.summaries(name)[0].summaries[name]
        interval = summary.interval()
        half = math.inf if interval is None else interval.half * left
        found[name] = {"sum": summary.mean * left, "half": half if math.isfinite(half) else None}
    return found

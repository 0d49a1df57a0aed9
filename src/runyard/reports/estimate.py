"""What the rest of a batch will take, estimated from its outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from runyard.reports.result import Result
from runyard.spec.option_kinds import UNITS
from runyard.spec.status import Status
from runyard.store.base import Store

SAMPLE = 10_000
"""Up to this number of outcomes, each worker's first is left out; beyond, it hardly counts."""


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What unfinished tasks will take, at the mean of finished ones."""

    outcomes: int  # of tasks that were not cancelled
    left: int
    workers: int
    seconds: float | None = None  # None: no outcomes to estimate from
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()  # metrics asked for that no outcome on record has
    known: tuple[str, ...] = ()  # those that there are

    def to_data(self) -> dict[str, Any]:
        """The estimate as JSON."""
        metrics = {**self.metrics, **dict.fromkeys(self.absent)}
        return {"seconds": self.seconds, "workers": self.workers, "metrics": metrics}


def estimate(
    store: Store, result: Result, left: int, workers: int, metrics: list[str]
) -> RunEstimate:
    """What `left` tasks will take, judging by the batch's outcomes."""
    ended, mean = _timings(store, result)
    if not ended:
        return RunEstimate(0, left, workers)
    seconds = mean * left / max(1, min(workers, left))
    known = tuple(result.columns.names)
    absent = tuple(n for n in dict.fromkeys(metrics) if n not in UNITS and n not in known)
    return RunEstimate(ended, left, workers, seconds, _sums(result, left, metrics), absent, known)


def _timings(store: Store, result: Result) -> tuple[int, float]:
    """The number of tasks that ran, and their mean seconds.

    A worker's first task also imports modules, which would weigh too much in a small sample.
    """
    row = result.recorded.row
    if row.done > SAMPLE:
        with store.snapshot() as view:
            timings = view.timings(row.id)
        return timings.tasks, timings.mean_seconds
    ran = [row for row in result.rows() if row.status != Status.CANCELLED.code]
    ran.sort(key=lambda row: row.started)
    firsts = {row.worker: row.task for row in reversed(ran)}
    rest = [row.seconds for row in ran if row.task != firsts[row.worker]]
    times = rest or [row.seconds for row in ran]
    return len(ran), sum(times) / len(times) if times else 0.0


def _sums(result: Result, left: int, metrics: list[str]) -> dict[str, dict[str, float | None]]:
    """What metrics will add up to, as far as tasks return them."""
    found: dict[str, dict[str, float | None]] = {}
    for name in metrics:
        if name not in result.columns.names:
            continue
        summary = result.summaries(name)[0].summaries[name]
        interval = summary.interval()
        half = math.inf if interval is None else interval.half * left
        found[name] = {"sum": summary.mean * left, "half": half if math.isfinite(half) else None}
    return found

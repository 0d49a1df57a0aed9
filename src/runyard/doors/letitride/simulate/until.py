"""Plays sessions until a condition holds: `ci95(ev_per_hand) < 0.0005`.

Blocks are added until it does. The condition is checked repeatedly, so intervals are confidence
sequences, which stay valid for any number of checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from runyard.doors.letitride.report.aggregate import RATIOS, Aggregate
from runyard.doors.letitride.report.results import SimulationResults
from runyard.doors.letitride.simulate.controller import SimulationController
from runyard.errors import NotFound, UsageError
from runyard.reports.progress import ShowProgress
from runyard.stats.conditions import Condition, Verdict, parse_rule
from runyard.stats.intervals import Interval
from runyard.stats.stopping import ConfidenceSequence, RateSequence

MEANS, RATES = ConfidenceSequence(), RateSequence()
SESSION_METRICS = ("session_profit", "session_win_rate", "ruin_rate")
METRICS = (*RATIOS, *SESSION_METRICS)
"""The metrics of conditions."""

MOST_GROWTH, LEAST_GROWTH = 3.0, 1.1
OnCheck = Callable[[Verdict, int], None]


@dataclass(frozen=True)
class AggregateStatistics:
    """The statistics of an aggregate that conditions use."""

    found: Aggregate

    def statistic(self, name: str, metric: str, level: float | None) -> float:
        """One statistic; NaN if there is none yet."""
        if name == "count":
            return float(self.found.sessions)
        if name in ("ci", "low", "high"):
            interval = self._interval(metric, level or 0.95)
            return {"ci": interval.half, "low": interval.low, "high": interval.high}[name]
        if name in ("mean", "rate"):
            return self._value(metric)
        raise UsageError(
            f"a condition can't use {name} of {metric}", hint="use mean, ci95, low95 or high95"
        )

    def share(self, status: str) -> float:
        """Failed blocks end the run, so all blocks that are checked have completed."""
        return 1.0 if status == "completed" else 0.0

    def _value(self, metric: str) -> float:
        if metric in RATIOS:
            return self.found.ratios[metric].value
        if metric == "session_profit":
            return self.found.profit.mean
        return self._count(metric) / self.found.rows

    def _interval(self, metric: str, level: float) -> Interval:
        """The interval of a metric.

        The values of a linearised ratio have the spread of its standard error; their skewness is
        taken from the sessions' profits.
        """
        found = self.found
        if metric in ("session_win_rate", "ruin_rate"):
            return RATES.interval(self._count(metric), found.rows, level)
        if metric == "session_profit":
            return MEANS.interval(found.profit.moments, level)
        ratio = found.ratios[metric]
        spread = ratio.standard_error * math.sqrt(ratio.count)
        if not spread > 0:
            return Interval(-math.inf, math.inf, level, "none yet")
        skew = found.profit.moments.skew
        half = float(MEANS.half_widths(ratio.count, spread, skew, level))
        return Interval(ratio.value - half, ratio.value + half, level, "confidence sequence")

    def _count(self, metric: str) -> int:
        if metric == "session_win_rate":
            return self.found.outcomes["win"]
        return int(self.found.stops[-1])


def read_condition(text: str) -> Condition:
    """Read a condition on the aggregate of sessions."""
    condition = parse_rule(text)
    for metric in condition.metrics():
        if metric not in METRICS:
            raise NotFound(f"unknown figure {metric!r}", hint=f"figures: {', '.join(METRICS)}")
    return condition


def run_until(
    controller: SimulationController,
    condition: Condition,
    *,
    progress: ShowProgress = None,
    fresh: bool = False,
    on_check: OnCheck | None = None,
) -> SimulationResults:
    """Play sessions, at least the configuration's, until the condition holds."""
    job = controller.job(open_end=True)
    batch = controller.batch(job)
    first = -(-controller.config.simulation.num_sessions // job.size)
    blocks = first if fresh else max(first, controller.recorded_blocks(batch))
    while True:
        grown = batch.with_replicates(blocks)
        results = controller.run_batch(grown, job, progress=progress, fresh=fresh)
        fresh = False
        if results.result.stats.completed < blocks:  # stopped on request
            return results
        figures = AggregateStatistics(results.aggregate)
        verdict = condition.evaluate(figures)
        if on_check is not None:
            on_check(verdict, blocks)
        if verdict.holds:
            return results
        blocks = math.ceil(blocks * growth(condition, figures))


def growth(condition: Condition, figures: AggregateStatistics) -> float:
    """The factor by which the number of sessions probably has to grow."""
    wanted = [2.0]
    goals = condition.goals()
    if goals:
        halves = [figures.statistic("ci", goal.metric, goal.level) for goal in goals]
        wanted = [1.02 * (half / goal.half) ** 2 for half, goal in zip(halves, goals, strict=True)]
    most = max(MOST_GROWTH if math.isinf(each) else each for each in wanted)
    return min(MOST_GROWTH, max(LEAST_GROWTH, most))

"""Whether a batch meets a condition: the figures that conditions need, and stop rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runyard.errors import BadSpec, MetricMissing, UsageError
from runyard.reports.metrics import summarise
from runyard.spec.names import did_you_mean
from runyard.stats.conditions import Condition, Verdict, parse_rule
from runyard.stats.intervals import Interval
from runyard.stats.stopping import ConfidenceSequence, RateSequence
from runyard.stats.summary import Summary

if TYPE_CHECKING:
    from runyard.reports.result import Result

FIRST_CHECK = 50
"""The least number of replicates before the first check."""

MEANS, RATES = ConfidenceSequence(minimum=FIRST_CHECK), RateSequence()
"""The sequences of all checks, which must be the same from the first to the last."""


@dataclass(frozen=True)
class SummaryValues:
    """The figures of a condition, from summaries."""

    summary: Callable[[str], Summary]  # of a metric
    failed: float
    completed: float
    sequential: bool = False  # intervals are valid at all checks

    def statistic(self, name: str, metric: str, level: float | None) -> float:
        """One figure of a metric; NaN if it does not exist yet."""
        summary = self.summary(metric)
        moments = summary.moments
        if not moments.count:
            return 0.0 if name in ("count", "sum") else math.nan
        if name in ("ci", "low", "high"):
            interval = self._interval(summary, level or 0.95)
            if interval is None:
                return math.nan
            return float({"ci": interval.half, "low": interval.low, "high": interval.high}[name])
        if name in ("quantile", "median"):
            return summary.quantiles.quantile(0.5 if level is None else level)
        names = {"min": "minimum", "max": "maximum", "sum": "total", "rate": "mean"}
        return float(getattr(moments, names.get(name, name)))

    def share(self, status: str) -> float:
        """The share of the tasks with this status."""
        return self.failed if status == "failed" else self.completed

    def _interval(self, summary: Summary, level: float) -> Interval | None:
        if not self.sequential:
            return summary.interval(level)
        rate = summary.rate
        if rate is not None:
            return RATES.interval(rate.successes, rate.total, level)
        return MEANS.interval(summary.moments, level)


@dataclass(frozen=True, slots=True)
class InterimCheck:
    """The result of checking a stop rule before the batch is done."""

    verdicts: list[tuple[dict[str, Any], Verdict]]  # by group
    replicates: int  # the number at the next check

    @property
    def holds(self) -> bool:
        """Whether every group meets the condition."""
        return bool(self.verdicts) and all(verdict.holds for _, verdict in self.verdicts)

    @property
    def text(self) -> str:
        """The first group that fails, or else the first."""
        if not self.verdicts:
            return "no task has returned a number yet"
        labels, verdict = next(
            ((labels, v) for labels, v in self.verdicts if not v.holds), self.verdicts[0]
        )
        where = " ".join(f"{k}={v}" for k, v in labels.items())
        return f"{where}: {verdict.text}" if where else verdict.text


def check_rule(text: str, *, listed: bool) -> None:
    """Refuse a stop rule that can't be read or that no interval ever meets."""
    parse_rule(text)
    if listed:
        raise BadSpec(
            "a list of tasks has no replicates to add", hint="drop `until`, or use a grid"
        )


def interim_check(result: Result, text: str) -> InterimCheck:
    """Judge each variant and parameter by itself, with intervals that are valid at all checks.

    The next check comes when the interval should be narrow enough: with at least a tenth more
    replicates, and at most three times as many.
    """
    condition = parse_rule(text)
    plan = result.recorded.plan
    replicates = plan.replicates if plan is not None else 1
    by = plan.group_axes() if plan is not None else []
    metrics = condition.metrics()
    if metrics and not result.columns.names and replicates < FIRST_CHECK:
        return InterimCheck([], FIRST_CHECK)  # these few have failed, but more may not
    known = result.columns.names
    missing = next((name for name in metrics if known and name not in known), None)
    if missing is not None:
        raise MetricMissing(
            f"`until` needs the metric {missing!r}, which no task of {result.name} returned"
            f"{did_you_mean(missing, known)}",
            hint=f"their metrics: {', '.join(known[:20])}",
        )
    stats = result.stats
    done = stats.done or math.nan
    shares = stats.failed / done, stats.completed / done
    verdicts, needed = [], 0.0
    for group in summarise(result, metrics, by, condition.rates()):
        summary_of = group.summaries.__getitem__
        check_rates(condition.rates(), summary_of)
        figures = SummaryValues(summary_of, *shares, sequential=True)
        verdicts.append((group.labels, condition.evaluate(figures)))
        needed = max(needed, *_more(condition, group.summaries), 0.0)
    wanted = math.ceil(replicates * (1 + needed)) if needed else replicates * 2
    least = max(FIRST_CHECK, replicates + math.ceil(replicates / 10))
    return InterimCheck(verdicts, max(least, min(wanted, replicates * 3)))


def _more(condition: Condition, summaries: Mapping[str, Summary]) -> list[float]:
    """The additional values that each goal needs, as a multiple of the existing ones."""
    found = []
    for goal in condition.goals():
        summary = summaries[goal.metric]
        moments, rate = summary.moments, summary.rate
        if not moments.count:
            continue
        if rate is not None:
            more = RATES.expected_needed(rate.successes, rate.total, goal.half, goal.level)
        else:
            more = MEANS.expected_needed(moments, goal.half, goal.level)
        found.append(more / moments.count)
    return found


def check_rates(names: Collection[str], summary_of: Callable[[str], Summary]) -> None:
    """Refuse `rate(m)` of metrics with other values than 0 and 1."""
    for name in names:
        summary = summary_of(name)
        if summary.count and summary.rate is None:
            raise UsageError(
                f"{name} is not a rate: it has values other than 0 and 1",
                hint=f"write mean({name}) instead of rate({name})",
            )

"""Conditions on what a batch found: gates (`mean(score) >= 0.8`) and stop rules (`ci95(m) < 0.5`).

    text ──parse──▶ Condition ──evaluate(values)──▶ Verdict: holds or not, with the figures put in

What can be written, the loosest binding first:

    or  ·  and  ·  not  ·  <  <=  >  >=  ==  !=  ·  + -  ·  * /  ·  unary -  ·  ( … )
    0.8  80%  1e-3                           numbers
    mean(m) sd(m) min(m) max(m) median(m)    a statistic of a metric
    sum(m) count(m) rate(m) q90(m) p99.9(m)
    ci95(mean(m)) low95(m) high95(rate(m))   half-width and ends of an interval, any level
    m                                        the mean of a metric, or of the variant of that name
    failed  completed                        the share of the tasks that did

A metric is a dotted path (`scores.exact`); one of other characters stands in quotes (`"p-value"`).
The text is never evaluated as Python. A figure that is not known yet makes a comparison unknown
(and `not` leaves it so); a condition that is unknown does not hold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from runyard.stats.conditions_parse import read
from runyard.stats.conditions_tree import Figures, Goal, Test, Values

__all__ = ["Condition", "Goal", "Values", "Verdict", "parse"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a condition."""

    holds: bool
    known: bool  # False: a figure it needs does not exist yet
    text: str  # "mean(score) = 0.74 >= 0.8: no"
    figures: dict[str, float]  # each term with the figure that was put in


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was read; `str` gives it back in one spelling."""

    tree: Test

    def __str__(self) -> str:
        return str(self.tree)

    def metrics(self, labels: Collection[str] = ()) -> tuple[str, ...]:
        """The metrics it needs, in order of appearance; bare names among `labels` are variants."""
        found = [metric for metric, bare in self.tree.names() if not (bare and metric in labels)]
        return tuple(dict.fromkeys(found))

    def bare_names(self) -> tuple[str, ...]:
        """Names that stand alone, each a metric or the label of a variant."""
        return tuple(dict.fromkeys(name for name, bare in self.tree.names() if bare))

    def goals(self) -> tuple[Goal, ...]:
        """The interval widths it waits for, to foretell how many more replicates that takes."""
        return tuple(self.tree.goals())

    def evaluate(self, values: Values) -> Verdict:
        """Judge it; each figure is asked for once."""
        figures = Figures(values)
        holds, text = self.tree.judge(figures)
        return Verdict(holds is True, holds is not None, text, dict(figures.seen))


def parse(text: str) -> Condition:
    """Read a condition; a UsageError points at the place that can't be read."""
    return Condition(read(text))

"""Conditions on what a batch found: gates (`mean(score) >= 0.8`) and stop rules (`ci95(m) < 0.5`).

    text ──parse──▶ Condition ──within(scope)──▶ Condition ──evaluate(values)──▶ Verdict

Operands, in the grammar of `conditions_reader`:

    0.8  80%  1e-3                           numbers
    mean(m) sd(m) min(m) max(m) median(m)    a statistic of a metric
    sum(m) count(m) rate(m) q90(m) p99.9(m)
    ci95(mean(m)) low95(m) high95(rate(m))   half-width and ends of an interval, at any level
    m                                        the mean of a metric, or of the side of that name
    failed  completed                        the share of the tasks that did

and where sides (two batches, or the groups of one) are compared:

    new.mean(m)  new.failed  new.m           of one side only
    new - old                                the difference on the metric that is compared
    low95(new - old) high95(…) ci95(…)       its interval
    p(new - old)  p                          its p value, as the comparison has it

A metric is a dotted path (`scores.exact`); one with other characters is quoted (`"p-value"`). A
figure that does not exist makes a comparison unknown, and a condition that is unknown does not
hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runyard.errors import UsageError
from runyard.stats.conditions_scope import Scope
from runyard.stats.conditions_terms import (
    Bare,
    Difference,
    Figures,
    Known,
    Share,
    Sides,
    Statistic,
    Values,
    read,
)
from runyard.stats.conditions_tree import JOINS, Node, Number, Operation

__all__ = ["Condition", "Goal", "Scope", "Sides", "Values", "Verdict", "parse", "parse_rule"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A half-width that an interval of a mean has to fall below."""

    metric: str
    level: float  # of the interval
    half: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a condition holds, and why."""

    holds: bool
    known: bool  # False if a figure it needs does not exist
    text: str  # "mean(score) = 0.74 >= 0.8: no"
    figures: dict[str, float]  # by term


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; `str` prints it in its canonical spelling."""

    tree: Node

    def __str__(self) -> str:
        return str(self.tree)

    def within(self, scope: Scope) -> Condition:
        """The same with names resolved in a scope; refuses names that mean nothing there."""
        return Condition(self.tree.mapped(scope.resolve))

    def terms(self) -> tuple[Known, ...]:
        """The figures it needs, in order of appearance."""
        return tuple(dict.fromkeys(n for n in self.tree.walk() if isinstance(n, Known)))

    def metrics(self) -> tuple[str, ...]:
        """The metrics it needs, in order of appearance."""
        found = [_metric_of(term) for term in self.terms()]
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def rates(self) -> frozenset[str]:
        """The metrics it declares to be rates, by `rate(m)`, whether or not they are booleans."""
        found = [term for term in self.terms() if isinstance(term, Statistic)]
        return frozenset(term.metric for term in found if "rate" in (term.name, term.of))

    @property
    def is_of_each(self) -> bool:
        """Whether it is judged for each side: one of its figures names no side."""
        return any(_names_no_side(term) for term in self.terms())

    @property
    def is_of_each_pair(self) -> bool:
        """Whether it is judged for each comparison: it has a `p` that names none."""
        return any(isinstance(term, Bare) and term.meaning == "p" for term in self.terms())

    def goals(self) -> tuple[Goal, ...]:
        """The interval widths it waits for, from which the replicates needed are estimated."""
        return tuple(_goals(self.tree))

    def evaluate(
        self, values: Values, sides: Sides | None = None, pair: tuple[str, str] | None = None
    ) -> Verdict:
        """Judge it. `pair` is the comparison that a `p` by itself is about."""
        figures = Figures(values, sides, pair)
        text = self.tree.filled(figures)
        holds = self.tree.value(figures)
        return Verdict(holds is True, holds is not None, text, dict(figures.seen))


def parse(text: str) -> Condition:
    """Read a condition; a UsageError points at the place that can't be read."""
    return Condition(read(text))


def parse_rule(text: str) -> Condition:
    """Read a stop rule; refuses comparisons, and widths that no interval reaches."""
    condition = parse(text)
    for term in condition.terms():
        of_side = isinstance(term, Statistic) and term.label is not None
        if of_side or isinstance(term, Difference) or term == Bare("p"):
            raise UsageError(
                f"{text!r}: '{term}' compares sides, but a stop rule is about one batch",
                hint="use a metric, such as ci95(mean(score)); write mean(p) for a metric named p",
            )
    for goal in condition.goals():
        if goal.half <= 0:
            raise UsageError(
                f"{text!r}: no interval is ever narrower than {goal.half:g}",
                hint="wait for a width above zero",
            )
    return condition.within(Scope())


def _metric_of(term: Known) -> str | None:
    """The metric that a figure is about, if it is about one."""
    if isinstance(term, Statistic):
        return term.metric
    return term.name if isinstance(term, Bare) and term.meaning == "metric" else None


def _names_no_side(term: Known) -> bool:
    if isinstance(term, Bare):
        return term.meaning == "metric"
    return isinstance(term, Statistic | Share) and term.label is None


def _goals(test: Node) -> Iterator[Goal]:
    """The half-widths that a test compares with a number, unless it is negated."""
    if not isinstance(test, Operation):
        return
    if test.sign in JOINS:
        for part in test.parts:
            yield from _goals(part)
    elif test.sign[0] in "<>":
        small, large = test.parts if test.sign[0] == "<" else test.parts[::-1]
        if isinstance(small, Statistic) and small.name == "ci" and isinstance(large, Number):
            yield Goal(small.metric, small.level or 0.95, large.value())

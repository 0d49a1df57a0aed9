"""Conditions on what a batch found: gates (`mean(score) >= 0.8`) and stop rules (`ci95(m) < 0.5`).

    text ──parse──▶ Condition ──within(scope)──▶ Condition ──evaluate(values)──▶ Verdict

A verdict says whether the condition holds, with the figures put in. What can be written, the
loosest binding first:

    or  ·  and  ·  not  ·  <  <=  >  >=  ==  !=  ·  + -  ·  * /  ·  unary -  ·  ( … )
    0.8  80%  1e-3                           numbers
    mean(m) sd(m) min(m) max(m) median(m)    a statistic of a metric
    sum(m) count(m) rate(m) q90(m) p99.9(m)
    ci95(mean(m)) low95(m) high95(rate(m))   half-width and ends of an interval, any level
    m                                        the mean of a metric, or of the side of that name
    failed  completed                        the share of the tasks that did

and where sides (two batches, or the groups of one) are compared:

    new.mean(m)  new.failed  new.m           of one side only
    new - old                                the difference on the metric that is compared
    low95(new - old) high95(…) ci95(…)       its interval
    p(new - old)  p                          its p value, as the comparison has it

A metric is a dotted path (`scores.exact`); a metric or side of other characters stands in quotes
(`"p-value"`). The text is never evaluated as Python. A figure that is not known makes a comparison
unknown (and `not` leaves it so); a condition that is unknown does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from runyard.errors import UsageError
from runyard.stats.conditions_parse import read
from runyard.stats.conditions_scope import Scope
from runyard.stats.conditions_terms import (
    Bare,
    Chance,
    Difference,
    Figures,
    Known,
    Share,
    Sides,
    Statistic,
    Values,
)
from runyard.stats.conditions_tree import Goal, Test

__all__ = ["Condition", "Goal", "Scope", "Sides", "Values", "Verdict", "parse", "parse_rule"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a condition."""

    holds: bool
    known: bool  # False: a figure it needs does not exist
    text: str  # "mean(score) = 0.74 >= 0.8: no"
    figures: dict[str, float]  # each term with the figure that was put in


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was read; `str` gives it back in one spelling."""

    tree: Test

    def __str__(self) -> str:
        return str(self.tree)

    def within(self, scope: Scope) -> Condition:
        """The same with every name taken for what it means there; refuses what means nothing."""
        return Condition(self.tree.within(scope))

    def terms(self) -> tuple[Known, ...]:
        """The figures it needs, in order of appearance."""
        return tuple(dict.fromkeys(self.tree.terms()))

    def metrics(self) -> tuple[str, ...]:
        """The metrics it needs, in order of appearance."""
        found = [
            term.metric if isinstance(term, Statistic) else term.name
            for term in self.terms()
            if isinstance(term, Statistic | Bare)
        ]
        return tuple(dict.fromkeys(found))

    def rates(self) -> frozenset[str]:
        """The metrics it declares to be rates, by `rate(m)`, whether or not they are booleans."""
        found = [term for term in self.terms() if isinstance(term, Statistic)]
        return frozenset(term.metric for term in found if "rate" in (term.name, term.of))

    @property
    def is_of_each(self) -> bool:
        """Whether it is about each side by itself: a figure of it names none."""
        return any(
            isinstance(term, Bare) or (isinstance(term, Statistic | Share) and term.label is None)
            for term in self.terms()
        )

    @property
    def is_of_each_pair(self) -> bool:
        """Whether it is about each comparison by itself: it has a `p` that names none."""
        return any(isinstance(term, Chance) for term in self.terms())

    def goals(self) -> tuple[Goal, ...]:
        """The interval widths it waits for, to foretell how many more replicates that takes."""
        return tuple(self.tree.goals())

    def evaluate(
        self, values: Values, sides: Sides | None = None, pair: tuple[str, str] | None = None
    ) -> Verdict:
        """Judge it; each figure is asked for once. `pair` is what a `p` by itself is about."""
        figures = Figures(values, sides, pair)
        holds, text = self.tree.judge(figures)
        return Verdict(holds is True, holds is not None, text, dict(figures.seen))


def parse(text: str) -> Condition:
    """Read a condition; a UsageError points at the place that can't be read."""
    return Condition(read(text))


def parse_rule(text: str) -> Condition:
    """Read a rule for when to stop; refuses comparisons, and what nothing ever meets."""
    condition = parse(text)
    for term in condition.terms():
        of_side = isinstance(term, Statistic) and term.label is not None
        if of_side or isinstance(term, Difference) or term == Bare("p"):
            raise UsageError(
                f"{text!r}: '{term}' is a figure of a comparison, and a rule for when to stop "
                "looks at one batch by itself",
                hint="use a metric, such as ci95(mean(score)); one named p is mean(p)",
            )
    for goal in condition.goals():
        if goal.half <= 0:
            raise UsageError(
                f"{text!r}: no interval is ever narrower than {goal.half:g}",
                hint="wait for a width above zero",
            )
    return condition.within(Scope())

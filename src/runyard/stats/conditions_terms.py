"""The terms of a condition: each has a number and prints itself."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from runyard.stats.conditions_scope import Scope

PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
"""A metric or label that needs no quotes, unless it is one of `RESERVED`."""

STATISTICS = ("mean", "sd", "min", "max", "median", "sum", "count", "rate")
"""Functions of a metric. `rate` is the mean of a metric whose values are all 0 or 1."""

BOUNDS = ("ci", "low", "high")
"""Functions with a level in their name, of a mean or a difference: half-width, lower and upper end.
"""

SHARES = ("failed", "completed")
"""Statuses whose share of the tasks a condition can use."""


RESERVED = frozenset({"and", "or", "not", *SHARES})
"""Words with a meaning of their own; as names they need quotes."""


class Values(Protocol):
    """Where a condition gets the figures of one batch or group; NaN says that there is none."""

    def statistic(self, name: str, metric: str, level: float | None) -> float:
        """One of `STATISTICS` (no level), `quantile` (level: which) or `BOUNDS` of the mean."""

    def share(self, status: str) -> float:
        """The share of the tasks that `failed` or `completed`, from 0 to 1."""


class Sides(Protocol):
    """Where a condition gets the figures of what is compared; NaN says that there is none."""

    def of(self, label: str) -> Values:
        """The figures of one side by itself."""

    def mean(self, label: str) -> float:
        """A side's mean of the metric that is compared."""

    def difference(self, figure: str, first: str, second: str, level: float | None) -> float:
        """`effect` (first minus second), `p`, or one of `BOUNDS` of the effect."""


@dataclass(slots=True)
class Figures:
    """Figures as a condition asks for them, each asked for once and kept for the verdict."""

    values: Values
    sides: Sides | None = None
    pair: tuple[str, str] | None = None  # the comparison that a `p` by itself is about
    seen: dict[str, float] = field(default_factory=dict)

    def of(self, term: Known) -> float:
        """The figure of a term."""
        key = str(term)
        if key not in self.seen:
            self.seen[key] = float(term.ask(self))
        return self.seen[key]

    def at(self, label: str | None) -> Values:
        """The figures of a side; without a label, those of the side that is judged."""
        return self.values if label is None else self.compared.of(label)

    @property
    def compared(self) -> Sides:
        """The sides; there are some wherever a condition refers to one."""
        assert self.sides is not None
        return self.sides


class Term(ABC):
    """Something with a number."""

    rank: ClassVar[int] = 9

    @abstractmethod
    def value(self, figures: Figures) -> float:
        """Its number, NaN when that is not known."""

    def terms(self) -> Iterator[Known]:
        """The figures it is made of."""
        return iter(())

    def within(self, scope: Scope) -> Term:  # noqa: ARG002
        """The same with every name taken for what it means there."""
        return self


class Known(Term):
    """A term whose figure the caller's values hold."""

    @abstractmethod
    def ask(self, figures: Figures) -> float:
        """Get the figure."""

    def terms(self) -> Iterator[Known]:
        """Itself."""
        yield self

    def value(self, figures: Figures) -> float:
        """The figure, asked for once."""
        return figures.of(self)


@dataclass(frozen=True, slots=True)
class Number(Term):
    """A number as it was written."""

    text: str

    @property
    def number(self) -> float:
        """What the text says; 80% is 0.8."""
        if self.text.endswith("%"):
            digits = self.text[:-1].rstrip()
            plain = float(digits)  # which tells numbers that are too large for a decimal
            return float(Decimal(digits) / 100) if plain and math.isfinite(plain) else plain
        return float(self.text)

    def value(self, figures: Figures) -> float:  # noqa: ARG002
        """Its number."""
        return self.number

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Statistic(Known):
    """A statistic of a metric; `of` says what a bound is a bound of."""

    name: str
    metric: str
    level: float | None = None
    of: str = "mean"
    label: str | None = None  # the side it is about; None: the one that is judged

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.at(self.label).statistic(self.name, self.metric, self.level)

    def within(self, scope: Scope) -> Statistic:
        """The same; its names must exist."""
        scope.check_metric(self.metric)
        if self.label is not None:
            scope.check_label(self.label)
        return self

    def __str__(self) -> str:
        metric = quoted(self.metric)
        side = "" if self.label is None else f"{quoted(self.label)}."
        if self.level is None:
            return f"{side}{self.name}({metric})"
        if self.name == "quantile":
            return f"{side}q{_percent(self.level)}({metric})"
        return f"{side}{self.name}{_percent(self.level)}({self.of}({metric}))"


@dataclass(frozen=True, slots=True)
class Bare(Known):
    """A name that stands alone: the mean of a metric, unless a scope has another meaning."""

    name: str

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.values.statistic("mean", self.name, None)

    def within(self, scope: Scope) -> Term:
        """What the name means."""
        return scope.meaning(self.name)

    def __str__(self) -> str:
        return quoted(self.name, alone=True)


@dataclass(frozen=True, slots=True)
class Mean(Known):
    """A side's mean of the metric that is compared."""

    label: str

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.compared.mean(self.label)

    def __str__(self) -> str:
        return quoted(self.label, alone=True)


@dataclass(frozen=True, slots=True)
class Share(Known):
    """The share of tasks with a status."""

    status: str
    label: str | None = None  # the side it is about; None: the one that is judged

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.at(self.label).share(self.status)

    def within(self, scope: Scope) -> Term:
        """The same, or a metric with such a path."""
        return self if self.label is None else scope.share(self.status, self.label)

    def __str__(self) -> str:
        return self.status if self.label is None else f"{quoted(self.label)}.{self.status}"


@dataclass(frozen=True, slots=True)
class Difference(Known):
    """A figure of the difference of two sides: `effect`, `p`, or one of `BOUNDS`."""

    figure: str
    first: str
    second: str
    level: float | None = None

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.compared.difference(self.figure, self.first, self.second, self.level)

    def within(self, scope: Scope) -> Difference:
        """The same; its sides must be compared."""
        scope.check_pair(self.first, self.second)
        return self

    @property
    def rank(self) -> int:  # type: ignore[override]
        """How tightly it binds."""
        return 5 if self.figure == "effect" else 9

    def __str__(self) -> str:
        sides = f"{quoted(self.first)} - {quoted(self.second)}"
        if self.figure == "effect":
            return sides
        return f"{self.figure}{'' if self.level is None else _percent(self.level)}({sides})"


@dataclass(frozen=True, slots=True)
class Chance(Known):
    """The p value of the comparison that is judged."""

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        assert figures.pair is not None
        return figures.compared.difference("p", *figures.pair, None)

    def __str__(self) -> str:
        return "p"


@dataclass(frozen=True, slots=True)
class Negated(Term):
    """A term with a minus before it."""

    rank: ClassVar[int] = 7
    operand: Term

    def value(self, figures: Figures) -> float:
        """Its number."""
        return -self.operand.value(figures)

    def terms(self) -> Iterator[Known]:
        """The figures it is made of."""
        return self.operand.terms()

    def within(self, scope: Scope) -> Negated:
        """The same with every name taken for what it means there."""
        return Negated(self.operand.within(scope))

    def __str__(self) -> str:
        return f"-{inside(self.operand, self.operand.rank < self.rank)}"


@dataclass(frozen=True, slots=True)
class Calculated(Term):
    """Two terms with + - * / between them."""

    sign: str
    left: Term
    right: Term

    @property
    def rank(self) -> int:  # type: ignore[override]
        """How tightly it binds."""
        return 5 if self.sign in "+-" else 6

    def value(self, figures: Figures) -> float:
        """Its number; a division by zero has none."""
        left, right = self.left.value(figures), self.right.value(figures)
        if self.sign == "+":
            return left + right
        if self.sign == "-":
            return left - right
        if self.sign == "*":
            return left * right
        return left / right if right else math.nan

    def terms(self) -> Iterator[Known]:
        """The figures it is made of."""
        yield from self.left.terms()
        yield from self.right.terms()

    def within(self, scope: Scope) -> Term:
        """The same; the difference of two sides is that of their comparison."""
        left, right = self.left.within(scope), self.right.within(scope)
        if not (self.sign == "-" and isinstance(left, Mean) and isinstance(right, Mean)):
            return Calculated(self.sign, left, right)
        if not scope.is_pair(left.label, right.label):
            return Calculated(self.sign, left, right)
        return Difference("effect", left.label, right.label)

    def __str__(self) -> str:
        left = inside(self.left, self.left.rank < self.rank)
        return f"{left} {self.sign} {inside(self.right, self.right.rank <= self.rank)}"


def quoted(name: str, alone: bool = False) -> str:
    """A name as a condition writes it, in quotes where it needs them.

    Standing alone, `a.failed` would be the share of a side.
    """
    share = alone and name.lower().endswith(tuple(f".{status}" for status in SHARES))
    if PLAIN_NAME.fullmatch(name) and name.lower() not in RESERVED and not share:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def inside(part: object, wrapped: bool) -> str:
    """A part as its whole writes it."""
    return f"({part})" if wrapped else str(part)


def _percent(level: float) -> str:
    return f"{level * 100:.6g}"

"""The terms of gates and stop rules, and where they get their figures."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Protocol

from runyard.stats.conditions_tree import ATOM, SUM, Term

PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
"""A metric or label that needs no quotes, unless it is one of `RESERVED`."""

STATISTICS = ("mean", "sd", "min", "max", "median", "sum", "count", "rate")
"""Functions of a metric. `rate` is the mean of a metric whose values are all 0 or 1."""

BOUNDS = ("ci", "low", "high")
"""Functions with a level in their name, of a mean or a difference: half-width and ends."""

SHARES = ("failed", "completed")
"""Statuses whose share of the tasks a condition can use."""

RESERVED = frozenset({"and", "or", "not", *SHARES})
"""Words with a meaning; a metric or side of that name needs quotes."""


class Values(Protocol):
    """The figures of one batch or group; NaN for one that does not exist."""

    def statistic(self, name: str, metric: str, level: float | None) -> float:
        """One of `STATISTICS` (no level), `quantile` (level: which) or `BOUNDS` of the mean."""

    def share(self, status: str) -> float:
        """The share of the tasks that `failed` or `completed`, from 0 to 1."""


class Sides(Protocol):
    """The figures of what is compared; NaN for one that does not exist."""

    def of(self, label: str) -> Values:
        """The figures of one side by itself."""

    def mean(self, label: str) -> float:
        """A side's mean of the metric that is compared."""

    def difference(self, figure: str, first: str, second: str, level: float | None) -> float:
        """`effect` (first minus second), `p`, or one of `BOUNDS` of the effect."""


@dataclass(slots=True)
class Figures:
    """The source of figures; each is computed once and kept for the verdict."""

    values: Values  # of the side that is judged
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
        """The sides; they exist wherever a condition names one."""
        assert self.sides is not None
        return self.sides


class Known(Term):
    """A term whose number is a figure of the batch."""

    @abstractmethod
    def ask(self, figures: Figures) -> float:
        """Get the figure."""

    def value(self, source: Any) -> float:
        """The figure."""
        found: float = source.of(self)
        return found


@dataclass(frozen=True, slots=True)
class Statistic(Known):
    """A statistic of a metric."""

    name: str
    metric: str
    level: float | None = None  # of an interval or a quantile
    of: str = "mean"  # what an interval is about: mean or rate
    label: str | None = None  # the side it is about; None: the one that is judged

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.at(self.label).statistic(self.name, self.metric, self.level)

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
    """A name by itself: the mean of a metric, unless a scope gives it another meaning."""

    name: str

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.values.statistic("mean", self.name, None)

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

    def __str__(self) -> str:
        return self.status if self.label is None else f"{quoted(self.label)}.{self.status}"


@dataclass(frozen=True, slots=True)
class Difference(Known):
    """A figure of the difference of two sides: `effect`, `p`, or one of `BOUNDS`."""

    figure: str
    first: str
    second: str
    level: float | None = None  # of the interval

    @property
    def rank(self) -> int:  # type: ignore[override]
        """How tightly it binds."""
        return SUM if self.figure == "effect" else ATOM

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        return figures.compared.difference(self.figure, self.first, self.second, self.level)

    def __str__(self) -> str:
        sides = f"{quoted(self.first)} - {quoted(self.second)}"
        if self.figure == "effect":
            return sides
        return f"{self.figure}{'' if self.level is None else _percent(self.level)}({sides})"


@dataclass(frozen=True, slots=True)
class PValue(Known):
    """The p value of the comparison that is judged."""

    def ask(self, figures: Figures) -> float:
        """Get the figure."""
        assert figures.pair is not None
        return figures.compared.difference("p", *figures.pair, None)

    def __str__(self) -> str:
        return "p"


def quoted(name: str, alone: bool = False) -> str:
    """A name as a condition writes it, in quotes if it needs them.

    By itself, `a.failed` needs them too: it would be the share of a side.
    """
    share = alone and name.lower().endswith(tuple(f".{status}" for status in SHARES))
    if PLAIN_NAME.fullmatch(name) and name.lower() not in RESERVED and not share:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _percent(level: float) -> str:
    return f"{level * 100:.6g}"

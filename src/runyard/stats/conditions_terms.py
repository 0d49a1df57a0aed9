"""The language of gates and stop rules: its terms, and how they are read."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Protocol

from runyard.stats.conditions_reader import Reader, Word
from runyard.stats.conditions_tree import ATOM, SUM, Node

PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
"""A metric or label that needs no quotes, unless it is one of `RESERVED`."""

STATISTICS = ("mean", "sd", "min", "max", "median", "sum", "count", "rate")
"""Functions of a metric. `rate` is the mean of a metric whose values are all 0 or 1."""

SHARES = ("failed", "completed")
"""Statuses whose share of the tasks a condition can use."""

RESERVED = frozenset({"and", "or", "not", *SHARES})
"""Words with a meaning; a metric or side of that name needs quotes."""

_LEVELED = re.compile(r"(ci|low|high|q|p)([0-9]{1,2}(?:\.[0-9]{1,3})?)")
_OF_SIDE = re.compile(rf"(.+)\.({_LEVELED.pattern})"), re.compile(r"(.+)\.([^.]+)")
_FUNCTIONS = f"{', '.join(STATISTICS)}, q90, ci95, low95, high95, p"


class Values(Protocol):
    """The figures of one batch or group; NaN for one that does not exist."""

    def statistic(self, name: str, metric: str, level: float | None) -> float:
        """One of `STATISTICS` (no level), a `quantile` (level: which), or a half-width or end of
        the mean's interval: `ci`, `low`, `high`."""

    def share(self, status: str) -> float:
        """The share of the tasks that `failed` or `completed`, from 0 to 1."""


class Sides(Protocol):
    """The figures of what is compared; NaN for one that does not exist."""

    def of(self, label: str) -> Values:
        """The figures of one side by itself."""

    def mean(self, label: str) -> float:
        """A side's mean of the metric that is compared."""

    def difference(self, figure: str, first: str, second: str, level: float | None) -> float:
        """`effect` (first minus second), `p`, or `ci`, `low` or `high` of the effect."""


@dataclass(slots=True)
class Figures:
    """The source of figures; each is computed once and kept for the verdict."""

    values: Values  # of the side that is judged
    sides: Sides | None = None
    pair: tuple[str, str] | None = None  # the comparison that a `p` by itself is about
    seen: dict[str, float] = field(default_factory=dict)

    def at(self, label: str | None) -> Values:
        """The figures of a side; without a label, those of the side that is judged."""
        return self.values if label is None else self.compared.of(label)

    @property
    def compared(self) -> Sides:
        """The sides; they exist wherever a condition names one."""
        assert self.sides is not None
        return self.sides


class Known(Node):
    """A term whose number is a figure of the batch."""

    @abstractmethod
    def ask(self, figures: Figures) -> float:
        """Get the figure."""

    def value(self, source: Figures) -> float:
        key = str(self)
        if key not in source.seen:
            source.seen[key] = float(self.ask(source))
        return source.seen[key]


@dataclass(frozen=True, slots=True)
class Statistic(Known):
    """A statistic of a metric."""

    name: str
    metric: str
    level: float | None = None  # of an interval or a quantile
    of: str = "mean"  # what an interval is about: mean or rate
    label: str | None = None  # the side it is about; None: the one that is judged

    def ask(self, figures: Figures) -> float:
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
    """A name by itself; what it means is resolved by a scope."""

    name: str
    meaning: Literal["metric", "side", "p"] = "metric"  # the mean of either, or a p value

    def ask(self, figures: Figures) -> float:
        if self.meaning == "side":
            return figures.compared.mean(self.name)
        if self.meaning == "metric":
            return figures.values.statistic("mean", self.name, None)
        assert figures.pair is not None
        return figures.compared.difference("p", *figures.pair, None)

    def __str__(self) -> str:
        return quoted(self.name, alone=True)


@dataclass(frozen=True, slots=True)
class Share(Known):
    """The share of tasks with a status."""

    status: str
    label: str | None = None  # the side it is about; None: the one that is judged

    def ask(self, figures: Figures) -> float:
        return figures.at(self.label).share(self.status)

    def __str__(self) -> str:
        return self.status if self.label is None else f"{quoted(self.label)}.{self.status}"


@dataclass(frozen=True, slots=True)
class Difference(Known):
    """A figure of the difference of two sides, as `Sides.difference` names them."""

    figure: str
    first: str
    second: str
    level: float | None = None  # of the interval

    @property
    def rank(self) -> int:  # type: ignore[override]
        return SUM if self.figure == "effect" else ATOM

    def ask(self, figures: Figures) -> float:
        return figures.compared.difference(self.figure, self.first, self.second, self.level)

    def __str__(self) -> str:
        sides = f"{quoted(self.first)} - {quoted(self.second)}"
        if self.figure == "effect":
            return sides
        return f"{self.figure}{'' if self.level is None else _percent(self.level)}({sides})"


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


def read(text: str) -> Node:
    """The tree of a condition."""
    return _GateReader(text).condition()


class _GateReader(Reader):
    def operand(self) -> Known:
        """A metric, a function, a share, or a figure of a side."""
        if self.word.kind == "quoted":
            return self._quoted()
        if self.follows("("):
            return self._function(*_split(self.word.text))
        label, _, last = self.word.text.rpartition(".")
        if last.lower() in SHARES or self.word.text.lower() in RESERVED:
            self.take()
            return Share(last.lower(), label or None)
        return Bare(self._name())

    def _quoted(self) -> Known:
        """A quoted name by itself, or a figure of the side of that name."""
        name = self._name()
        if self.word.kind != "path":
            return Bare(name)
        path = self.word.text[1:]
        if self.follows("("):
            return self._function(path, name)
        self.take()
        if path.lower() in SHARES:
            return Share(path.lower(), name)
        return Statistic("mean", path, label=name)

    def _function(self, name: str, label: str | None) -> Known:
        """A function of a metric, of a metric of one side, or of a difference."""
        word, leveled = self.word, _LEVELED.fullmatch(name)
        if name not in (*STATISTICS, "p") and leveled is None:
            problem = f"there is no function {name!r}"
            raise self.error(word.at, problem, hint=f"functions: {_FUNCTIONS}")
        self._open()
        term: Known
        if leveled is not None:
            term = self._with_level(word, leveled, label)
        elif name == "p":
            term = self._difference("p", None, label)
        else:
            term = Statistic(name, self._name(), label=label)
        self.expect(")")
        return term

    def _with_level(self, word: Word, leveled: re.Match[str], label: str | None) -> Known:
        name, level = leveled[1], float(Decimal(leveled[2]) / 100)
        if name in "qp":
            return Statistic("quantile", self._name(), level, label=label)
        if level == 0:
            raise self.error(word.at, "an interval with a level of 0", hint="write ci95")
        if self.follows("-"):
            return self._difference(name, level, label)
        if self.word.kind != "name" or not self.follows("("):
            return Statistic(name, self._name(), level, label=label)
        of = self.word.text
        if of not in ("mean", "rate"):
            raise self.unexpected(
                "mean(metric) or rate(metric)",
                hint="intervals exist for means, rates and differences such as new - old",
            )
        self._open()
        term = Statistic(name, self._name(), level, of, label)
        self.expect(")")
        return term

    def _open(self) -> None:
        """Take the name of a function and its parenthesis."""
        self.take()
        self.expect("(")

    def _difference(self, figure: str, level: float | None, label: str | None) -> Known:
        """`new - old` as the argument of a function."""
        if label is not None:
            raise self.unexpected("a metric", hint="a difference is between two sides")
        first = self._name("the name of one side")
        self.expect("-")
        second = self._name("the name of the other side")
        if self.word.text == "-":
            raise self.unexpected("')'", hint='quote a name with dashes: p("my-batch" - old)')
        return Difference(figure, first, second, level)

    def _name(self, what: str = "the name of a metric") -> str:
        word = self.word
        if word.kind == "quoted":
            name = re.sub(r"\\(.)", r"\1", word.text[1:-1], flags=re.DOTALL)
        else:
            name = word.text if word.kind == "name" else ""
        if not name or (word.kind == "name" and name.lower() in RESERVED):
            raise self.unexpected(
                what, hint='quote a name with special characters: mean("p-value")'
            )
        self.take()
        return name


def _split(word: str) -> tuple[str, str | None]:
    """A function and the side in front of it; the dot in `p99.9` does not separate them."""
    if _LEVELED.fullmatch(word):
        return word, None
    of_side = _OF_SIDE[0].fullmatch(word) or _OF_SIDE[1].fullmatch(word)
    return (word, None) if of_side is None else (of_side[2], of_side[1])

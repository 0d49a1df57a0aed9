"""The parts of a condition: terms have a number, tests have an answer; both print themselves."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Protocol

PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
"""A metric or label that needs no quotes, unless it is one of `RESERVED`."""

RESERVED = frozenset({"and", "or", "not", "failed", "completed"})
"""Words with a meaning of their own; as names they need quotes."""

STATISTICS = ("mean", "sd", "min", "max", "median", "sum", "count", "rate")
"""Functions of a metric. `rate` is the mean of a metric that is only ever 0 or 1."""

BOUNDS = ("ci", "low", "high")
"""Functions of a mean with a level in their name: half-width, lower end, upper end."""


class Values(Protocol):
    """Where a condition gets its figures; NaN says that there is none yet."""

    def statistic(self, name: str, metric: str, level: float | None) -> float:
        """One of `STATISTICS` (no level), `quantile` (level: which) or `BOUNDS` of the mean."""

    def group_mean(self, label: str) -> float | None:
        """The mean of the variant of this label; None when there is no such variant."""

    def share(self, status: str) -> float:
        """The share of the tasks that `failed` or `completed`, from 0 to 1."""


@dataclass(slots=True)
class Figures:
    """Figures as a condition asks for them, each asked for once and kept for the verdict."""

    values: Values
    seen: dict[str, float] = field(default_factory=dict)

    def of(self, term: Known) -> float:
        """The figure of a term."""
        key = str(term)
        if key not in self.seen:
            self.seen[key] = float(term.ask(self.values))
        return self.seen[key]


@dataclass(frozen=True, slots=True)
class Goal:
    """An interval of a mean that a condition wants narrower than `half`."""

    metric: str
    level: float
    half: float


class Term(ABC):
    """Something with a number."""

    rank: ClassVar[int] = 9

    @abstractmethod
    def value(self, figures: Figures) -> float:
        """Its number, NaN when that is not known."""

    def names(self) -> Iterator[tuple[str, bool]]:
        """The names used, and whether each stands alone."""
        return iter(())


class Known(Term):
    """A term whose figure the caller's values hold."""

    @abstractmethod
    def ask(self, values: Values) -> float:
        """Get the figure."""

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
            return float(Decimal(self.text[:-1].rstrip()) / 100)
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

    def ask(self, values: Values) -> float:
        """Get the figure."""
        return values.statistic(self.name, self.metric, self.level)

    def names(self) -> Iterator[tuple[str, bool]]:
        """Its metric."""
        yield self.metric, False

    def __str__(self) -> str:
        metric = quoted(self.metric)
        if self.level is None:
            return f"{self.name}({metric})"
        percent = f"{self.level * 100:.6g}"
        if self.name == "quantile":
            return f"q{percent}({metric})"
        return f"{self.name}{percent}({self.of}({metric}))"


@dataclass(frozen=True, slots=True)
class Bare(Known):
    """A name that stands alone: the mean of the variant or of the metric of that name."""

    name: str

    def ask(self, values: Values) -> float:
        """Get the figure."""
        mean = values.group_mean(self.name)
        return values.statistic("mean", self.name, None) if mean is None else mean

    def names(self) -> Iterator[tuple[str, bool]]:
        """The name."""
        yield self.name, True

    def __str__(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True, slots=True)
class Share(Known):
    """The share of tasks with a status."""

    status: str

    def ask(self, values: Values) -> float:
        """Get the figure."""
        return values.share(self.status)

    def __str__(self) -> str:
        return self.status


@dataclass(frozen=True, slots=True)
class Negated(Term):
    """A term with a minus before it."""

    rank: ClassVar[int] = 7
    operand: Term

    def value(self, figures: Figures) -> float:
        """Its number."""
        return -self.operand.value(figures)

    def names(self) -> Iterator[tuple[str, bool]]:
        """The names used."""
        return self.operand.names()

    def __str__(self) -> str:
        return f"-{_inside(self.operand, self.operand.rank < self.rank)}"


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

    def names(self) -> Iterator[tuple[str, bool]]:
        """The names used."""
        yield from self.left.names()
        yield from self.right.names()

    def __str__(self) -> str:
        left = _inside(self.left, self.left.rank < self.rank)
        return f"{left} {self.sign} {_inside(self.right, self.right.rank <= self.rank)}"


class Test(ABC):
    """Something that holds, does not hold, or is not known (None)."""

    rank: ClassVar[int] = 4

    @abstractmethod
    def judge(self, figures: Figures) -> tuple[bool | None, str]:
        """The answer, and the text with the figures put in."""

    @abstractmethod
    def names(self) -> Iterator[tuple[str, bool]]:
        """The names used."""

    def goals(self) -> Iterator[Goal]:
        """The interval widths waited for."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Compared(Test):
    """Two terms with a sign such as <= between them."""

    sign: str
    left: Term
    right: Term

    def judge(self, figures: Figures) -> tuple[bool | None, str]:
        """The answer, and the text with the figures put in."""
        left, right = self.left.value(figures), self.right.value(figures)
        known = not (math.isnan(left) or math.isnan(right))
        holds = _compare(self.sign, left, right) if known else None
        shown = f"{left:.6g}", f"{right:.6g}"
        if shown[0] == shown[1] and left != right:
            shown = repr(left), repr(right)
        texts = _filled(self.left, shown[0]), _filled(self.right, shown[1])
        return holds, f"{texts[0]} {self.sign} {texts[1]}: {_ANSWER[holds]}"

    def names(self) -> Iterator[tuple[str, bool]]:
        """The names used."""
        yield from self.left.names()
        yield from self.right.names()

    def goals(self) -> Iterator[Goal]:
        """The half-width, where this compares one with a number."""
        if self.sign[0] not in "<>":
            return
        sides = (self.left, self.right) if self.sign[0] == "<" else (self.right, self.left)
        small, large = sides
        if not (isinstance(small, Statistic) and isinstance(large, Number)):
            return
        if small.name == "ci" and small.level is not None:
            yield Goal(small.metric, small.level, large.number)

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True, slots=True)
class Joined(Test):
    """Tests with `and`, or with `or`, between them."""

    word: str
    parts: tuple[Test, ...]

    @property
    def rank(self) -> int:  # type: ignore[override]
        """How tightly it binds."""
        return 2 if self.word == "and" else 1

    def judge(self, figures: Figures) -> tuple[bool | None, str]:
        """Kleene's three-valued `and` and `or`; every part is judged, so the text is whole."""
        answers, texts = zip(*(part.judge(figures) for part in self.parts), strict=True)
        deciding = self.word == "or"
        if deciding in answers:
            holds: bool | None = deciding
        else:
            holds = None if None in answers else not deciding
        return holds, f" {self.word} ".join(f"({text})" for text in texts)

    def names(self) -> Iterator[tuple[str, bool]]:
        """The names used."""
        for part in self.parts:
            yield from part.names()

    def goals(self) -> Iterator[Goal]:
        """The interval widths waited for."""
        for part in self.parts:
            yield from part.goals()

    def __str__(self) -> str:
        return f" {self.word} ".join(_inside(part, part.rank <= self.rank) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Test):
    """A test that is to fail."""

    rank: ClassVar[int] = 3
    part: Test

    def judge(self, figures: Figures) -> tuple[bool | None, str]:
        """The opposite; what is unknown stays unknown."""
        holds, text = self.part.judge(figures)
        return None if holds is None else not holds, f"not ({text})"

    def names(self) -> Iterator[tuple[str, bool]]:
        """The names used."""
        return self.part.names()

    def __str__(self) -> str:
        return f"not {_inside(self.part, self.part.rank < self.rank)}"


def quoted(name: str) -> str:
    """A name as a condition writes it, in quotes where it needs them."""
    if PLAIN_NAME.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ANSWER = {True: "yes", False: "no", None: "not known yet"}


def _compare(sign: str, left: float, right: float) -> bool:
    if sign == "==":
        return left == right
    if sign == "!=":
        return left != right
    if sign[0] == "<":
        return left < right or (sign == "<=" and left == right)
    return left > right or (sign == ">=" and left == right)


def _filled(term: Term, shown: str) -> str:
    if isinstance(term, Number):
        return str(term)
    return f"{term} = {'no data' if shown == 'nan' else shown}"


def _inside(part: Term | Test, wrapped: bool) -> str:
    return f"({part})" if wrapped else str(part)

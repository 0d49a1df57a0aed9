"""The tree of a condition: terms have a number, tests hold or not, and all print themselves.

What names mean is up to the language that uses them: see `conditions_terms` for gates and rules,
and the applications for theirs.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
OR, AND, NOT, COMPARISON, SUM, PRODUCT, MINUS, ATOM = range(1, 9)
"""How tightly each binds, the loosest first."""

RANKS = {"or": OR, "and": AND, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}
RANKS |= dict.fromkeys(COMPARISONS, COMPARISON)


class Node:
    """A part of a condition."""

    rank: ClassVar[int] = ATOM
    parts: tuple[Any, ...] = ()

    def walk(self) -> Iterator[Node]:
        """This part and everything below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def mapped(self, change: Callable[[Any], Any]) -> Any:
        """The same tree with every part changed, the innermost first."""
        if not self.parts:
            return change(self)
        parts = tuple(part.mapped(change) for part in self.parts)
        return change(replace(self, parts=parts))  # type: ignore[type-var]

    def inside(self, loosest: int) -> str:
        """The text inside another part, in parentheses if it binds more loosely than allowed."""
        return f"({self})" if self.rank < loosest else str(self)


class Term(Node, ABC):
    """A part with a number."""

    @abstractmethod
    def value(self, source: Any) -> float:
        """The number, with figures from `source`; NaN if it is unknown."""


class Test(Node, ABC):
    """A part that holds, does not hold, or is unknown (None)."""

    @abstractmethod
    def holds(self, source: Any) -> bool | None:
        """Whether it holds, with figures from `source`."""

    def filled(self, source: Any) -> str:  # noqa: ARG002
        """The text with the figures filled in."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Number(Term):
    """A number as it was written; 80% is 0.8."""

    text: str

    def value(self, source: Any = None) -> float:  # noqa: ARG002
        if not self.text.endswith("%"):
            return float(self.text)
        digits = self.text[:-1].rstrip()
        plain = float(digits)  # infinite where the number is too large for a decimal
        return float(Decimal(digits) / 100) if plain and math.isfinite(plain) else plain

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Negated(Term):
    """A term with a minus in front."""

    parts: tuple[Term]
    rank: ClassVar[int] = MINUS

    def value(self, source: Any) -> float:
        return -self.parts[0].value(source)

    def __str__(self) -> str:
        return f"-{self.parts[0].inside(MINUS)}"


@dataclass(frozen=True, slots=True)
class Calculated(Term):
    """Two terms joined by + - * or /; unknown for a division by zero."""

    sign: str
    parts: tuple[Term, Term]

    @property
    def rank(self) -> int:  # type: ignore[override]
        return RANKS[self.sign]

    def value(self, source: Any) -> float:
        left, right = (part.value(source) for part in self.parts)
        return math.nan if self.sign == "/" and not right else ARITHMETIC[self.sign](left, right)

    def __str__(self) -> str:
        left, right = self.parts
        return f"{left.inside(self.rank)} {self.sign} {right.inside(self.rank + 1)}"


@dataclass(frozen=True, slots=True)
class ComparisonNode(Test):
    """Two terms joined by a sign such as <=; unknown if either number is."""

    sign: str
    parts: tuple[Term, Term]
    rank: ClassVar[int] = COMPARISON

    def holds(self, source: Any) -> bool | None:
        left, right = (part.value(source) for part in self.parts)
        if math.isnan(left) or math.isnan(right):
            return None
        return COMPARISONS[self.sign](left, right)

    def filled(self, source: Any) -> str:
        left, right = (part.value(source) + 0.0 for part in self.parts)  # zero, not minus zero
        shown = f"{left:.6g}", f"{right:.6g}"
        if shown[0] == shown[1] and left != right:
            shown = repr(left), repr(right)
        first, second = (_filled(*each) for each in zip(self.parts, shown, strict=True))
        return f"{first} {self.sign} {second}: {_ANSWER[self.holds(source)]}"

    def __str__(self) -> str:
        return f"{self.parts[0]} {self.sign} {self.parts[1]}"


@dataclass(frozen=True, slots=True)
class Joined(Test):
    """Tests joined by `and` or by `or`, in Kleene's three-valued logic."""

    word: str
    parts: tuple[Test, ...]

    @property
    def rank(self) -> int:  # type: ignore[override]
        return RANKS[self.word]

    def holds(self, source: Any) -> bool | None:
        deciding, known = self.word == "or", True
        for part in self.parts:
            answer = part.holds(source)
            if answer is deciding:
                return deciding
            known = known and answer is not None
        return not deciding if known else None

    def filled(self, source: Any) -> str:
        return f" {self.word} ".join(f"({part.filled(source)})" for part in self.parts)

    def __str__(self) -> str:
        return f" {self.word} ".join(part.inside(self.rank + 1) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Test):
    """A test that must fail."""

    parts: tuple[Test]
    rank: ClassVar[int] = NOT

    def holds(self, source: Any) -> bool | None:
        answer = self.parts[0].holds(source)
        return None if answer is None else not answer

    def filled(self, source: Any) -> str:
        return f"not ({self.parts[0].filled(source)})"

    def __str__(self) -> str:
        return f"not {self.parts[0].inside(NOT)}"


_ANSWER = {True: "yes", False: "no", None: "unknown"}


def _filled(term: Term, shown: str) -> str:
    if all(isinstance(part, Number | Negated) for part in term.walk()):
        return str(term)
    return f"{term} = {'no data' if shown == 'nan' else shown}"

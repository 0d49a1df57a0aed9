"""The tree of a condition: numbers and names joined by signs, which has a value and prints itself.

The value of a term is a number, NaN where it is unknown. That of a test is whether it holds, None
where that is unknown.

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

OR, AND, NOT, COMPARISON, SUM, PRODUCT, MINUS, ATOM = range(1, 9)
"""How tightly each binds, the loosest first."""

JOINS = {"or": OR, "and": AND}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
RANKS = {**JOINS, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}
RANKS |= dict.fromkeys(COMPARISONS, COMPARISON)
PREFIXES = {"not": NOT, "-": MINUS}
_ANSWER = {True: "yes", False: "no", None: "unknown"}


class Node(ABC):
    """A part of a condition."""

    rank: ClassVar[int] = ATOM
    parts: tuple[Any, ...] = ()

    @property
    def is_test(self) -> bool:
        """Whether it holds or not; otherwise it is a number."""
        return self.rank <= COMPARISON

    @property
    def is_term(self) -> bool:
        """Whether it is a number."""
        return not self.is_test

    @abstractmethod
    def value(self, source: Any) -> Any:
        """The number, or whether it holds, with figures from `source`."""

    def filled(self, source: Any) -> str:  # noqa: ARG002
        """The text with the figures filled in."""
        return str(self)

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


@dataclass(frozen=True, slots=True)
class Number(Node):
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
class Operation(Node):
    """Parts joined by a sign, or one part behind a sign; a division by zero is unknown."""

    sign: str
    parts: tuple[Node, ...]

    @property
    def rank(self) -> int:  # type: ignore[override]
        return (PREFIXES if len(self.parts) == 1 else RANKS)[self.sign]

    def value(self, source: Any) -> Any:
        if self.sign in JOINS:
            return self._joined(source)
        first = self.parts[0].value(source)
        if self.sign == "not":
            return None if first is None else not first
        if len(self.parts) == 1:
            return -first
        second = self.parts[1].value(source)
        if self.sign in COMPARISONS:
            unknown = math.isnan(first) or math.isnan(second)
            return None if unknown else COMPARISONS[self.sign](first, second)
        return ARITHMETIC[self.sign](first, second) if self.sign != "/" or second else math.nan

    def _joined(self, source: Any) -> bool | None:
        """In Kleene's three-valued logic."""
        deciding, known = self.sign == "or", True
        for part in self.parts:
            answer: bool | None = part.value(source)
            if answer is deciding:
                return deciding
            known = known and answer is not None
        return not deciding if known else None

    def filled(self, source: Any) -> str:
        if self.sign in JOINS:
            return f" {self.sign} ".join(f"({part.filled(source)})" for part in self.parts)
        if self.sign == "not":
            return f"not ({self.parts[0].filled(source)})"
        if self.sign not in COMPARISONS:
            return str(self)
        left, right = (part.value(source) + 0.0 for part in self.parts)  # zero, not minus zero
        shown = f"{left:.6g}", f"{right:.6g}"
        if shown[0] == shown[1] and left != right:
            shown = repr(left), repr(right)
        first, second = (_filled(*each) for each in zip(self.parts, shown, strict=True))
        return f"{first} {self.sign} {second}: {_ANSWER[self.value(source)]}"

    def __str__(self) -> str:
        first, *rest = self.parts
        if not rest:
            return f"{self.sign}{' ' * self.is_test}{first.inside(self.rank)}"
        left = first.inside(self.rank + (self.sign in JOINS))
        return f" {self.sign} ".join([left, *(part.inside(self.rank + 1) for part in rest)])


def _filled(term: Node, shown: str) -> str:
    if all(isinstance(part, Number) or part.rank == MINUS for part in term.walk()):
        return str(term)
    return f"{term} = {'no data' if shown == 'nan' else shown}"

"""The tests of a condition: each has an answer and prints itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from runyard.stats.conditions_terms import Figures, Known, Negated, Number, Statistic, Term, inside

if TYPE_CHECKING:
    from runyard.stats.conditions_scope import Scope


@dataclass(frozen=True, slots=True)
class Goal:
    """An interval of a mean that a condition wants narrower than `half`."""

    metric: str
    level: float
    half: float


class Test(ABC):
    """Something that holds, does not hold, or is not known (None)."""

    rank: ClassVar[int] = 4

    @abstractmethod
    def judge(self, figures: Figures) -> tuple[bool | None, str]:
        """The answer, and the text with the figures put in."""

    @abstractmethod
    def terms(self) -> Iterator[Known]:
        """The figures it is made of."""

    @abstractmethod
    def within(self, scope: Scope) -> Test:
        """The same with every name taken for what it means there."""

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
        shown = f"{left + 0.0:.6g}", f"{right + 0.0:.6g}"  # zero, and not minus zero
        if shown[0] == shown[1] and left != right:
            shown = repr(left), repr(right)
        texts = _filled(self.left, shown[0]), _filled(self.right, shown[1])
        return holds, f"{texts[0]} {self.sign} {texts[1]}: {_ANSWER[holds]}"

    def terms(self) -> Iterator[Known]:
        """The figures it is made of."""
        yield from self.left.terms()
        yield from self.right.terms()

    def within(self, scope: Scope) -> Compared:
        """The same with every name taken for what it means there."""
        return Compared(self.sign, self.left.within(scope), self.right.within(scope))

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

    def terms(self) -> Iterator[Known]:
        """The figures it is made of."""
        for part in self.parts:
            yield from part.terms()

    def within(self, scope: Scope) -> Joined:
        """The same with every name taken for what it means there."""
        return Joined(self.word, tuple(part.within(scope) for part in self.parts))

    def goals(self) -> Iterator[Goal]:
        """The interval widths waited for."""
        for part in self.parts:
            yield from part.goals()

    def __str__(self) -> str:
        return f" {self.word} ".join(inside(part, part.rank <= self.rank) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Test):
    """A test that is to fail."""

    rank: ClassVar[int] = 3
    part: Test

    def judge(self, figures: Figures) -> tuple[bool | None, str]:
        """The opposite; what is unknown stays unknown."""
        holds, text = self.part.judge(figures)
        return None if holds is None else not holds, f"not ({text})"

    def terms(self) -> Iterator[Known]:
        """The figures it is made of."""
        return self.part.terms()

    def within(self, scope: Scope) -> Not:
        """The same with every name taken for what it means there."""
        return Not(self.part.within(scope))

    def __str__(self) -> str:
        return f"not {inside(self.part, self.part.rank < self.rank)}"


_ANSWER = {True: "yes", False: "no", None: "not known"}


def _compare(sign: str, left: float, right: float) -> bool:
    if sign == "==":
        return left == right
    if sign == "!=":
        return left != right
    if sign[0] == "<":
        return left < right or (sign == "<=" and left == right)
    return left > right or (sign == ">=" and left == right)


def _filled(term: Term, shown: str) -> str:
    if isinstance(term, Number) or (isinstance(term, Negated) and isinstance(term.operand, Number)):
        return str(term)
    return f"{term} = {'no data' if shown == 'nan' else shown}"

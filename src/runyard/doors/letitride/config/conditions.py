"""The language of custom rules: `has_paying_hand`, `is_flush_draw and high_cards >= 2`.

Operands, in the grammar that gates share:

    high_cards  has_pair  …      facts of the hand; one that is true or false can stand by itself
    2  true  false  default      numbers and constants; `default` is true
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runyard.doors.letitride.cards.facts import COUNTS, FLAGS, HandFacts
from runyard.stats.conditions_reader import Reader
from runyard.stats.conditions_tree import Node, Term, Test

_CONSTANTS = {"default": True, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class HandCondition:
    """A condition on a hand."""

    text: str  # as it was written
    tree: Test

    def holds(self, hand: HandFacts) -> bool:
        """Whether it holds for a hand."""
        return self.tree.holds(hand) is True


@dataclass(frozen=True, slots=True)
class _Count(Term):
    """A fact that is a whole number."""

    name: str

    def value(self, source: Any) -> float:
        found: int = getattr(source, self.name)
        return found

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class _Flag(Term, Test):
    """A fact that is true or false, or a constant."""

    name: str
    constant: bool | None = None  # None for a fact

    def holds(self, source: Any) -> bool:
        found: bool = getattr(source, self.name) if self.constant is None else self.constant
        return found

    value = holds

    def __str__(self) -> str:
        return self.name


class _FactReader(Reader):
    wanted = "a fact or a number"

    def operand(self) -> Node:
        word = self.word
        if word.text.lower() in _CONSTANTS:
            self.take()
            return _Flag(word.text.lower(), _CONSTANTS[word.text.lower()])
        if word.text not in (*COUNTS, *FLAGS):
            known = f"numbers: {', '.join(COUNTS)}; true or false: {', '.join(FLAGS)}; and default"
            raise self.error(word.at, f"there is no fact {word.text!r}", known)
        self.take()
        return _Flag(word.text) if word.text in FLAGS else _Count(word.text)

    def alone(self, node: Term) -> tuple[str, str]:  # noqa: ARG002
        return "expected a comparison and found only a number", "compare it: high_cards >= 2"


def parse(text: str) -> HandCondition:
    """Read a condition; a UsageError points at the place that can't be read."""
    return HandCondition(text, _FactReader(text).condition())

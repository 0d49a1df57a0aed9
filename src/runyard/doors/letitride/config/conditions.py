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
from runyard.stats.conditions_tree import Node

_CONSTANTS = {"default": True, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class HandCondition:
    """A condition on a hand."""

    text: str  # as it was written
    tree: Node

    def holds(self, hand: HandFacts) -> bool:
        """Whether it holds for a hand."""
        return self.tree.value(hand) is True


@dataclass(frozen=True, slots=True)
class _Fact(Node):
    """A fact or a constant; one that is true or false is a number and a test."""

    name: str
    constant: bool | None = None  # None for a fact

    @property
    def is_test(self) -> bool:
        return self.name not in COUNTS

    @property
    def is_term(self) -> bool:
        return True

    def value(self, source: Any) -> float:
        found: float = getattr(source, self.name) if self.constant is None else self.constant
        return found

    def __str__(self) -> str:
        return self.name


class _FactReader(Reader):
    wanted = "a fact or a number"

    def operand(self) -> Node:
        word = self.word
        name = word.text.lower() if word.text.lower() in _CONSTANTS else word.text
        if name not in (*COUNTS, *FLAGS, *_CONSTANTS):
            known = f"numbers: {', '.join(COUNTS)}; true or false: {', '.join(FLAGS)}; and default"
            raise self.error(word.at, f"there is no fact {word.text!r}", known)
        self.take()
        return _Fact(name, _CONSTANTS.get(name))

    def alone(self, node: Node) -> tuple[str, str]:  # noqa: ARG002
        return "expected a comparison and found only a number", "compare it: high_cards >= 2"


def parse(text: str) -> HandCondition:
    """Read a condition; a UsageError points at the place that can't be read."""
    return HandCondition(text, _FactReader(text).condition())

"""Random numbers, with a separate stream for each purpose.

A part that draws more often in one experiment than in another doesn't change the numbers of other
parts, so two experiments with the same seed differ only in their configuration.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class RandomStream:
    """One stream, using only `random()`, whose numbers Python guarantees not to change."""

    __slots__ = ("share",)

    def __init__(self, seed: int, purpose: str) -> None:
        self.share = random.Random(f"{purpose}/{seed}").random  # noqa: S311

    def happens(self, probability: float) -> bool:
        """Draw whether an event of this probability happens."""
        return self.share() < probability

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of these, all equally likely."""
        return options[int(self.share() * len(options))]

    def between(self, low: float, high: float) -> float:
        """Draw a number from this range."""
        return low + (high - low) * self.share()

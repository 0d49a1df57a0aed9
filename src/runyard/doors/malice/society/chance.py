"""Random numbers, a stream of its own for each purpose.

Whoever draws more or less often in one experiment than in another leaves everybody else's numbers
as they are, so that two experiments with one seed differ by what they differ in.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class RandomStream:
    """One stream; made from shares between 0 and 1 alone, which Python promises never to change."""

    __slots__ = ("share",)

    def __init__(self, seed: int, purpose: str) -> None:
        self.share = random.Random(f"{purpose}/{seed}").random  # noqa: S311

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self.share() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of these, each as likely as the others."""
        return options[int(self.share() * len(options))]

    def between(self, low: float, high: float) -> float:
        """A number from this range."""
        return low + (high - low) * self.share()

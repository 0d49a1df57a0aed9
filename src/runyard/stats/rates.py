"""A rate: how many of a total succeeded."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runyard.stats.intervals import Interval, wilson


@dataclass(frozen=True, slots=True)
class Rate:
    """Successes out of a total."""

    successes: int
    total: int

    @property
    def value(self) -> float:
        """The share of successes; NaN for a total of 0."""
        return self.successes / self.total if self.total else math.nan

    def interval(self, level: float = 0.95) -> Interval:
        """Wilson's score interval."""
        return wilson(self.successes, self.total, level)

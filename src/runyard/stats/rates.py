"""A rate: how many of so many succeeded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.spec import codec
from runyard.stats.exact import as_floats
from runyard.stats.intervals import Interval, wilson


@dataclass(slots=True)
class Rate:
    """Successes out of a total, from values that are 0 or 1, False or True."""

    successes: int = 0
    total: int = 0

    @property
    def value(self) -> float:
        """The share of successes; NaN of nothing."""
        return self.successes / self.total if self.total else math.nan

    def add(self, success: float) -> None:
        """Take in one success (1, True) or failure (0, False)."""
        self.add_array([success])

    def add_array(self, values: ArrayLike) -> None:
        """Take in many successes and failures."""
        data = as_floats(values)
        successes = int(np.count_nonzero(data == 1))
        if successes + int(np.count_nonzero(data == 0)) != len(data):
            raise UsageError(
                "a rate is made of values that are 0 or 1, and there are others",
                hint="use Moments for numbers of any kind",
            )
        self.successes += successes
        self.total += len(data)

    def merge(self, other: Rate) -> None:
        """Take in everything that another one has seen."""
        self.successes += other.successes
        self.total += other.total

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.successes + other.successes, self.total + other.total)

    def interval(self, level: float = 0.95) -> Interval:
        """Wilson's score interval."""
        return wilson(self.successes, self.total, level)

    def to_data(self) -> dict[str, Any]:
        """Plain values."""
        return {"successes": self.successes, "total": self.total}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Rate:
        """The rate that `to_data` described."""
        return cls(data["successes"], data["total"])

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return codec.encode(self.to_data())

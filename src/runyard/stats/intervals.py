"""Rates, and confidence intervals for a mean, a rate and a difference of rates.

Each function names the published method it implements and the data it is meant for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.stats.moments import Moments

Floats = NDArray[np.float64]

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """The range that holds the true value with a confidence of `level`."""

    low: float
    high: float
    level: float  # 0.95 for 95%
    method: str  # how it was computed, such as "wilson"

    @classmethod
    def around(cls, middle: float, half: float, level: float, method: str) -> Interval:
        """The interval of this half-width."""
        return cls(middle - half, middle + half, level, method)

    @property
    def half(self) -> float:
        """Half the width: the figure after a ±."""
        return (self.high - self.low) / 2

    def contains(self, value: float) -> bool:
        """Whether the value lies inside, ends included."""
        return self.low <= value <= self.high


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


def check_level(level: float) -> float:
    """Return the level; refuse one that is not between 0 and 1."""
    if not 0 < level < 1:
        raise UsageError(
            f"a confidence level of {level!r} is not between 0 and 1", hint="use 0.95 for 95%"
        )
    return level


def normal_quantile(level: float) -> float:
    """Half the width of a two-sided normal interval, in standard errors."""
    return _NORMAL.inv_cdf((1 + check_level(level)) / 2)


def t_quantile(level: float, freedom: float) -> float:
    """Half the width of Student's two-sided interval, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + check_level(level)) / 2))


def t_interval(moments: Moments, level: float = 0.95) -> Interval:
    """Student's interval for a mean: exact for normal data, close for the mean of many values."""
    check_level(level)
    if moments.count < 2:
        raise UsageError(
            f"an interval for a mean needs two or more values, but there are {moments.count}",
            hint="add replicates",
        )
    half = t_quantile(level, moments.count - 1) * moments.sem
    return Interval.around(moments.mean, half, level, "t")


def wilson(successes: float, total: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a rate; valid for any count, including 0 and all.

    A part of a success is possible: the mean of values between 0 and 1 varies at most as a rate.
    """
    z = normal_quantile(level)
    _check_counts(successes, total)
    rate = successes / total
    shrink = 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / shrink
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return Interval(low, high, level, "wilson")


def newcombe(s1: int, n1: int, s2: int, n2: int, level: float = 0.95) -> Interval:
    """Newcombe's hybrid score interval for `s1/n1 - s2/n2`, two independent rates."""
    first, second = wilson(s1, n1, level), wilson(s2, n2, level)
    p1, p2 = s1 / n1, s2 / n2
    below = math.hypot(p1 - first.low, second.high - p2)
    above = math.hypot(first.high - p1, p2 - second.low)
    return Interval(p1 - p2 - below, p1 - p2 + above, level, "newcombe")


def _check_counts(successes: float, total: int) -> None:
    if total < 1 or not 0 <= successes <= total:
        raise UsageError(
            f"a rate of {successes} out of {total} has no interval",
            hint="successes must be between 0 and the total, and the total at least 1",
        )

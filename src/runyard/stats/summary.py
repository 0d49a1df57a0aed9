"""One metric in one pass: moments, quantiles and, if every value is a boolean, a rate.

Also how figures are shown to people: with no more digits than their interval supports.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from runyard.stats.intervals import Interval, Rate, t_interval
from runyard.stats.moments import Moments
from runyard.stats.quantiles import Quantiles


class Summary:
    """The statistics of one metric; the order of its values changes no digit.

    Booleans make a rate. Numbers don't, even if all are 0 or 1, since they may be counts or scores;
    `rate` declares that 0 and 1 stand for False and True.
    """

    __slots__ = ("_boolean", "_declared", "moments", "quantiles")

    def __init__(
        self, values: ArrayLike | None = None, *, order: int = 4, rate: bool = False
    ) -> None:
        self.moments = Moments(order=order)
        self.quantiles = Quantiles()
        self._declared = rate
        self._boolean = True  # until there is a number
        if values is not None:
            self.add_array(values)

    def add_array(self, values: ArrayLike) -> None:
        """Add values; None counts as missing."""
        self.moments.add_array(values)
        self.quantiles.add_array(values)
        if self._boolean and not self._declared:
            self._boolean = _is_boolean(np.asarray(values))

    @property
    def count(self) -> int:
        """The number of values, without missing ones."""
        return self.moments.count

    @property
    def missing(self) -> int:
        """The number of values that were not finite numbers."""
        return self.moments.missing

    @property
    def mean(self) -> float:
        """The mean; of booleans, the rate."""
        return self.moments.mean

    @property
    def rate(self) -> Rate | None:
        """Successes and total, if every value is a boolean (or declared to be); otherwise None."""
        counts = self.quantiles.counts() if self._boolean else None
        if not counts or not counts.keys() <= {0.0, 1.0}:
            return None
        return Rate(counts.get(1.0, 0), self.count)

    def interval(self, level: float = 0.95) -> Interval | None:
        """The interval of the mean: Wilson's for a rate, otherwise Student's; None if too few."""
        rate = self.rate
        if rate is not None:
            return rate.interval(level)
        return t_interval(self.moments, level) if self.count > 1 else None

    def line(self, level: float = 0.95) -> str:
        """One line for people, such as `0.1123 ± 0.0098 (sd 1.57, n 98,304)`."""
        lost = f", {self.missing:,} missing" if self.missing else ""
        rate, interval = self.rate, self.interval(level)
        if not self.count:
            return f"no values{lost}"
        if interval is None:
            return f"{show(self.mean)} (n 1{lost})"
        if rate is not None:
            places = decimals(interval.half)
            ends = rate.value, interval.low, interval.high
            mean, low, high = (rounded(figure, places) for figure in ends)
            return f"{mean} ({low} to {high}; {rate.successes:,} of {rate.total:,}{lost})"
        mean = plus_minus(self.mean, interval.half)
        return f"{mean} (sd {show(self.moments.sd, 3)}, n {self.count:,}{lost})"

    def to_data(self) -> dict[str, Any]:
        """The figures as plain JSON values; those that do not exist are null."""
        moments, interval, there = self.moments, self.interval(), self.count > 0
        return {
            "count": self.count,
            "missing": self.missing,
            "mean": moments.mean if there else None,
            "low95": None if interval is None else interval.low,
            "high95": None if interval is None else interval.high,
            "sd": moments.sd if self.count > 1 else None,
            "min": moments.minimum if there else None,
            "max": moments.maximum if there else None,
            "quantiles": {
                str(q): self.quantiles.quantile(q) if there else None
                for q in (0.05, 0.25, 0.5, 0.75, 0.95)
            },
        }

    def __repr__(self) -> str:
        return f"Summary({self.line()})"


def _is_boolean(values: np.ndarray[Any, Any]) -> bool:
    """Whether all values that are not None are booleans."""
    if values.dtype.kind != "O":
        return values.dtype.kind == "b" or not values.size
    return all(value is None or isinstance(value, bool | np.bool_) for value in values.flat)


def show(number: float, digits: int = 4) -> str:
    """A number with a few significant digits: `0.1123`, `98,304`, `1.2e-09`."""
    if not math.isfinite(number):
        return str(number)
    if number == 0 or (float(number).is_integer() and abs(number) < 1e9):
        return f"{number:,.0f}" if number else "0"
    if not 1e-4 <= abs(number) < 1e9:
        return f"{number:.{digits - 1}e}".replace(".000e", "e")
    return rounded(number, max(0, digits - 1 - _magnitude(number)))


def plus_minus(value: float, half: float) -> str:
    """A value and the half-width of its interval, both rounded to two digits of the latter."""
    if not math.isfinite(value) or not math.isfinite(half) or half <= 0:
        return f"{show(value)} ± {show(half)}"
    magnitude = _magnitude(max(abs(value), half))
    if not -4 <= magnitude < 9:
        scale = 10.0**magnitude
        return f"({plus_minus(value / scale, half / scale)})e{magnitude:+03d}"
    places = decimals(half)
    return f"{rounded(value, places)} ± {rounded(half, places)}"


def _magnitude(number: float) -> int:
    return math.floor(math.log10(abs(number)))


def decimals(half: float) -> int:
    """The decimals that leave two digits of a half-width, at most those of a double."""
    return min(15, 1 - _magnitude(float(f"{half:.1e}"))) if half > 0 else 4


def rounded(number: float, places: int) -> str:
    """A number rounded to this many decimals (-1: to tens); zero has no sign."""
    shown = f"{round(number, places):,.{max(0, places)}f}"
    return shown.removeprefix("-") if not shown.strip("-0.,") else shown

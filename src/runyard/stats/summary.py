"""One metric in one pass: moments, quantiles and, if every value is a boolean, a rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from runyard.format import decimals, plus_minus, rounded, show
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

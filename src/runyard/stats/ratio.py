"""The ratio of two totals over independent units, such as profit per hand over many sessions.

The mean of the units' own ratios answers another question: it weighs a session of one hand like a
session of a thousand. The ratio of totals does not, and its interval knows that both totals vary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.spec import codec
from runyard.stats.exact import ExactSum, add_products, as_floats, to_float
from runyard.stats.intervals import Interval, normal_quantile, t_quantile


class Ratio:
    """`sum(y) / sum(x)` over independent units, kept as exact sums that merge in any order.

    A unit where either number is not finite is counted as `missing`.
    """

    __slots__ = ("_sums", "count", "missing")

    def __init__(self, y: ArrayLike | None = None, x: ArrayLike | None = None) -> None:
        self.count = 0
        self.missing = 0
        self._sums = [ExactSum() for _ in range(5)]  # of x, y, x*x, x*y, y*y
        if y is not None and x is not None:
            self.add_array(y, x)

    def add(self, y: float, x: float) -> None:
        """Take in one unit."""
        self.add_array([y], [x])

    def add_array(self, y: ArrayLike, x: ArrayLike) -> None:
        """Take in many units."""
        above, below = as_floats(y), as_floats(x)
        if len(above) != len(below):
            raise UsageError(
                f"a ratio needs pairs, and there are {len(above)} numbers above and "
                f"{len(below)} below"
            )
        finite = np.isfinite(above) & np.isfinite(below)
        if not finite.all():
            self.missing += int(np.count_nonzero(~finite))
            above, below = above[finite], below[finite]
        if len(above):
            self.count += len(above)
            add_products(self._sums, below, above)

    def merge(self, other: Ratio) -> None:
        """Take in everything that another one has seen."""
        self.count += other.count
        self.missing += other.missing
        for mine, theirs in zip(self._sums, other._sums, strict=True):
            mine.merge(theirs)

    def __add__(self, other: Ratio) -> Ratio:
        both = Ratio()
        both.merge(self)
        both.merge(other)
        return both

    @property
    def value(self) -> float:
        """The ratio of the totals; NaN where the total below is zero."""
        x, y = self._sums[0].fraction, self._sums[1].fraction
        return to_float(y / x) if x else math.nan

    @property
    def standard_error(self) -> float:
        """Linearised (the delta method): the spread of `y - ratio * x` over the mean of x."""
        x, y, xx, xy, yy = (total.fraction for total in self._sums)
        if self.count < 2 or not x:
            return math.nan
        ratio = y / x
        residual = yy - 2 * ratio * xy + ratio * ratio * xx
        return _root(residual * self.count / ((self.count - 1) * x * x))

    def interval(
        self, level: float = 0.95, method: Literal["linear", "fieller"] = "linear"
    ) -> Interval:
        """The interval of the ratio: "linear" for many units, "fieller" also for few."""
        x, y, xx, xy, yy = (total.fraction for total in self._sums)
        n = self.count
        if n < 2 or not x:
            raise UsageError(
                f"{n} units with a total of {float(x):g} below give no interval for a ratio",
                hint="it takes two units or more, and a total other than zero",
            )
        if method == "fieller":
            var_x, cov, var_y = (
                to_float((s - t / n) / (n * (n - 1)))
                for s, t in ((xx, x * x), (xy, x * y), (yy, y * y))
            )
            top, bottom = to_float(y / n), to_float(x / n)
            return fieller(
                top, bottom, var_top=var_y, var_bottom=var_x, cov=cov, freedom=n - 1, level=level
            )
        if method != "linear":
            raise UsageError(f"there is no interval {method!r} for a ratio", hint="linear, fieller")
        half = t_quantile(level, n - 1) * self.standard_error
        return Interval(self.value - half, self.value + half, level, "ratio linear")

    def to_data(self) -> dict[str, Any]:
        """Plain values, the same for the same data in any order and partition."""
        sums = [total.to_data() for total in self._sums]
        return {"count": self.count, "missing": self.missing, "sums": sums}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Ratio:
        """The ratio that `to_data` described."""
        made = cls()
        made.count, made.missing = data["count"], data["missing"]
        made._sums = [ExactSum.from_data(total) for total in data["sums"]]
        return made

    def to_bytes(self) -> bytes:
        """Canonical bytes, the same for the same data in any order and partition."""
        return codec.encode(self.to_data())

    def __repr__(self) -> str:
        return f"Ratio(count={self.count}, value={self.value!r})"


def fieller(
    top: float,
    bottom: float,
    *,
    var_top: float,
    var_bottom: float,
    cov: float = 0.0,
    freedom: float = math.inf,
    level: float = 0.95,
) -> Interval:
    """Fieller's interval for the ratio of two normal estimates, exact for any size of sample.

    Variances and covariance are those of the estimates (squared standard errors). Where the lower
    estimate is not clearly different from zero, the ratio may be anything: the whole line.
    """
    reach = t_quantile(level, freedom) if math.isfinite(freedom) else normal_quantile(level)
    a = bottom * bottom - reach**2 * var_bottom
    b = top * bottom - reach**2 * cov
    c = top * top - reach**2 * var_top
    if a <= 0:
        return Interval(-math.inf, math.inf, level, "fieller")
    root = math.sqrt(max(0.0, b * b - a * c))
    return Interval((b - root) / a, (b + root) / a, level, "fieller")


def _root(square: Fraction) -> float:
    """The square root of a fraction, though it may be beyond the doubles."""
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    try:
        return math.ldexp(math.sqrt(to_float(square / Fraction(4) ** shift)), shift)
    except OverflowError:
        return math.inf

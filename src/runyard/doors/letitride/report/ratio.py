"""The ratio of two totals over independent units, such as profit per hand over many sessions.

The mean of the units' own ratios answers another question: it weighs a session of one hand like a
session of a thousand. The ratio of totals does not, and its interval lets both totals vary.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.stats.exact import add_powers, as_floats, root, sum_of_products, to_float
from runyard.stats.intervals import Interval, t_quantile


class Ratio:
    """`sum(y) / sum(x)` over independent units, from exact sums: order and pieces don't matter.

    Units where either number is not finite count as `missing`.
    """

    __slots__ = ("_x", "_xy", "_y", "count", "missing")

    def __init__(self, y: ArrayLike = (), x: ArrayLike = ()) -> None:
        self.count = 0
        self.missing = 0
        self._x, self._y = [Fraction()] * 2, [Fraction()] * 2  # sums of values and of squares
        self._xy = Fraction()
        self.add_array(np.asarray(y, np.float64), np.asarray(x, np.float64))

    def add_array(self, y: ArrayLike, x: ArrayLike) -> None:
        """Add units."""
        above, below = as_floats(y), as_floats(x)
        if len(above) != len(below):
            raise UsageError(
                f"a ratio needs pairs, but there are {len(above)} numerators and "
                f"{len(below)} denominators"
            )
        finite = np.isfinite(above) & np.isfinite(below)
        if not finite.all():
            self.missing += int(np.count_nonzero(~finite))
            above, below = above[finite], below[finite]
        if len(above):
            self.count += len(above)
            add_powers(self._x, below)
            add_powers(self._y, above)
            self._xy += sum_of_products(below, above)

    @property
    def value(self) -> float:
        """The ratio of the totals; NaN if the lower total is zero."""
        x, y = self._x[0], self._y[0]
        return to_float(y / x) if x else math.nan

    @property
    def standard_error(self) -> float:
        """Linearised (the delta method): the spread of `y - ratio * x` over the mean of x."""
        (x, xx), (y, yy), xy = self._x, self._y, self._xy
        if self.count < 2 or not x:
            return math.nan
        ratio = y / x
        residual = yy - 2 * ratio * xy + ratio * ratio * xx
        return root(residual * self.count / ((self.count - 1) * x * x))

    def interval(self, level: float = 0.95) -> Interval:
        """The linearised interval, for many units."""
        if self.count < 2 or math.isnan(self.value):
            raise UsageError(
                f"no interval for a ratio of {self.count} units with a lower total of "
                f"{to_float(self._x[0]):g}",
                hint="it needs two or more units and a total other than zero",
            )
        half = t_quantile(level, self.count - 1) * self.standard_error
        return Interval(self.value - half, self.value + half, level, "ratio linear")

    def __repr__(self) -> str:
        return f"Ratio(count={self.count}, value={self.value!r})"

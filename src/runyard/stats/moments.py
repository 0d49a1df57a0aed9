"""Count, mean, spread and shape of a stream, in constant memory and in any order.

The state is a count and exact sums of powers. Everything else is computed from those in fractions
and rounded once, so a mean of a billion with a spread of a thousandth loses no digits.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.stats.exact import add_powers, as_floats, root, to_float


class Moments:
    """The moments of one metric. Values that are not finite numbers count as `missing`.

    `order` is the highest power kept: 1 gives the mean, 2 the variance, 3 the skew, 4 the kurtosis.
    Figures that don't exist (the mean of nothing, the spread of one value) are NaN.
    """

    __slots__ = ("_high", "_low", "_sums", "count", "missing")

    def __init__(self, values: ArrayLike | None = None, *, order: int = 4) -> None:
        if order not in (1, 2, 3, 4):
            raise UsageError(f"no moments of order {order}", hint="use 1, 2, 3 or 4")
        self.count = 0
        self.missing = 0
        self._sums = [Fraction()] * order
        self._low, self._high = math.inf, -math.inf
        if values is not None:
            self.add_array(values)

    def add_array(self, values: ArrayLike) -> None:
        """Add values; None counts as missing."""
        data = as_floats(values)
        finite = np.isfinite(data)
        if not finite.all():
            data = data[finite]
            self.missing += len(finite) - len(data)
        if len(data):
            self.count += len(data)
            # Adding zero turns -0.0 into 0.0, or the first of the two would stay.
            self._low = min(self._low, float(data.min()) + 0.0)
            self._high = max(self._high, float(data.max()) + 0.0)
            add_powers(self._sums, data)

    @property
    def order(self) -> int:
        """The highest power kept."""
        return len(self._sums)

    @property
    def total(self) -> float:
        """The sum of all values."""
        return to_float(self._sums[0])

    @property
    def mean(self) -> float:
        """The mean."""
        return to_float(self._sums[0] / self.count) if self.count else math.nan

    @property
    def variance(self) -> float:
        """The sample variance, with n - 1 below."""
        n = self.count
        return to_float(self._central(2)[0] / (n * (n - 1))) if n > 1 else math.nan

    @property
    def sd(self) -> float:
        """The sample standard deviation."""
        n = self.count
        return root(self._central(2)[0] / (n * (n - 1))) if n > 1 else math.nan

    @property
    def sem(self) -> float:
        """The standard error of the mean."""
        n = self.count
        return root(self._central(2)[0] / (n**2 * (n - 1))) if n > 1 else math.nan

    @property
    def skew(self) -> float:
        """Fisher's skewness g1 = m3 / m2**1.5; NaN where all values are equal."""
        squares, cubes = self._central(3)
        size = root(cubes**2 / squares**3) if squares else math.nan
        return -size if cubes < 0 else size

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis g2 = m4 / m2**2 - 3; NaN where all values are equal."""
        squares, _, fourths = self._central(4)
        return to_float(fourths / squares**2 - 3) if squares else math.nan

    @property
    def minimum(self) -> float:
        """The smallest value."""
        return self._low if self.count else math.nan

    @property
    def maximum(self) -> float:
        """The largest value."""
        return self._high if self.count else math.nan

    def _central(self, order: int) -> list[Fraction]:
        """n**k times the k-th central moment, for k = 2 and up."""
        if order > self.order:
            raise UsageError(
                f"these moments are of order {self.order} and don't include order {order}",
                hint=f"make them with Moments(order={order})",
            )
        n, (a, b, *more) = self.count, self._sums[:order]
        central = [n * b - a**2]
        if order > 2:
            central.append(n**2 * more[0] - 3 * n * a * b + 2 * a**3)
        if order > 3:
            central.append(n**3 * more[1] - 4 * n**2 * a * more[0] + 6 * n * a**2 * b - 3 * a**4)
        return central

    def __repr__(self) -> str:
        return f"Moments(count={self.count}, mean={self.mean!r})"

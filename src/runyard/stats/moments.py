"""Count, mean, spread and shape of a stream, in constant memory and in any order.

The state is a count and exact sums of powers. Everything else is computed from those in integer
arithmetic and rounded once, so a mean of a billion with a spread of a thousandth loses no digits.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.stats.exact import ExactSum, add_powers, as_floats, to_float


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
        self._sums = [ExactSum() for _ in range(order)]
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
        return self._sums[0].value

    @property
    def mean(self) -> float:
        """The mean."""
        return to_float(self._sums[0].fraction / self.count) if self.count else math.nan

    @property
    def variance(self) -> float:
        """The sample variance, with n - 1 below."""
        if self.count < 2:
            return math.nan
        exponent, squares = self._central(2)
        spread = Fraction(squares, self.count * (self.count - 1))
        return to_float(spread * Fraction(4) ** exponent)

    @property
    def sd(self) -> float:
        """The sample standard deviation."""
        return self._root(self.count * (self.count - 1)) if self.count > 1 else math.nan

    @property
    def sem(self) -> float:
        """The standard error of the mean."""
        return self._root(self.count**2 * (self.count - 1)) if self.count > 1 else math.nan

    @property
    def skew(self) -> float:
        """Fisher's skewness g1 = m3 / m2**1.5; NaN where all values are equal."""
        _, squares, cubes = self._central(3)
        if not squares:
            return math.nan
        return math.copysign(math.sqrt(cubes * cubes / squares**3), cubes)

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis g2 = m4 / m2**2 - 3; NaN where all values are equal."""
        _, squares, _, fourths = self._central(4)
        return (fourths - 3 * squares**2) / squares**2 if squares else math.nan

    @property
    def minimum(self) -> float:
        """The smallest value."""
        return self._low if self.count else math.nan

    @property
    def maximum(self) -> float:
        """The largest value."""
        return self._high if self.count else math.nan

    def _central(self, order: int) -> tuple[int, ...]:
        """An exponent e, then for k = 2 and up the integers n**k * m_k / 2**(k*e)."""
        if order > self.order:
            raise UsageError(
                f"these moments are of order {self.order} and don't include order {order}",
                hint=f"make them with Moments(order={order})",
            )
        kept = enumerate(self._sums[:order], start=1)
        exponent = min(total.canonical()[1] // power for power, total in kept)
        a, b, *more = [
            total.at(power * exponent) for power, total in enumerate(self._sums[:order], start=1)
        ]
        n = self.count
        central = [n * b - a * a]
        if order > 2:
            central.append(n * n * more[0] - 3 * n * a * b + 2 * a**3)
        if order > 3:
            central.append(n**3 * more[1] - 4 * n * n * a * more[0] + 6 * n * a * a * b - 3 * a**4)
        return exponent, *central

    def _root(self, divisor: int) -> float:
        """The square root of the sum of squares over a divisor, both of any size."""
        exponent, squares = self._central(2)
        shift = (squares.bit_length() - divisor.bit_length()) // 2
        scaled = to_float(Fraction(squares, divisor) / Fraction(4) ** shift)
        try:
            return math.ldexp(math.sqrt(scaled), shift + exponent)
        except OverflowError:
            return math.inf

    def __repr__(self) -> str:
        return f"Moments(count={self.count}, mean={self.mean!r})"

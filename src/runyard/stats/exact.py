"""Exact sums of doubles and of their products, at the speed of matrix multiplication.

Rounding makes an ordinary sum depend on the order of its terms. Here nothing is rounded: a sum is
an integer times a power of two, so values in any order and any pieces give the same digits. (It
also takes a quarter of the time of `math.fsum`, which could not be continued piece by piece.)

    block of values ──▶ slices of 20 bits ──▶ Gram matrix ──▶ integers ──▶ ExactSum
                        on one grid           (BLAS)           folded

A slice is what `(x + s) - s` keeps of x when s is a large power of two: a small multiple of one
unit. Products of two slices have at most 40 bits, and 2**13 of them add up to at most 2**53 units,
so the doubles in which BLAS multiplies and adds hold every partial result exactly, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from runyard.errors import UsageError

Floats = NDArray[np.float64]

_BLOCK = 1 << 13
_WIDTH = 20  # bits a slice
_DEPTH = 6  # slices a value may take; a square takes twice as many
_EXPONENTS = 960  # beyond, the slicing itself would overflow
_SPLITTER = float((1 << 27) + 1)


class ExactSum:
    """A sum of doubles without rounding: `units * 2**exponent`."""

    __slots__ = ("_exponent", "_units")

    def __init__(self, units: int = 0, exponent: int = 0) -> None:
        self._units = units
        self._exponent = exponent

    def add_units(self, units: int, exponent: int) -> None:
        """Add `units * 2**exponent`."""
        if exponent < self._exponent:
            self._units <<= self._exponent - exponent
            self._exponent = exponent
        self._units += units << (exponent - self._exponent)

    def at(self, exponent: int) -> int:
        """The sum counted in units of `2**exponent`, which must divide it."""
        units, own = self.canonical()
        return units << (own - exponent) if units else 0

    def canonical(self) -> tuple[int, int]:
        """The sum as an odd integer and an exponent; (0, 0) for zero."""
        if not self._units:
            return 0, 0
        trailing = (self._units & -self._units).bit_length() - 1
        return self._units >> trailing, self._exponent + trailing

    @property
    def value(self) -> float:
        """The sum as the nearest double; infinite beyond the largest double."""
        return to_float(self.fraction)

    @property
    def fraction(self) -> Fraction:
        """The exact sum."""
        return Fraction(self._units) * Fraction(2) ** self._exponent

    def __repr__(self) -> str:
        return f"ExactSum({self.value!r})"


def to_float(number: Fraction) -> float:
    """The nearest double; infinite beyond the largest double."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def as_floats(values: ArrayLike) -> Floats:
    """Any array of numbers as one flat array of doubles; None becomes NaN."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return np.ascontiguousarray(array, dtype=np.float64).ravel()
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"these values are not numbers: {error}") from None
    raise UsageError(f"values of type {array.dtype} are not numbers")


def add_powers(sums: Sequence[ExactSum], values: Floats) -> None:
    """Add every finite value to the first sum, its square to the second, up to the fourth power."""
    order = len(sums)
    if len(values) == 1:
        return _add_powers_of(sums, float(values[0]))
    work = np.empty((1 + 3 * _DEPTH, min(len(values), _BLOCK)))
    for block in _blocks(values):
        rows = work[:, : len(block)]
        rows[0] = 1.0
        x, exponent, strays = _sliced(block, rows[1:])
        for stray in block[strays].tolist() if strays is not None else ():
            _add_powers_of(sums, stray)
        if order == 1:
            sums[0].add_units(_fold(x.sum(axis=1)[None, :], 0), exponent - _unit(len(x)))
            continue
        depth = 1 + len(x)
        if order > 2:
            kept = block if strays is None else np.where(strays, 0.0, block)
            depth += _square(kept * math.ldexp(1.0, -exponent), rows[depth:], few=len(x) < 2)
        groups = [(0, 1), (1, 1 + len(x)), (1 + len(x), depth)]
        gram = rows[:depth] @ rows[:depth].T
        for power, (a, b) in enumerate([(0, 1), (1, 1), (1, 2), (2, 2)][:order], start=1):
            _add_gram(sums[power - 1], gram, groups[a], groups[b], power * exponent)
    return None


def product_and_error(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Two arrays that add up to the exact products (Dekker), if none is near the limits."""
    (high, low), (y_high, y_low) = _halves(x), _halves(y)
    product = x * y
    return product, ((high * y_high - product) + high * y_low + low * y_high) + low * y_low


def _halves(x: Floats) -> tuple[Floats, Floats]:
    carry = x * _SPLITTER
    high = carry - (carry - x)
    return high, x - high


def parts(value: float) -> tuple[int, int]:
    """A finite double as an integer times a power of two."""
    numerator, denominator = value.as_integer_ratio()
    return numerator, 1 - denominator.bit_length()


def _blocks(values: Floats) -> Iterator[Floats]:
    for start in range(0, len(values), _BLOCK):
        yield values[start : start + _BLOCK]


def _unit(depth: int) -> int:
    """The exponent below 1 of the unit of the last of `depth` slices."""
    return _WIDTH * depth - 1


def _sliced(block: Floats, rows: Floats) -> tuple[Floats, int, NDArray[np.bool_] | None]:
    """Cut a block into slices of values scaled below 1; strays are too large or small to fit.

    Returns the slices, the exponent of the scale, and a mask of strays, which count as zero.
    """
    exponent = math.frexp(max(block.max(), -block.min()))[1]
    if abs(exponent) > _EXPONENTS:
        return rows[:0], 0, np.ones(len(block), dtype=np.bool_)
    depth, rest = _cut(block, rows[:_DEPTH], exponent)
    strays = rest != 0 if depth == _DEPTH and rest.any() else None
    if strays is not None:
        depth, _ = _cut(np.where(strays, 0.0, block), rows[:_DEPTH], exponent)
    slices = rows[:depth]
    slices *= math.ldexp(1.0, -exponent)
    return slices, exponent, strays


def _cut(values: Floats, rows: Floats, exponent: int) -> tuple[int, Floats]:
    """Slice values below `2**exponent` into rows until nothing is left.

    Returns how many rows that took, and the rest.
    """
    rest = values
    for depth, row in enumerate(rows):
        if not rest.any():
            return depth, rest
        shift = math.ldexp(1.5, 52 - _unit(depth + 1) + exponent)
        np.add(rest, shift, out=row)
        row -= shift
        rest = rest - row
    return len(rows), rest


def _square(scaled: Floats, rows: Floats, *, few: bool) -> int:
    """Slice the exact squares of values below 1 into rows; return how many.

    Values of a few bits have squares without a rounding error. For others there is an error,
    and its slices are added to those of the rounded square, from the third on, where it begins.
    """
    if few:
        return _cut(scaled * scaled, rows, 0)[0]
    product, error = product_and_error(scaled, scaled)
    depth, _ = _cut(product, rows, 0)
    tail = np.empty_like(rows[2:])
    more, _ = _cut(error, tail, -2 * _WIDTH)
    if more:
        rows[depth : 2 + more] = 0.0
        rows[2 : 2 + more] += tail[:more]
    return max(depth, 2 + more if more else 0)


def _add_gram(
    total: ExactSum, gram: Floats, a: tuple[int, int], b: tuple[int, int], exponent: int
) -> None:
    """Add the products of two groups of slices; the group of ones (row 0) has the unit 1."""
    block = gram[a[0] : a[1], b[0] : b[1]]
    if not block.size:
        return
    ones = a[0] == 0
    unit = _unit(block.shape[1]) + (0 if ones else _unit(block.shape[0]))
    total.add_units(_fold(block, 0 if ones else _unit(1)), exponent - unit)


def _fold(block: Floats, row_unit: int) -> int:
    """The sum of all entries, each at its own scale, in units of the finest."""
    by_depth = [0] * sum(block.shape)
    for i, row in enumerate(block.tolist()):
        for j, entry in enumerate(row):
            by_depth[i + j] += int(math.ldexp(entry, row_unit + _unit(1) + _WIDTH * (i + j)))
    folded = 0
    for units in by_depth[:-1]:
        folded = (folded << _WIDTH) + units
    return folded


def _add_powers_of(sums: Sequence[ExactSum], value: float) -> None:
    units, exponent = parts(value)
    for power, total in enumerate(sums, start=1):
        total.add_units(units**power, exponent * power)

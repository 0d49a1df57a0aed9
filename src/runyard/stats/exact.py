"""Exact sums of doubles and of their products, at the speed of matrix multiplication.

Rounding makes an ordinary sum depend on the order of its terms. Here nothing is rounded: a sum is
a `Fraction`, so values in any order and any pieces give the same digits. (It also takes a quarter
of the time of `math.fsum`, which could not be continued piece by piece.)

    block of values ──▶ slices of 20 bits ──▶ Gram matrix ──▶ integers ──▶ Fraction
                        on one grid           (BLAS)           folded

A slice is what `(x + s) - s` keeps of x when s is a large power of two: a small multiple of one
unit. Products of two slices have at most 40 bits, and 2**13 of them add up to at most 2**53 units,
so the doubles in which BLAS multiplies and adds hold every partial result exactly, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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


def to_float(number: Fraction) -> float:
    """The nearest double; infinite beyond the largest double."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def root(square: Fraction) -> float:
    """The square root of a number of any size."""
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    try:
        return math.ldexp(math.sqrt(to_float(square / Fraction(4) ** shift)), shift)
    except OverflowError:
        return math.inf


def as_floats(values: ArrayLike) -> Floats:
    """Any array of numbers as one flat array of doubles; None becomes NaN."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return np.ascontiguousarray(array, dtype=np.float64).ravel()
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"these values are not numbers: {error}") from None
    raise UsageError(f"values of type {array.dtype} are not numbers")


def add_powers(sums: list[Fraction], values: Floats) -> None:
    """Add every finite value to the first sum, its square to the second, up to the fourth power."""
    order = len(sums)
    if len(values) == 1:
        _add_one_by_one(sums, values.tolist())
        return
    work = np.empty((1 + 3 * _DEPTH, min(len(values), _BLOCK)))
    for block in _blocks(values):
        rows = work[:, : len(block)]
        rows[0] = 1.0
        x, exponent, strays = _sliced(block, rows[1:])
        if strays is not None:
            _add_one_by_one(sums, block[strays].tolist())
        depth = 1 + len(x)
        if order > 2:
            kept = block if strays is None else np.where(strays, 0.0, block)
            depth += _square(kept * math.ldexp(1.0, -exponent), rows[depth:], few=len(x) < 2)
        groups = [(0, 1), (1, 1 + len(x)), (1 + len(x), depth)]
        gram = rows[:depth] @ rows[:depth].T
        for power, (a, b) in enumerate([(0, 1), (1, 1), (1, 2), (2, 2)][:order], start=1):
            sums[power - 1] += _of_gram(gram, groups[a], groups[b], power * exponent)


def product_and_error(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Two arrays that add up to the exact products (Dekker), if none is near the limits."""
    (high, low), (y_high, y_low) = _halves(x), _halves(y)
    product = x * y
    return product, ((high * y_high - product) + high * y_low + low * y_high) + low * y_low


def _halves(x: Floats) -> tuple[Floats, Floats]:
    carry = x * _SPLITTER
    high = carry - (carry - x)
    return high, x - high


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


def _of_gram(gram: Floats, a: tuple[int, int], b: tuple[int, int], exponent: int) -> Fraction:
    """The products of two groups of slices, summed; the group of ones (row 0) has the unit 1."""
    block = gram[a[0] : a[1], b[0] : b[1]]
    if not block.size:
        return Fraction(0)
    ones = a[0] == 0
    unit = _unit(block.shape[1]) + (0 if ones else _unit(block.shape[0]))
    return _scaled(_fold(block, 0 if ones else _unit(1)), exponent - unit)


def _scaled(units: int, exponent: int) -> Fraction:
    return Fraction(units << exponent) if exponent >= 0 else Fraction(units, 1 << -exponent)


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


def _add_one_by_one(sums: list[Fraction], values: list[float]) -> None:
    """Add the powers of a few values of any size, as integers over a common power of two."""
    ratios = [value.as_integer_ratio() for value in values]
    scale = max(below for _, below in ratios)
    units = [above * (scale // below) for above, below in ratios]
    for at in range(len(sums)):
        sums[at] += Fraction(sum(unit ** (at + 1) for unit in units), scale ** (at + 1))

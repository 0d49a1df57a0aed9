"""Exact sums of doubles and of their products, at the speed of matrix multiplication.

Rounding makes an ordinary sum depend on the order of its terms. Here nothing is rounded: a sum is
a `Fraction`, so values in any order and any pieces give the same digits. (It also takes a quarter
of the time of `math.fsum`, which could not be continued piece by piece.)

    block of values ──▶ slices of 20 bits ──▶ products summed ──▶ integers ──▶ Fraction
                        on one grid           (BLAS)

A slice is a whole number of at most 20 bits, sign included. Products of two slices have at most 38
bits, and 2**13 of them add up to at most 51, so the doubles in which BLAS multiplies and adds hold
every partial result exactly, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from runyard.errors import UsageError

Floats = NDArray[np.float64]

_BLOCK = 1 << 13
_WIDTH = 20  # bits a slice
_REACH = 2.0**-66  # values below this share of a block's largest are added one by one


class _Slices(NamedTuple):
    """Values as digits to the base `2**_WIDTH`: a row for each place, the highest first."""

    rows: Floats
    unit: int  # the last row counts in units of 2 to this power


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
    if len(values) == 1:
        _add_one_by_one(sums, values.tolist())
        return
    for block in _blocks(values):
        near = _near(block)
        if not near.all():
            _add_one_by_one(sums, block[~near].tolist())
            block = block[near]
        x = _sliced(block)
        sums[0] += _fraction(x.rows.sum(axis=1), x.unit)
        y = _squared(x) if len(sums) > 2 else x
        for power, (a, b) in enumerate([(x, x), (x, y), (y, y)][: len(sums) - 1], start=1):
            sums[power] += _product(a, b)


def sum_of_products(x: Floats, y: Floats) -> Fraction:
    """The sum of the products of pairs of finite values."""
    total = Fraction()
    for a, b in zip(_blocks(x), _blocks(y), strict=True):
        near = _near(a) & _near(b)
        for pair in zip(a[~near].tolist(), b[~near].tolist(), strict=True):
            total += Fraction(pair[0]) * Fraction(pair[1])
        total += _product(_sliced(a[near]), _sliced(b[near]))
    return total


def _blocks(values: Floats) -> Iterator[Floats]:
    for start in range(0, len(values), _BLOCK):
        yield values[start : start + _BLOCK]


def _near(block: Floats) -> NDArray[np.bool_]:
    """Which values share a grid of a few slices with the largest."""
    size = np.abs(block)
    return np.asarray((size >= size.max() * _REACH) | (size == 0))


def _sliced(block: Floats) -> _Slices:
    """Cut values into slices until nothing is left."""
    unit = math.frexp(float(np.abs(block).max(initial=0.0)))[1] - _WIDTH + 1
    # Two steps, since the inverse of a very small unit would overflow.
    rest = block * math.ldexp(1.0, -unit // 2) * math.ldexp(1.0, -unit - -unit // 2)
    rows = []
    while rest.any():
        rows.append(np.rint(rest))
        rest = (rest - rows[-1]) * 2.0**_WIDTH
        unit -= _WIDTH
    return _Slices(np.array(rows).reshape(len(rows), len(block)), unit + _WIDTH)


def _squared(x: _Slices) -> _Slices:
    """The squares, in twice as many slices."""
    depth = len(x.rows)
    rows = np.zeros((2 * depth, x.rows.shape[1]))
    for place, row in enumerate(x.rows, start=1):
        rows[place : place + depth] += row * x.rows
    for low, high in zip(rows[:0:-1], rows[-2::-1], strict=True):
        carry = np.rint(low * 2.0**-_WIDTH)
        low -= carry * 2.0**_WIDTH
        high += carry
    return _Slices(rows, 2 * x.unit)


def _product(a: _Slices, b: _Slices) -> Fraction:
    return _fraction(a.rows @ b.rows.T, a.unit + b.unit)


def _fraction(sums: Floats, unit: int) -> Fraction:
    """The sums of slices, or of products of slices, as one number."""
    return Fraction(_whole(sums.tolist())) * Fraction(2) ** unit


def _whole(digits: float | list[Any]) -> int:
    """A number, or digits of digits to the base `2**_WIDTH`, in units of the last."""
    if not isinstance(digits, list):
        return int(digits)
    found = 0
    for digit in digits:
        found = (found << _WIDTH) + _whole(digit)
    return found


def _add_one_by_one(sums: list[Fraction], values: list[float]) -> None:
    """Add the powers of a few values of any size, as integers over a common power of two."""
    ratios = [value.as_integer_ratio() for value in values]
    scale = max(below for _, below in ratios)
    units = [above * (scale // below) for above, below in ratios]
    for at in range(len(sums)):
        sums[at] += Fraction(sum(unit ** (at + 1) for unit in units), scale ** (at + 1))

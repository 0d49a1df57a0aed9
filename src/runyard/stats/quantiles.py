"""Quantiles of a stream: exact for few distinct values, otherwise a sketch of known error.

Up to `LIMIT` distinct values are counted one by one. Beyond that, values are counted in bins whose
width is a thousandth of their value, on a grid that is the same for all data (as in Masson, Rim and
Lee's DDSketch, with linear bins inside each power of two). A bin's number is the leading bits of
the double itself, so no logarithm rounds differently on another machine. Which of the two is used
depends on the data alone, and counts are integers: order and pieces change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from runyard.errors import UsageError
from runyard.stats.exact import Floats, as_floats

Ints = NDArray[np.int64]

LIMIT = 4096
"""How many distinct values are counted exactly."""

RELATIVE_ERROR = 2.0**-10
"""How far a sketched quantile may lie from the true one, as a share of it."""

_DROPPED_BITS = 52 - 10  # of the mantissa, the leading 10 bits choose the bin
_PAGE_BITS = 7
_PAGE = 1 << _PAGE_BITS
_CHUNK = 1 << 16
_PAGES = 1 << (63 - _DROPPED_BITS - _PAGE_BITS)  # on each side of zero
_SPAN = 1 << 17  # whole numbers that one counting array may cover


class Quantiles:
    """The distribution of one metric. Values that are not finite count as `missing`.

    Memory is bounded by the bins that hold values: about a hundred kilobytes for most data.
    Sketched quantiles are within 0.1% of the value itself, so data that vary by less than that
    around a large value lose their finest shape. Magnitudes below 2e-311 count as zero in a sketch.
    """

    __slots__ = ("_counts", "_high", "_low", "_pages", "count", "missing")

    def __init__(self, values: ArrayLike | None = None) -> None:
        self.count = 0
        self.missing = 0
        self._low, self._high = math.inf, -math.inf
        self._counts: dict[float, int] | None = {}
        self._pages: dict[int, Ints] = {}
        if values is not None:
            self.add_array(values)

    @property
    def exact(self) -> bool:
        """Whether every distinct value is kept."""
        return self._counts is not None

    @property
    def median(self) -> float:
        """The value in the middle."""
        return self.quantile(0.5)

    def add_array(self, values: ArrayLike) -> None:
        """Add values; None counts as missing."""
        data = as_floats(values)
        for start in range(0, len(data), _CHUNK):
            chunk = data[start : start + _CHUNK]
            finite = np.isfinite(chunk)
            if not finite.all():
                self.missing += int(np.count_nonzero(~finite))
                chunk = chunk[finite]
            if len(chunk):
                self._take(chunk + 0.0)

    def quantile(self, q: float) -> float:
        """The value below which a share q lies, between neighbours as numpy does; NaN for none."""
        return self.quantiles([q])[0]

    def quantiles(self, qs: Iterable[float]) -> list[float]:
        """Several quantiles at once."""
        wanted = list(qs)
        for q in wanted:
            if not 0 <= q <= 1:
                raise UsageError(f"a quantile at {q!r} is not between 0 and 1")
        if not self.count:
            return [math.nan] * len(wanted)
        lows, highs, counts = self._ordered()
        ends = np.cumsum(counts)

        def at(rank: int) -> float:
            if rank in (0, self.count - 1):
                return self._high if rank else self._low
            bin_ = int(np.searchsorted(ends, rank, side="right"))
            share = (rank - (ends[bin_] - counts[bin_]) + 0.5) / counts[bin_]
            return _between(float(lows[bin_]), float(highs[bin_]), float(share))

        found = []
        for q in wanted:
            position = q * (self.count - 1)
            rank = math.floor(position)
            upper = min(rank + 1, self.count - 1)
            found.append(_between(at(rank), at(upper), position - rank))
        return found

    def histogram(self, bins: int = 20) -> tuple[Floats, Ints]:
        """Edges of bins of equal width from smallest to largest, and the count of each.

        The last bin includes its upper edge. A sketch spreads the values of one of its own bins
        evenly over it.
        """
        if bins < 1:
            raise UsageError(f"a histogram of {bins} bins holds nothing", hint="use 1 or more")
        if not self.count:
            return np.linspace(0.0, 1.0, bins + 1), np.zeros(bins, dtype=np.int64)
        low, high = self._low, self._high
        if low == high:
            low, high = low - max(0.5, abs(low) * 2**-40), high + max(0.5, abs(high) * 2**-40)
        edges = _even_edges(low, high, bins)
        lows, highs, counts = self._ordered()
        if self.exact:
            held = np.clip(np.searchsorted(edges, lows, side="right") - 1, 0, bins - 1)
            totals = np.zeros(bins, dtype=np.int64)
            np.add.at(totals, held, counts)
            return edges, totals
        ends = np.cumsum(counts)
        marks = np.stack([lows, highs], axis=1).ravel()
        below = np.interp(edges, marks, np.stack([ends - counts, ends], axis=1).ravel())
        below[0], below[-1] = 0, self.count
        whole = np.rint(below).astype(np.int64)
        return edges, whole[1:] - whole[:-1]

    def counts(self) -> dict[float, int] | None:
        """How often each distinct value occurred, in order; None for a sketch."""
        return dict(sorted(self._counts.items())) if self._counts is not None else None

    def _take(self, data: Floats) -> None:
        self.count += len(data)
        self._low = min(self._low, float(data.min()))
        self._high = max(self._high, float(data.max()))
        if self._counts is None:
            self._add_to_bins(data, None)
            return
        counts = self._counts
        for value, count in zip(*(array.tolist() for array in _distinct(data)), strict=True):
            counts[value] = counts.get(value, 0) + count
        if len(counts) > LIMIT:
            self._sketch()

    def _sketch(self) -> None:
        """Switch from single values to bins."""
        counts, self._counts = self._counts or {}, None
        self._add_to_bins(np.array(list(counts)), np.array(list(counts.values())))

    def _add_to_bins(self, values: Floats, counts: Ints | None) -> None:
        bins = _bins(values)
        pages = (bins >> _PAGE_BITS) + _PAGES
        touched = np.flatnonzero(np.bincount(pages, minlength=2 * _PAGES))
        place = np.zeros(2 * _PAGES, dtype=np.int64)
        place[touched] = np.arange(len(touched))
        cells = place[pages] * _PAGE + (bins & (_PAGE - 1))
        held = np.bincount(cells, counts, minlength=len(touched) * _PAGE).astype(np.int64)
        for number, page in zip((touched - _PAGES).tolist(), held.reshape(-1, _PAGE), strict=True):
            if number in self._pages:
                self._pages[number] += page
            else:
                self._pages[number] = page.copy()

    def _ordered(self) -> tuple[Floats, Floats, Ints]:
        """Where each bin begins and ends, and its count; for exact values both are the value."""
        if self._counts is not None:
            values = np.array(sorted(self._counts))
            return values, values, np.array([self._counts[value] for value in values.tolist()])
        pages = sorted(self._pages)
        counts = np.concatenate([self._pages[page] for page in pages])
        numbers = (np.array(pages)[:, None] * _PAGE + np.arange(_PAGE)).ravel()[counts > 0]
        # The two bins at zero hold only zeros and values too small to tell from zero.
        lows = np.where(numbers == -1, 0.0, _edge(numbers))
        highs = np.where(numbers == 0, 0.0, _edge(numbers + 1))
        low, high = self._low, self._high
        return np.clip(lows, low, high), np.clip(highs, low, high), counts[counts > 0]

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "sketch"
        return f"Quantiles(count={self.count}, median={self.median!r}, {kind})"


def _distinct(data: Floats) -> tuple[Floats, Ints]:
    """Distinct values and their counts; whole numbers of a small range without sorting."""
    low, high = float(data.min()), float(data.max())
    if high - low < _SPAN and abs(low) < 2**52 and low.is_integer() and high.is_integer():
        offsets = (data - low).astype(np.int64)
        if (offsets + low == data).all():
            held = np.bincount(offsets)
            present = np.flatnonzero(held)
            return np.asarray(present + low, dtype=np.float64), held[present].astype(np.int64)
    values, counts = np.unique(data, return_counts=True)
    return values, counts.astype(np.int64)


def _bins(values: Floats) -> Ints:
    """The bin of each value, in the values' own order; negative for negative values."""
    leading = np.abs(values).view(np.int64) >> _DROPPED_BITS
    return np.where(values < 0, ~leading, leading)


def _edge(numbers: Ints) -> Floats:
    """Where bins begin; the bin above the largest double begins there too."""
    size = np.where(numbers < 0, -numbers, numbers) << _DROPPED_BITS
    size = np.minimum(size, np.float64(np.finfo(np.float64).max).view(np.int64))
    return np.asarray(np.where(numbers < 0, -1.0, 1.0) * size.view(np.float64))


def _even_edges(low: float, high: float, bins: int) -> Floats:
    if math.isfinite(high - low):
        return np.linspace(low, high, bins + 1)
    return np.linspace(low / 2, high / 2, bins + 1) * 2


def _between(a: float, b: float, share: float) -> float:
    """A share of the way from a to b, without overflow, and never beyond either."""
    gap = b - a
    if not math.isfinite(gap):
        return a * (1 - share) + b * share
    return a + gap * share if share < 0.5 else b - gap * (1 - share)

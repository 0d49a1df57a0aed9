"""From outcomes to figures: tables of columns, and summaries by group."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runyard.errors import UsageError
from runyard.reports.coordinates import Codes, coordinate

if TYPE_CHECKING:
    from runyard.reports.result import Result
    from runyard.stats.summary import Summary

SIZE = 1 << 20
MOST_GROUPS = 100_000


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks with the same coordinates, and their summaries by metric."""

    labels: dict[str, Any]
    summaries: dict[str, Summary]


class Grouping:
    """Tasks by some coordinates, read a range at a time; groups come in the author's order."""

    def __init__(self, result: Result, by: Sequence[str]) -> None:
        self._axes = [coordinate(result.coordinates, name) for name in by]
        self._total = result.columns.total
        size = math.prod(len(axis.values) for axis in self._axes)
        if size > MOST_GROUPS:
            raise UsageError(
                f"that gives {size:,} groups",
                hint=f"group by parameters with fewer than {MOST_GROUPS:,} combinations",
            )

    def members(self) -> Iterator[tuple[int, slice | Codes]]:
        """A group's code and some of the tasks that belong to it, by number."""
        for low in range(0, self._total, SIZE):
            high = min(self._total, low + SIZE)
            if not self._axes:
                yield 0, slice(low, high)
                continue
            codes = self._codes(low, high)
            order = np.argsort(codes, kind="stable")
            ordered = codes[order]
            ends = np.flatnonzero(np.diff(ordered)) + 1
            for start, end in zip([0, *ends], [*ends, len(ordered)], strict=True):
                if ordered[start] >= 0:
                    yield int(ordered[start]), low + order[start:end]

    def _codes(self, low: int, high: int) -> Codes:
        """One code for all axes together; -1 for tasks that lack one of them."""
        combined, lacking = np.zeros(high - low, np.int64), np.zeros(high - low, bool)
        for axis in self._axes:
            codes = axis.codes(low, high)
            lacking |= codes < 0
            combined = combined * len(axis.values) + codes
        combined[lacking] = -1
        return combined

    def _parts(self, code: int) -> list[int]:
        """The code of each axis in one for all of them."""
        found = []
        for axis in reversed(self._axes):
            code, part = divmod(code, len(axis.values))
            found.append(part)
        return found[::-1]

    def ordered(self, codes: Iterable[int]) -> list[int]:
        """Codes of groups as the author lists their values, which growth may have mixed."""
        places = [{code: at for at, code in enumerate(axis.order)} for axis in self._axes]
        return sorted(
            codes,
            key=lambda code: [at[part] for at, part in zip(places, self._parts(code), strict=True)],
        )

    def labels(self, code: int) -> dict[str, Any]:
        """The coordinates of a group."""
        parts = self._parts(code)
        return {axis.name: axis.values[part] for axis, part in zip(self._axes, parts, strict=True)}


def summarise(
    result: Result,
    metrics: Iterable[str] | None = None,
    by: Sequence[str] = (),
    rates: Collection[str] = (),
) -> list[Group]:
    """Each metric's summary, for each combination of what `by` names, in the author's order.

    Metrics of booleans are rates, and so are those of 0 and 1 that are declared in `rates`.
    """
    from runyard.stats.summary import Summary

    wanted = result.columns.chosen(metrics)
    grouping = Grouping(result, by)
    arrays = {name: result.columns.metric(name) for name in wanted}
    rates = {*rates, *result.columns.rates}
    found: dict[int, dict[str, Summary]] = {}
    for code, tasks in grouping.members():
        if code not in found:
            found[code] = {name: Summary(rate=name in rates) for name in wanted}
        for name, array in arrays.items():
            found[code][name].add_array(array[tasks])
    return [Group(grouping.labels(code), found[code]) for code in grouping.ordered(found)]


def histograms(
    result: Result, metric: str, by: Sequence[str], edges: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    """How many values lie in each bin, for each group that `summarise` gives, in the same order.

    The bins are of equal width; values outside and NaN are not counted.
    """
    grouping, array = Grouping(result, by), result.columns.metric(metric)
    counts: dict[int, NDArray[np.int64]] = {}
    for code, tasks in grouping.members():
        held = equal_bins(array[tasks], edges)
        counts[code] = counts[code] + held if code in counts else held
    return [counts[code] for code in grouping.ordered(counts)]


def equal_bins(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many values lie in each of some bins of equal width."""
    # With a range instead of edges, numpy counts without sorting.
    return np.histogram(values, len(edges) - 1, (edges[0], edges[-1]))[0]

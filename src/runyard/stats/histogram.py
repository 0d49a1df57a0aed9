"""A histogram with edges chosen beforehand: integer counts that merge in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.spec import codec
from runyard.stats.exact import as_floats


class Histogram:
    """Counts between rising edges; each bin includes its lower edge, the last one both.

    What lies outside is counted in `below` and `above`, NaN in `missing`.
    """

    __slots__ = ("above", "below", "counts", "edges", "missing")

    def __init__(self, edges: ArrayLike) -> None:
        self.edges = as_floats(edges) + 0.0
        if len(self.edges) < 2 or not (np.diff(self.edges) > 0).all():
            raise UsageError(
                "the edges of a histogram must be two or more rising numbers",
                hint="for example numpy.linspace(0, 1, 11)",
            )
        self.counts = np.zeros(len(self.edges) - 1, dtype=np.int64)
        self.below = self.above = self.missing = 0

    @property
    def total(self) -> int:
        """How many values there were, missing ones left out."""
        return int(self.counts.sum()) + self.below + self.above

    def add(self, value: float) -> None:
        """Take in one value."""
        self.add_array([value])

    def add_array(self, values: ArrayLike) -> None:
        """Take in many values."""
        data = as_floats(values)
        lost = np.isnan(data)
        if lost.any():
            data = data[~lost]
            self.missing += int(np.count_nonzero(lost))
        places = np.searchsorted(self.edges, data, side="right")
        places[data == self.edges[-1]] -= 1
        held = np.bincount(places, minlength=len(self.edges) + 1)
        self.below += int(held[0])
        self.above += int(held[-1])
        self.counts += held[1:-1]

    def merge(self, other: Histogram) -> None:
        """Take in everything that another one with the same edges has seen."""
        if not np.array_equal(self.edges, other.edges):
            raise UsageError("histograms with different edges don't merge")
        self.counts += other.counts
        self.below += other.below
        self.above += other.above
        self.missing += other.missing

    def __add__(self, other: Histogram) -> Histogram:
        both = Histogram(self.edges)
        both.merge(self)
        both.merge(other)
        return both

    def to_data(self) -> dict[str, Any]:
        """Plain values, the same for the same data in any order and partition."""
        return {
            "edges": self.edges.tolist(),
            "counts": self.counts.tolist(),
            "below": self.below,
            "above": self.above,
            "missing": self.missing,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Histogram:
        """The histogram that `to_data` described."""
        made = cls(data["edges"])
        made.counts[:] = data["counts"]
        made.below, made.above, made.missing = data["below"], data["above"], data["missing"]
        return made

    def to_bytes(self) -> bytes:
        """Canonical bytes, the same for the same data in any order and partition."""
        return codec.encode(self.to_data())

"""Multiple comparisons: which pairs, and the corrections of their p values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.stats.compare_result import Comparison
from runyard.stats.intervals import Floats

Correction = Literal["holm", "bh"]

_NAMES = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


def holm(ps: ArrayLike) -> Floats:
    """p values adjusted by Holm's method, which controls the chance of any false alarm."""
    values, order = _ordered(ps)
    steps = values[order] * np.arange(len(values), 0, -1)
    return _placed(np.maximum.accumulate(steps), order)


def benjamini_hochberg(ps: ArrayLike) -> Floats:
    """p values adjusted by Benjamini and Hochberg's step-up method, which controls the expected
    share of false alarms among all alarms. Finds more than Holm's and guarantees less."""
    values, order = _ordered(ps)
    steps = values[order] * len(values) / np.arange(1, len(values) + 1)
    return _placed(np.minimum.accumulate(steps[::-1])[::-1], order)


def adjusted(
    comparisons: Sequence[Comparison], correction: Correction | None = "holm"
) -> list[Comparison]:
    """The comparisons with adjusted p values; a single comparison stays as it is."""
    if correction is None or len(comparisons) < 2:
        return list(comparisons)
    if correction not in _NAMES:
        raise UsageError(f"unknown correction {correction!r}", hint="use holm, bh or None")
    method = holm if correction == "holm" else benjamini_hochberg
    ps = method([comparison.p for comparison in comparisons])
    return [
        replace(comparison, p_adjusted=float(p), correction=_NAMES[correction])
        for comparison, p in zip(comparisons, ps, strict=True)
    ]


def matches(labels: Iterable[str], baseline: str | None = None) -> list[tuple[str, str]]:
    """The pairs that are compared: all, or each label with the baseline."""
    if baseline is None:
        return list(combinations(labels, 2))
    return [(label, baseline) for label in labels if label != baseline]


def _ordered(ps: ArrayLike) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    values = np.asarray(ps, dtype=np.float64).ravel()
    if not ((values >= 0) & (values <= 1)).all():
        raise UsageError("p values must lie between 0 and 1", hint="leave out NaN")
    return values, np.argsort(values, kind="stable")


def _placed(steps: Floats, order: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Floats:
    """In the original order, at most 1."""
    placed = np.empty_like(steps)
    placed[order] = np.minimum(steps, 1)
    return placed

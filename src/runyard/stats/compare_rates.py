"""Comparisons of rates, from counts alone, so that streams of any length can be compared."""

from __future__ import annotations

import math

from runyard.errors import UsageError
from runyard.stats.compare_result import About, Comparison
from runyard.stats.compare_tests import POWER, fisher_p, mcnemar_p, pooled_z_p
from runyard.stats.intervals import Interval, newcombe, normal_quantile, wilson

_FEW = 5  # below this expected count, the normal approximation is too coarse


def unpaired_rates(
    successes_a: int,
    total_a: int,
    successes_b: int,
    total_b: int,
    level: float = 0.95,
    about: About | None = None,
) -> Comparison:
    """Compare two independent rates.

    Newcombe's hybrid score interval; the pooled z test, or Fisher's exact test when an expected
    count is below five. The detectable effect is the normal one at rates with one success and one
    failure added to each side (Laplace), so that it exists at 0% and 100% too.
    """
    interval = newcombe(successes_a, total_a, successes_b, total_b, level)
    counts = (successes_a, total_a, successes_b, total_b)
    pooled = (successes_a + successes_b) / (total_a + total_b)
    few = min(total_a, total_b) * min(pooled, 1 - pooled) < _FEW
    variance = sum(
        (s + 1) * (n - s + 1) / (n + 2) ** 2 / n
        for s, n in ((successes_a, total_a), (successes_b, total_b))
    )
    return Comparison(
        about=about or About(),
        paired=False,
        n=(total_a, total_b),
        mean_a=successes_a / total_a,
        mean_b=successes_b / total_b,
        effect=successes_a / total_a - successes_b / total_b,
        interval=interval,
        p=fisher_p(*counts) if few else pooled_z_p(*counts),
        method="Fisher's exact test" if few else "pooled z test",
        detectable=_detectable(math.sqrt(variance), level),
    )


def paired_rates(
    both: int,
    only_a: int,
    only_b: int,
    neither: int,
    level: float = 0.95,
    about: About | None = None,
) -> Comparison:
    """Compare two rates on the same pairs, by how many pairs succeeded in both, one or neither.

    Newcombe's score interval for paired rates (his method 10) and McNemar's exact test. The
    detectable effect is the normal one with half a pair added to each of the four counts.
    """
    cells = (both, only_a, only_b, neither)
    pairs = sum(cells)
    if min(cells) < 0 or pairs < 1:
        raise UsageError(
            f"counts of {cells} pairs can't be compared", hint="give counts from 0 up, one above 0"
        )
    effect = (only_a - only_b) / pairs
    spread = _difference_variance(cells)
    return Comparison(
        about=about or About(),
        paired=True,
        n=pairs,
        mean_a=(both + only_a) / pairs,
        mean_b=(both + only_b) / pairs,
        effect=effect,
        interval=newcombe_paired(both, only_a, only_b, neither, level),
        p=mcnemar_p(only_a, only_b),
        method="McNemar's exact test",
        detectable=_detectable(
            math.sqrt(_difference_variance(tuple(c + 0.5 for c in cells)) / pairs), level
        ),
        sd=math.sqrt(spread * pairs / (pairs - 1)) if pairs > 1 else None,
        correlation=_phi(cells, corrected=False),
    )


def newcombe_paired(
    both: int, only_a: int, only_b: int, neither: int, level: float = 0.95
) -> Interval:
    """Newcombe's score interval for a difference of paired rates (1998, method 10): two Wilson
    intervals, squared and added with the correlation of the pairs between them."""
    pairs = both + only_a + only_b + neither
    first, second = wilson(both + only_a, pairs, level), wilson(both + only_b, pairs, level)
    p1, p2 = (both + only_a) / pairs, (both + only_b) / pairs
    phi = _phi((both, only_a, only_b, neither), corrected=True) or 0.0

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))

    below = reach(p1 - first.low, second.high - p2)
    above = reach(first.high - p1, p2 - second.low)
    return Interval(p1 - p2 - below, p1 - p2 + above, level, "newcombe paired")


def _phi(cells: tuple[int, int, int, int], corrected: bool) -> float | None:
    """The correlation of the pairs; if corrected, a positive one is reduced by half a pair."""
    both, only_a, only_b, neither = cells
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    if margins == 0:
        return None
    cross: float = both * neither - only_a * only_b
    if corrected and cross > 0:
        cross = max(cross - sum(cells) / 2, 0)
    return cross / math.sqrt(margins)


def _difference_variance(cells: tuple[float, ...]) -> float:
    total = sum(cells)
    return (cells[1] + cells[2]) / total - ((cells[1] - cells[2]) / total) ** 2


def _detectable(error: float, level: float) -> float:
    # One-sided normal_quantile(2p - 1) is the plain p quantile.
    return (normal_quantile(level) + normal_quantile(2 * POWER - 1)) * error

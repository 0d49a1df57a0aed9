"""Rank tests, tests of rates, and the power of a t test, from arrays and counts.

Rank tests are exact for small samples, even with ties; large ones use the corrected normal law.
(scipy.stats has no exact test with ties, and importing it takes longer than most comparisons.)
"""

from __future__ import annotations

import math

import numpy as np

from runyard.stats.intervals import Floats, t_quantile

EXACT_RANKS = 50
"""Up to this many values, rank tests count every arrangement."""

POWER = 0.8
"""The chance of finding an effect for which `Comparison.detectable` is stated."""


def signed_rank_p(differences: Floats) -> float:
    """Wilcoxon's signed-rank test that differences are symmetric around zero; zeros are dropped."""
    moved = differences[differences != 0]
    if len(moved) == 0:
        return 1.0
    ranks, ties = _ranks(np.abs(moved))
    above = float(ranks[moved > 0].sum())
    if len(moved) <= EXACT_RANKS:
        ways = np.ones(1)
        for rank in _doubled(ranks):
            ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
        return _two_tails(ways, round(2 * above))
    count = len(moved)
    spread = math.sqrt(
        (count * (count + 1) * (2 * count + 1) - float(np.sum(ties**3 - ties)) / 2) / 24
    )
    return _normal_p((above - count * (count + 1) / 4) / spread)


def rank_sum_p(a: Floats, b: Floats) -> float:
    """The Mann-Whitney (Wilcoxon rank-sum) test that neither sample tends to larger values."""
    ranks, ties = _ranks(np.concatenate([a, b]))
    first, total = len(a), len(ranks)
    held = float(ranks[:first].sum())
    if total <= EXACT_RANKS:
        doubled = _doubled(ranks)
        ways = np.zeros((first + 1, sum(doubled) + 1))
        ways[0, 0] = 1
        for rank in doubled:
            ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
        return _two_tails(ways[first], round(2 * held))
    second = total - first
    tied = float(np.sum(ties**3 - ties)) / (total * (total - 1))
    spread = math.sqrt(first * second / 12 * (total + 1 - tied))
    if spread == 0:
        return 1.0
    away = abs(held - first * (total + 1) / 2) - 0.5  # continuity correction
    return _normal_p(max(0.0, away) / spread)


def fisher_p(s1: int, n1: int, s2: int, n2: int) -> float:
    """Fisher's exact test that two independent rates are equal: all tables as rare or rarer."""
    from scipy.special import gammaln

    hits, total = s1 + s2, n1 + n2
    k = np.arange(max(0, hits - n2), min(n1, hits) + 1)

    def log_ways(n: int, r: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
        return np.asarray(gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1))

    logs = log_ways(n1, k) + log_ways(n2, hits - k) - log_ways(total, np.array([hits]))
    chances = np.exp(logs)
    observed = chances[s1 - k[0]]
    return min(1.0, float(chances[chances <= observed * (1 + 1e-7)].sum()))


def pooled_z_p(s1: int, n1: int, s2: int, n2: int) -> float:
    """The z test (Pearson's chi-squared) that two independent rates are equal, for large counts."""
    rate = (s1 + s2) / (n1 + n2)
    error = math.sqrt(rate * (1 - rate) * (1 / n1 + 1 / n2))
    return _normal_p((s1 / n1 - s2 / n2) / error) if error else 1.0


def mcnemar_p(only_a: int, only_b: int) -> float:
    """McNemar's exact test that pairs that differ do so equally often in both directions."""
    from scipy.special import bdtr

    differing = only_a + only_b
    return min(1.0, 2 * float(bdtr(min(only_a, only_b), differing, 0.5))) if differing else 1.0


def t_p(statistic: float, freedom: float) -> float:
    """Student's two-sided p."""
    from scipy.special import stdtr

    return min(1.0, 2 * float(stdtr(freedom, -abs(statistic))))


def noncentrality(freedom: float, power: float, level: float) -> float:
    """The true effect, in standard errors, that a t test finds with a chance of `power`."""
    from scipy.special import nctdtr

    reach = t_quantile(level, freedom)

    def chance(shift: float) -> float:
        return float(1 - nctdtr(freedom, shift, reach) + nctdtr(freedom, shift, -reach))

    low, high = 0.0, 1.0
    while chance(high) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < power else (low, middle)
    return high


def _normal_p(statistic: float) -> float:
    return math.erfc(abs(statistic) / math.sqrt(2))


def _ranks(values: Floats) -> tuple[Floats, Floats]:
    """Mean ranks from 1, and how many values share each."""
    _, where, shared = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(shared)
    return (last - (shared - 1) / 2)[where], shared.astype(np.float64)


def _doubled(ranks: Floats) -> list[int]:
    """Ranks as integers: a mean rank is a whole or a half."""
    return [int(rank) for rank in np.rint(2 * ranks)]


def _two_tails(ways: Floats, observed: int) -> float:
    below, above = ways[: observed + 1].sum(), ways[observed:].sum()
    return min(1.0, 2 * float(min(below, above) / ways.sum()))

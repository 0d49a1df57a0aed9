from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from runyard.stats.compare_tests import EXACT_RANKS, rank_sum_p, signed_rank_p

few = st.lists(st.integers(-4, 4), min_size=1, max_size=7)


def test_hollander_and_wolfe_signed_rank_example() -> None:
    """Hamilton depression scores before and after a tranquilizer; one-sided p 0.01953."""
    before = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
    after = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
    assert signed_rank_p(before - after) == pytest.approx(2 * 0.01953125)


def test_hollander_and_wolfe_rank_sum_example() -> None:
    """Permeability of the human chorioamnion; one-sided p 0.1272."""
    term = np.array([0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46])
    early = np.array([1.15, 0.88, 0.90, 0.74, 1.21])
    assert rank_sum_p(term, early) == pytest.approx(2 * 0.1272, abs=1e-4)


@given(few)
def test_signed_ranks_with_ties_count_every_choice_of_signs(values: list[int]) -> None:
    moved = np.array([v for v in values if v], dtype=float)
    ranks = scipy.stats.rankdata(np.abs(moved))
    seen = ranks[moved > 0].sum()
    sums = [np.dot(ranks, choice) for choice in product((0, 1), repeat=len(moved))]
    tail = min(np.mean(np.array(sums) <= seen), np.mean(np.array(sums) >= seen))
    assert signed_rank_p(np.array(values, dtype=float)) == pytest.approx(min(1, 2 * tail))


@given(few, few)
def test_rank_sums_with_ties_count_every_deal(a: list[int], b: list[int]) -> None:
    ranks = scipy.stats.rankdata(a + b)
    seen = ranks[: len(a)].sum()
    sums = np.array([sum(deal) for deal in combinations(ranks, len(a))])
    tail = min(np.mean(sums <= seen), np.mean(sums >= seen))
    ours = rank_sum_p(np.array(a, dtype=float), np.array(b, dtype=float))
    assert ours == pytest.approx(min(1, 2 * tail))


@pytest.mark.parametrize("seed", range(3))
def test_small_samples_agree_with_scipy_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0.4, 1, 24), rng.normal(0, 1, 24)
    assert signed_rank_p(a - b) == pytest.approx(scipy.stats.wilcoxon(a, b, method="exact").pvalue)
    theirs = scipy.stats.mannwhitneyu(a, b, method="exact").pvalue
    assert rank_sum_p(a, b) == pytest.approx(theirs)


@pytest.mark.parametrize("seed", range(3))
def test_large_samples_with_ties_agree_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.poisson(4, 300).astype(float), rng.poisson(3.8, 300).astype(float)
    theirs = scipy.stats.wilcoxon(a, b, method="asymptotic").pvalue
    assert signed_rank_p(a - b) == pytest.approx(theirs)
    theirs = scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert rank_sum_p(a, b) == pytest.approx(theirs)


def test_counting_and_approximation_meet_where_one_follows_the_other() -> None:
    rng = np.random.default_rng(9)
    values = rng.normal(0.25, 1, EXACT_RANKS + 1)
    exact, approximate = signed_rank_p(values[:-1]), signed_rank_p(values)
    assert exact == pytest.approx(approximate, rel=0.5)
    theirs = scipy.stats.wilcoxon(values[:-1], method="asymptotic").pvalue
    assert exact == pytest.approx(theirs, rel=0.05)


def test_nothing_but_zeros_or_ties_shows_no_difference() -> None:
    assert signed_rank_p(np.zeros(5)) == 1
    assert rank_sum_p(np.ones(40), np.ones(40)) == 1

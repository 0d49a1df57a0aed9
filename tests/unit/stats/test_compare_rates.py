from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import confint_proportions_2indep, proportions_ztest

from runyard.errors import UsageError
from runyard.stats.compare import compare
from runyard.stats.compare_rates import newcombe_paired, paired_rates, unpaired_rates
from runyard.stats.compare_tests import fisher_p

counts = st.integers(0, 30)


def test_newcombe_1998_unpaired_example() -> None:
    """Newcombe (1998), interval estimation for the difference between independent proportions,
    example (a): 56/70 and 48/80, method 10."""
    found = unpaired_rates(56, 70, 48, 80)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert found.method == "pooled z test"


def test_airway_and_response_examples_of_paired_rates() -> None:
    """Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables, chapter 8:
    Bentur et al. (2009) and Cavo et al. (2012), Newcombe's square-and-add interval."""
    found = paired_rates(1, 1, 7, 12)
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.507, -0.026), abs=5e-4)
    assert found.p == 0.0703125
    wider = newcombe_paired(59, 6, 16, 80)
    assert (wider.low, wider.high) == pytest.approx((-0.1186, -0.0046), abs=5e-5)


def test_the_lady_tasting_tea() -> None:
    """Fisher (1935): three of four cups told right on each side."""
    assert unpaired_rates(3, 4, 1, 4).p == pytest.approx(34 / 70)
    assert unpaired_rates(3, 4, 1, 4).method == "Fisher's exact test"


@pytest.mark.parametrize(("a", "b"), [((40, 90), (61, 100)), ((200, 1000), (260, 1100))])
def test_large_unpaired_rates_agree_with_statsmodels(
    a: tuple[int, int], b: tuple[int, int]
) -> None:
    found = unpaired_rates(*a, *b)
    assert found.p == pytest.approx(proportions_ztest([a[0], b[0]], [a[1], b[1]])[1])
    low, high = confint_proportions_2indep(*a, *b, method="newcomb")
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


@given(counts, counts, counts, counts)
def test_fisher_agrees_with_scipy(s1: int, f1: int, s2: int, f2: int) -> None:
    theirs = scipy.stats.fisher_exact([[s1, f1], [s2, f2]]).pvalue
    assert fisher_p(s1, s1 + f1, s2, s2 + f2) == pytest.approx(theirs)


@given(counts, counts)
def test_mcnemar_agrees_with_statsmodels(only_a: int, only_b: int) -> None:
    ours = paired_rates(5, only_a, only_b, 7).p
    assert ours == pytest.approx(mcnemar([[5, only_a], [only_b, 7]], exact=True).pvalue)


@given(counts, counts, counts, counts.map(lambda n: n + 1))
def test_swapping_sides_mirrors_a_paired_comparison(
    both: int, only_a: int, only_b: int, neither: int
) -> None:
    one, other = paired_rates(both, only_a, only_b, neither), paired_rates(
        both, only_b, only_a, neither
    )  # fmt: skip
    assert one.effect == -other.effect
    assert one.interval.low == pytest.approx(-other.interval.high)
    assert one.interval.low <= one.effect <= one.interval.high
    assert one.interval.low >= -1
    assert one.p == other.p
    assert one.detectable > 0


def test_arrays_of_booleans_are_compared_as_rates() -> None:
    rng = np.random.default_rng(1)
    a = rng.random(300) < 0.7
    b = np.where(rng.random(300) < 0.5, a, rng.random(300) < 0.5)
    together, apart = compare(a, b, paired=True), compare(a, b, paired=False)
    assert together.method == "McNemar's exact test"
    assert together.mean_a == a.mean()
    assert together.sd == pytest.approx(np.std(a.astype(int) - b, ddof=1))
    assert together.correlation == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert apart.method == "pooled z test"
    assert together.effect == pytest.approx(apart.effect)
    assert compare(a, b, paired=True, interval="t").method == "paired t test"


def test_numbers_that_are_all_0_or_1_are_compared_as_numbers_unless_declared_rates() -> None:
    counts = [0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 0]
    assert compare(*counts, paired=True).method == "paired t test"
    assert compare(*counts, paired=True, interval="score").method == "McNemar's exact test"
    with pytest.raises(UsageError, match="needs values of 0 and 1, but 2 is among them"):
        compare([0, 1, 2], [0, 1, 1], paired=True, interval="score")


def test_rates_of_none_and_all_are_compared_without_a_nan() -> None:
    found = compare([False] * 20, [True] * 20, paired=True)
    assert found.winner == "b"
    assert found.correlation is None
    nothing = compare([0] * 20, [0] * 20, paired=False, interval="score")
    assert nothing.p == 1
    assert nothing.words().startswith("no difference shown between a and b: 0.00 ± 0.16;")


def test_the_detectable_difference_of_rates_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(2)
    effect = unpaired_rates(60, 200, 60, 200).detectable
    a, b = rng.binomial(200, 0.3 + effect / 2, 500), rng.binomial(200, 0.3 - effect / 2, 500)
    found = [unpaired_rates(int(x), 200, int(y), 200).shown for x, y in zip(a, b, strict=True)]
    assert 0.74 <= np.mean(found) <= 0.86


@pytest.mark.parametrize("cells", [(0, 0, 0, 0), (-1, 2, 3, 4)])
def test_impossible_counts_are_refused(cells: tuple[int, int, int, int]) -> None:
    with pytest.raises(UsageError):
        paired_rates(*cells)
    with pytest.raises(UsageError):
        unpaired_rates(5, 4, 1, 3)

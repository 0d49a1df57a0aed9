from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from runyard.errors import RunyardError, UsageError
from runyard.stats.compare import compare, paired_moments, unpaired_moments
from runyard.stats.compare_bootstrap import bootstrap_interval
from runyard.stats.compare_result import About, Comparison
from runyard.stats.intervals import Interval
from runyard.stats.moments import Moments


def paired(a: ArrayLike, b: ArrayLike, **options: Any) -> Comparison:
    return compare(a, b, paired=True, interval="t", **options)


def unpaired(a: ArrayLike, b: ArrayLike, **options: Any) -> Comparison:
    return compare(a, b, paired=False, interval="t", **options)


# Student (1908), hours of sleep gained under two drugs by the same ten patients.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_student_sleep_data_in_pairs_give_the_published_figures() -> None:
    found = paired(DRUG_1, DRUG_2)
    assert found.effect == pytest.approx(-1.58)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (-2.4598858, -0.7001142), abs=1e-7
    )
    assert found.p == pytest.approx(0.002833, abs=5e-7)
    assert found.winner == "b"
    assert found.correlation == pytest.approx(0.7951702, abs=1e-6)


def test_student_sleep_data_unpaired_give_the_published_welch_figures() -> None:
    found = unpaired(DRUG_1, DRUG_2)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (-3.3654832, 0.2054832), abs=1e-7
    )
    assert found.p == pytest.approx(0.07939, abs=5e-6)
    assert found.winner is None


@pytest.mark.parametrize("seed", range(5))
def test_a_paired_comparison_agrees_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.normal(5, 2, 80)
    b = a + rng.normal(0.2, 1, 80)
    found = paired(a, b, level=0.9)
    theirs = scipy.stats.ttest_rel(a, b)
    ends = theirs.confidence_interval(0.9)
    assert found.p == pytest.approx(theirs.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx((ends.low, ends.high))
    assert found.correlation == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert found.sd == pytest.approx(np.std(a - b, ddof=1))
    ranked = scipy.stats.wilcoxon(a, b, method="asymptotic").pvalue
    assert found.other_p["Wilcoxon signed-rank test"] == pytest.approx(ranked)


@pytest.mark.parametrize("seed", range(5))
def test_an_unpaired_comparison_agrees_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.exponential(3, 70), rng.exponential(2, 40)
    found = unpaired(a, b)
    theirs = scipy.stats.ttest_ind(a, b, equal_var=False)
    ends = theirs.confidence_interval(0.95)
    assert found.p == pytest.approx(theirs.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx((ends.low, ends.high))
    ranked = scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert found.other_p["Mann-Whitney test"] == pytest.approx(ranked)


def test_streams_and_arrays_give_the_same_comparison() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=1000), rng.normal(0.1, 1, 1000)
    streams = [Moments(order=2) for _ in range(3)]
    for part in np.array_split(np.arange(1000), 7)[::-1]:
        for stream, values in zip(streams, (a - b, a, b), strict=True):
            stream.add_array(values[part])
    assert paired_moments(*streams) == replace(paired(a, b), other_p={})
    assert unpaired_moments(*streams[1:]) == replace(unpaired(a, b), other_p={})


def test_pairs_show_what_unpaired_values_hide() -> None:
    """Questions of very different difficulty, as in an evaluation of models."""
    rng = np.random.default_rng(3)
    difficulty = rng.uniform(0, 1, 120)
    better = np.clip(difficulty + 0.04 + rng.normal(0, 0.05, 120), 0, 1)
    worse = np.clip(difficulty + rng.normal(0, 0.05, 120), 0, 1)
    together, apart = paired(better, worse), unpaired(better, worse)
    assert together.p < 1e-6
    assert apart.p > 0.2
    assert together.effect == pytest.approx(apart.effect)
    assert together.detectable < apart.detectable / 4


@pytest.mark.parametrize("pairs", [True, False])
def test_the_bootstrap_interval_resembles_the_t_interval_on_normal_data(pairs: bool) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(1, 1, 150), rng.normal(0, 2, 150)
    plain = compare(a, b, paired=pairs)
    drawn = compare(a, b, paired=pairs, interval="bootstrap")
    assert drawn.interval.method.startswith("bootstrap")
    assert drawn.interval.low == pytest.approx(plain.interval.low, abs=0.1 * plain.interval.half)
    assert drawn.interval.high == pytest.approx(plain.interval.high, abs=0.1 * plain.interval.half)
    assert drawn.interval.low <= plain.interval.low
    assert drawn.interval.high >= plain.interval.high
    assert drawn.p == plain.p


def test_the_bootstrap_does_not_depend_on_the_order_of_values() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.exponential(size=30), rng.exponential(size=40)
    plain = unpaired(a, b).interval
    mixed = rng.permutation(a), rng.permutation(b)
    first = bootstrap_interval([a, b], plain, resamples=500)
    assert bootstrap_interval(mixed, plain, resamples=500) == first
    assert bootstrap_interval([a, b], plain, resamples=500, seed=1) != first
    with pytest.raises(UsageError, match="0 resamples"):
        bootstrap_interval([a, b], plain, resamples=0)


def test_the_bootstrap_reaches_further_on_the_side_of_the_long_tail() -> None:
    a = scipy.stats.lognorm(1).ppf(np.linspace(0.01, 0.99, 60))
    b = np.tile([-0.1, 0.1], 30)
    for pairs in (True, False):
        found = compare(a, b, paired=pairs, interval="bootstrap")
        assert found.interval.high - found.effect > found.effect - found.interval.low
        assert found.interval.high > compare(a, b, paired=pairs).interval.high


def test_constant_groups_have_a_bootstrap_interval_without_width() -> None:
    for pairs in (True, False):
        interval = compare([2.0] * 5, [1.0] * 5, paired=pairs, interval="bootstrap").interval
        assert (interval.low, interval.high) == (1, 1)


def test_the_words_name_the_winner_its_lead_and_the_pairs() -> None:
    about = About("basic", "aggressive", "profit")
    found = _comparison(about, 0.112, 0.0098, n=12_000)
    assert found.words("a hand") == (
        "basic beats aggressive by 0.1120 ± 0.0098 a hand (95% CI 0.1022 to 0.1218; 12,000 pairs)"
    )


def test_the_words_say_what_could_have_been_found_when_nothing_is_shown() -> None:
    found = _comparison(About(), 0.011, 0.05, n=400, p=0.66, detectable=0.0714)
    assert found.words() == (
        "no difference shown between a and b: 0.011 ± 0.050; 400 pairs can detect an effect of "
        "0.071 with 80% power"
    )


def test_where_less_is_better_the_smaller_one_wins() -> None:
    low, high = np.arange(10.0), np.arange(10.0) + [2, 3] * 5
    assert paired(low, high).words().startswith("b beats a by 2.50 ± 0.38 (95% CI 2.12 to 2.88;")
    found = paired(low, high, about=About("new", "old", "seconds", better="lower"))
    assert found.winner == "new"
    assert found.words("s").startswith("new beats old by 2.50 ± 0.38 s (95% CI 2.12 to 2.88;")


def test_an_interval_without_zero_is_not_enough_when_p_was_adjusted_away() -> None:
    found = _comparison(About(), 0.5, 0.4, n=30, p=0.02)
    assert found.winner == "a"
    several = replace(found, p_adjusted=0.08, correction="Holm")
    assert several.winner is None
    assert several.words().startswith("no difference shown between a and b after Holm: 0.50 ± 0.40")


def test_large_and_small_figures_stay_readable() -> None:
    assert "by 12,300 ± 1,200 (" in _comparison(About(), 12_345, 1_234, n=9).words()
    assert (
        "by (1.500 ± 0.020)e-12 (95% CI 1.48e-12 to 1.52e-12"
        in _comparison(About(), 1.5e-12, 2e-14, n=9).words()
    )
    assert ": 0.00 ± 0.50;" in _comparison(About(), -0.001, 0.5, n=9, p=0.9).words()


def test_equal_values_are_called_equal() -> None:
    same = paired([1.5, 2.5, 7], [1.5, 2.5, 7])
    assert same.words() == "a and b are equal in each of 3 pairs"
    assert (same.p, same.effect, same.detectable) == (1.0, 0.0, 0.0)
    assert unpaired([3, 3], [3, 3, 3]).words() == "a and b are equal (2 and 3 values)"


def test_a_difference_that_never_varies_is_judged_by_how_often_it_was_seen() -> None:
    few = paired([1, 2, 3], [0.9, 1.9, 2.9])
    assert few.words() == ("a and b differ by 0.1 in each of 3 pairs; too few to be significant")
    assert few.p == 0.25
    many = paired(np.arange(10), np.arange(10) - 0.1)
    assert many.p == 2**-9
    assert many.words("ms") == "a beats b by 0.1 ms in each of 10 pairs"
    assert unpaired([3] * 6, [4] * 6).words() == "b beats a by 1 (6 and 6 values)"
    assert unpaired([3] * 6, [4] * 6).p == pytest.approx(2 / math.comb(12, 6))


def test_one_constant_group_is_compared_as_any_other() -> None:
    found = unpaired([2.0] * 5, [1.0, 1.1, 0.9, 1.2, 0.8])
    assert found.p == pytest.approx(scipy.stats.ttest_1samp([1.0, 1.1, 0.9, 1.2, 0.8], 2).pvalue)
    assert paired([2.0] * 3, [1.0, 1.1, 0.9]).correlation is None


HOSTILE: list[tuple[Any, Any]] = [
    ([1.0, math.nan], [1.0, 2.0]), ([1.0, 2.0], [math.inf, 2.0]), ([], []), ([1], [2]),
    (["x", "y"], [1, 2]), ([[1, 2]], [[3, 4]]), ([1e200, -1e200], [0, 1]),
    ([None, 1.0], [1.0, 2.0]),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), HOSTILE)
@pytest.mark.parametrize("pairs", [True, False])
def test_what_can_not_be_compared_is_refused_with_a_hint(a: Any, b: Any, pairs: bool) -> None:
    with pytest.raises(UsageError) as caught:
        compare(a, b, paired=pairs)
    assert caught.value.hint


def test_pairs_of_different_length_and_unknown_choices_are_refused() -> None:
    with pytest.raises(UsageError, match="3 values can't be paired with 2"):
        paired([1, 2, 3], [1, 2])
    with pytest.raises(UsageError, match="unknown interval 'wald'"):
        compare([1, 2], [1, 2], paired=True, interval="wald")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown direction"):
        About(better="more")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="level"):
        paired([1, 2], [1, 3], level=95)
    with pytest.raises(UsageError, match="pairs don't match"):
        paired_moments(Moments([1, 2]), Moments([1, 2, 3]), Moments([1, 2, 3]))


numbers = st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0, 1e-300, 1e149, 0.1])
columns = st.lists(st.tuples(numbers, numbers), max_size=12)


@given(columns, st.booleans(), st.sampled_from(["auto", "t"]))
def test_any_numbers_give_figures_without_nan_or_an_error_for_people(
    rows: list[tuple[float, float]], pairs: bool, interval: Any
) -> None:
    a: ArrayLike = [row[0] for row in rows]
    b: ArrayLike = [row[1] for row in rows]
    try:
        found = compare(a, b, paired=pairs, interval=interval)
    except RunyardError:
        assert len(rows) < 2
        return
    json.dumps(found.to_data(), allow_nan=False)
    assert "nan" not in found.words().replace("Benjamini", "")
    assert found.interval.low <= found.effect <= found.interval.high
    assert 0 <= found.p <= 1


def test_a_p_value_too_small_for_a_number_is_not_shown_as_0() -> None:
    about = About("a", "b", "m", "higher")
    assert _comparison(about, 1.0, 0.1, 9, p=0.0).p_text == "< 1e-300"
    assert _comparison(about, 1.0, 0.1, 9, p=0.01234).p_text == "0.0123"


def _comparison(
    about: About, effect: float, half: float, n: int, p: float = 1e-6, detectable: float = 1.0
) -> Comparison:
    return Comparison(
        about=about, paired=True, n=n, mean_a=1 + effect, mean_b=1, effect=effect, p=p,
        interval=Interval(effect - half, effect + half, 0.95, "t"), method="paired t test",
        detectable=detectable,
    )  # fmt: skip

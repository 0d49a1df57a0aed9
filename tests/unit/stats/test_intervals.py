"""Intervals: against scipy and statsmodels, and against published worked examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from runyard.errors import UsageError
from runyard.stats import Interval, Moments, Rate, bootstrap, newcombe, t_interval, wilson


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def sample_sd(values: Any, axis: int) -> Any:
    return np.std(values, axis=axis, ddof=1)


def unexpanded(level: float, count: int) -> float:
    """The level at which our small-sample expansion leaves just the plain tails of `level`."""
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt((count - 1) / count)
    return float(2 * stats.t.cdf(reach, count - 1) - 1)


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_newcombes_1998_table_of_single_proportions(
    successes: int, total: int, low: float, high: float
) -> None:
    """Newcombe, Two-sided confidence intervals for the single proportion, Table I, method 3."""
    assert ends(wilson(successes, total)) == pytest.approx((low, high), abs=5.1e-5)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((10, 10, 0, 20), 0.6791, 1.0),
    ],
)
def test_newcombe_gives_his_1998_table_of_differences(
    counts: tuple[int, int, int, int], low: float, high: float
) -> None:
    """Newcombe, Interval estimation for the difference between independent proportions, Table II,
    method 10."""
    assert ends(newcombe(*counts)) == pytest.approx((low, high), abs=5.1e-5)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_score_intervals_agree_with_statsmodels_for_any_counts(level: float) -> None:
    rng = np.random.default_rng(1)
    for n1, n2 in rng.integers(1, 300, (40, 2)).tolist():
        s1, s2 = int(rng.integers(0, n1 + 1)), int(rng.integers(0, n2 + 1))
        single = proportion_confint(s1, n1, 1 - level, method="wilson")
        assert ends(wilson(s1, n1, level)) == pytest.approx(single, abs=1e-12)
        both = confint_proportions_2indep(s1, n1, s2, n2, method="newcomb", alpha=1 - level)
        assert ends(newcombe(s1, n1, s2, n2, level)) == pytest.approx(both, abs=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("count", [2, 5, 40, 3000])
def test_students_interval_is_scipys(count: int, level: float) -> None:
    values = np.random.default_rng(count).normal(7, 3, count)
    expected = stats.ttest_1samp(values, 0).confidence_interval(level)
    assert ends(t_interval(Moments(values), level)) == pytest.approx(tuple(expected), rel=1e-10)


@pytest.mark.parametrize("method", ["bca", "percentile"])
@pytest.mark.parametrize(("name", "function"), [("mean", np.mean), ("sd", sample_sd)])
def test_the_bootstrap_agrees_with_scipys_up_to_its_own_randomness(
    method: Any, name: str, function: Callable[..., Any]
) -> None:
    values = np.random.default_rng(2).gamma(2, size=61)
    reference = stats.bootstrap(
        (values,),
        function,
        n_resamples=9999,
        confidence_level=0.95,
        method={"bca": "BCa", "percentile": "percentile"}[method],
        rng=np.random.default_rng(3),
    )
    ours = bootstrap(values, name, unexpanded(0.95, 61), 9999, seed=4, method=method)
    noise = 0.1 * reference.standard_error
    assert ends(ours) == pytest.approx(tuple(reference.confidence_interval), abs=noise)
    assert bootstrap(values, function, 0.95, 999, method=method) == bootstrap(
        values, name, 0.95, 999, method=method
    )


@pytest.mark.parametrize(
    ("method", "low", "high"), [("bca", 115.8, 259.6), ("percentile", 100.8, 233.9)]
)
def test_the_bootstrap_of_the_spatial_test_data_gives_the_books_interval(
    method: Any, low: float, high: float
) -> None:
    """Efron and Tibshirani, An Introduction to the Bootstrap (1993), Table 14.2: the variance of
    26 test scores, 171.5, and its 90 % intervals from 2,000 resamples of their own."""
    scores = [48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6,
              0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41]  # fmt: skip
    assert np.var(scores) == pytest.approx(171.5, abs=0.05)
    ours = bootstrap(scores, np.var, unexpanded(0.9, 26), 9999, method=method)
    two_thousand_resamples_noise = 4.0
    assert ends(ours) == pytest.approx((low, high), abs=two_thousand_resamples_noise)


def test_the_bootstrap_t_widens_towards_the_long_tail_and_nears_student_without_one() -> None:
    rng = np.random.default_rng(5)
    skewed = rng.exponential(size=60)
    interval = bootstrap(skewed, method="studentized")
    assert interval.high - skewed.mean() > 1.1 * (skewed.mean() - interval.low)
    even = rng.normal(size=400)
    student = t_interval(Moments(even))
    assert ends(bootstrap(even, method="studentized")) == pytest.approx(
        ends(student), abs=0.1 * student.half
    )


@pytest.mark.parametrize("method", ["bca", "percentile", "studentized"])
def test_the_bootstrap_is_the_same_for_the_same_values_in_any_order(method: Any) -> None:
    values = np.random.default_rng(6).normal(size=50)
    first = bootstrap(values, resamples=500, seed=7, method=method)
    assert bootstrap(values[::-1], resamples=500, seed=7, method=method) == first
    assert bootstrap(values, resamples=500, seed=8, method=method) != first


@pytest.mark.parametrize("method", ["bca", "percentile", "studentized"])
def test_equal_values_have_an_interval_of_no_width(method: Any) -> None:
    assert ends(bootstrap([3.0] * 9, resamples=99, method=method)) == (3.0, 3.0)


def test_a_function_of_one_array_is_bootstrapped_row_by_row() -> None:
    values = np.random.default_rng(9).normal(size=30)
    plain = bootstrap(values, lambda row: float(row.max() - row.min()), resamples=300)
    at_once = bootstrap(values, np.ptp, resamples=300)
    assert plain == at_once


def test_many_values_are_resampled_in_bounded_memory() -> None:
    values = np.random.default_rng(10).normal(size=300_000)
    interval = bootstrap(values, resamples=60, method="percentile", level=0.5)
    assert interval.contains(values.mean())
    assert interval.half < 0.01


def test_an_interval_knows_its_half_width_and_what_it_holds() -> None:
    interval = Interval(1.0, 2.0, 0.95, "t")
    assert interval.half == 0.5
    assert interval.contains(1.0)
    assert interval.contains(2.0)
    assert not interval.contains(2.1)


def test_a_rate_is_counted_from_zeros_and_ones_only() -> None:
    rate = Rate()
    rate.add(True)
    rate.add_array([0, 1, 1])
    rate.add_array(np.array([False, True]))
    assert (rate.successes, rate.total, rate.value) == (4, 6, 4 / 6)
    assert rate.interval() == wilson(4, 6)
    assert math.isnan(Rate().value)
    with pytest.raises(UsageError, match="0 or 1"):
        rate.add(0.5)
    assert rate.total == 6


@pytest.mark.parametrize(
    "asked",
    [
        lambda: t_interval(Moments([1.0])),
        lambda: t_interval(Moments([1.0, 2.0]), 95),
        lambda: wilson(3, 2),
        lambda: wilson(0, 0),
        lambda: newcombe(1, 2, 0, 0),
        lambda: bootstrap([1.0]),
        lambda: bootstrap([1.0, math.nan]),
        lambda: bootstrap([1.0, 2.0], "mode"),
        lambda: bootstrap([1.0, 2.0], method="jackknife"),  # type: ignore[arg-type]
        lambda: bootstrap([1.0, 2.0], "median", method="studentized"),
        lambda: bootstrap([1.0, 2.0], resamples=0),
    ],
)
def test_an_interval_that_cannot_be_is_refused_with_what_to_do(asked: Callable[[], Any]) -> None:
    with pytest.raises(UsageError) as caught:
        asked()
    assert caught.value.hint

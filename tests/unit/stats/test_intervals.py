"""Intervals: against scipy and statsmodels, and against published worked examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from runyard.errors import UsageError
from runyard.stats import Interval, Moments, newcombe, t_interval, wilson


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


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


def test_an_interval_knows_its_half_width_and_what_it_holds() -> None:
    interval = Interval(1.0, 2.0, 0.95, "t")
    assert interval.half == 0.5
    assert interval.contains(1.0)
    assert interval.contains(2.0)
    assert not interval.contains(2.1)


@pytest.mark.parametrize(
    "asked",
    [
        lambda: t_interval(Moments([1.0])),
        lambda: t_interval(Moments([1.0, 2.0]), 95),
        lambda: wilson(3, 2),
        lambda: wilson(0, 0),
        lambda: newcombe(1, 2, 0, 0),
    ],
)
def test_an_interval_that_cannot_be_is_refused_with_what_to_do(asked: Callable[[], Any]) -> None:
    with pytest.raises(UsageError) as caught:
        asked()
    assert caught.value.hint

"""Ratios of totals: against published examples, plain formulas and large samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm

from runyard.errors import UsageError
from runyard.stats import Ratio, fieller

CITIES_1920 = [138, 93, 61, 179, 48, 37, 29, 23, 30, 2]
CITIES_1930 = [143, 104, 69, 260, 75, 63, 50, 48, 111, 50]


def test_the_ratio_of_city_populations_is_the_books() -> None:
    """Davison and Hinkley, Bootstrap Methods and their Application (1997): ten U.S. cities, the
    ratio 1.520 and its delta-method variance 0.0325, which divides by n where we do by n - 1."""
    ratio = Ratio(CITIES_1930, CITIES_1920)
    assert ratio.value == pytest.approx(1.520, abs=5e-4)
    assert ratio.standard_error**2 * 9 / 10 == pytest.approx(0.0325, abs=5e-5)


def test_fiellers_interval_of_the_patch_data_is_the_books() -> None:
    """Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 25.3: eight patients,
    the ratio -0.071 and Fieller's 90 % interval from -0.249 to 0.170."""
    old_minus_placebo = [8406, 2342, 8187, 8459, 4795, 3516, 4796, 10238]
    new_minus_old = [-1200, 2601, -2705, 1982, -1290, 351, -638, -2719]
    ratio = Ratio(new_minus_old, old_minus_placebo)
    interval = ratio.interval(0.9, "fieller")
    assert ratio.value == pytest.approx(-0.0713, abs=5e-5)
    assert (interval.low, interval.high) == pytest.approx((-0.249, 0.170), abs=5e-4)


def test_the_standard_error_is_that_of_weighted_least_squares_with_robust_errors() -> None:
    """A ratio of totals is the slope of y on x through zero with weights 1/x; statsmodels' HC0
    error of that slope is the linearised one, but for n - 1."""
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 5, 500)
    y = 2 * x + rng.normal(size=500)
    ratio = Ratio(y, x)
    fit = sm.WLS(y, x, weights=1 / x).fit(cov_type="HC0")
    assert ratio.value == pytest.approx(fit.params[0], rel=1e-12)
    assert ratio.standard_error == pytest.approx(fit.bse[0] * math.sqrt(500 / 499), rel=1e-10)


def test_both_intervals_meet_for_many_units_and_the_fieller_set_is_the_root_of_its_test() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(10, 2, 5000), rng.normal(3, 1, 5000)
    linear, exact = Ratio(y, x).interval(), Ratio(y, x).interval(method="fieller")
    assert (exact.low, exact.high) == pytest.approx((linear.low, linear.high), rel=1e-3)
    found = fieller(2.0, 5.0, var_top=0.3, var_bottom=0.4, cov=0.1)
    for end in (found.low, found.high):
        spread = math.sqrt(0.3 - 2 * end * 0.1 + end * end * 0.4)
        assert abs(2.0 - end * 5.0) / spread == pytest.approx(1.959964, abs=1e-6)


def test_a_denominator_near_zero_leaves_the_whole_line() -> None:
    found = fieller(1.0, 0.1, var_top=0.01, var_bottom=0.01)
    assert (found.low, found.high) == (-math.inf, math.inf)


def test_a_large_common_offset_loses_no_digit_of_the_error() -> None:
    wobble = np.random.default_rng(3).normal(size=100)
    x = np.full(100, 2.0**30)
    y = 2.0**30 + np.round(wobble * 2**20) / 2**20
    residuals = np.round(wobble * 2**20) / 2**20
    expected = residuals.std(ddof=1) / 10 / 2.0**30
    assert Ratio(y, x).standard_error == pytest.approx(expected, rel=1e-12)


def test_units_that_are_not_finite_are_counted_apart() -> None:
    ratio = Ratio([1.0, math.nan, 3.0], [2.0, 1.0, math.inf])
    ratio.add(3.0, 4.0)
    assert (ratio.count, ratio.missing, ratio.value) == (2, 2, 4 / 6)


def test_a_ratio_that_cannot_be_is_refused_or_nan() -> None:
    assert math.isnan(Ratio().value)
    assert math.isnan(Ratio([1.0], [2.0]).standard_error)
    for ratio in (Ratio(), Ratio([1.0], [2.0]), Ratio([1.0, 2.0], [1.0, -1.0])):
        with pytest.raises(UsageError, match="no interval"):
            ratio.interval()
    with pytest.raises(UsageError, match="pairs"):
        Ratio([1.0, 2.0], [1.0])
    with pytest.raises(UsageError, match="no interval 'exact'"):
        Ratio([1.0, 2.0], [1.0, 1.0]).interval(method="exact")  # type: ignore[arg-type]

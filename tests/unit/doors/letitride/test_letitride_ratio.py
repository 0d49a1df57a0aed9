"""Ratios of totals: against published examples, plain formulas and large samples."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.letitride.report.ratio import Ratio
from runyard.errors import UsageError

CITIES_1920 = [138, 93, 61, 179, 48, 37, 29, 23, 30, 2]
CITIES_1930 = [143, 104, 69, 260, 75, 63, 50, 48, 111, 50]


def test_the_ratio_of_city_populations_is_the_books() -> None:
    """Davison and Hinkley, Bootstrap Methods and their Application (1997): ten U.S. cities, the
    ratio 1.520 and its delta-method variance 0.0325, which divides by n where we do by n - 1."""
    ratio = Ratio(CITIES_1930, CITIES_1920)
    assert ratio.value == pytest.approx(1.520, abs=5e-4)
    assert ratio.standard_error**2 * 9 / 10 == pytest.approx(0.0325, abs=5e-5)


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


def test_a_large_common_offset_loses_no_digit_of_the_error() -> None:
    wobble = np.random.default_rng(3).normal(size=100)
    x = np.full(100, 2.0**30)
    y = 2.0**30 + np.round(wobble * 2**20) / 2**20
    residuals = np.round(wobble * 2**20) / 2**20
    expected = residuals.std(ddof=1) / 10 / 2.0**30
    assert Ratio(y, x).standard_error == pytest.approx(expected, rel=1e-12)


def test_units_that_are_not_finite_are_counted_apart() -> None:
    ratio = Ratio([1.0, math.nan, 3.0], [2.0, 1.0, math.inf])
    ratio.add_array([3.0], [4.0])
    assert (ratio.count, ratio.missing, ratio.value) == (2, 2, 4 / 6)


def test_a_ratio_that_cannot_be_is_refused_or_nan() -> None:
    assert math.isnan(Ratio().value)
    assert math.isnan(Ratio([1.0], [2.0]).standard_error)
    for ratio in (Ratio(), Ratio([1.0], [2.0]), Ratio([1.0, 2.0], [1.0, -1.0])):
        with pytest.raises(UsageError, match="no interval"):
            ratio.interval()
    with pytest.raises(UsageError, match="pairs"):
        Ratio([1.0, 2.0], [1.0])


DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(DOUBLES, DOUBLES), min_size=1, max_size=30))
def test_products_of_pairs_are_summed_without_any_rounding(
    pairs: list[tuple[float, float]],
) -> None:
    ys, xs = zip(*pairs, strict=True)
    ratio = Ratio(ys, xs)
    got = [ratio._x[0], ratio._y[0], ratio._x[1], ratio._xy, ratio._y[1]]
    exact = [(Fraction(y), Fraction(x)) for y, x in pairs]
    assert got == [
        sum(x for _, x in exact),
        sum(y for y, _ in exact),
        sum(x * x for _, x in exact),
        sum(x * y for y, x in exact),
        sum(y * y for y, _ in exact),
    ]


def test_the_interval_covers_for_two_hundred_units_of_uneven_size() -> None:
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(2000):
        size = 1.0 + rng.poisson(20, 200)
        covered += Ratio(rng.normal(0.3 * size, np.sqrt(size)), size).interval().contains(0.3)
    assert covered / 2000 >= 0.945

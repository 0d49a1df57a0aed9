"""Moments: against numpy, scipy and NIST's certified values, and where others lose digits."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from runyard.errors import UsageError
from runyard.stats import Moments

MICHELSON = """
850 740 900 1070 930 850 950 980 980 880 1000 980 930 650 760 810 1000 1000 960 960
960 940 960 940 880 800 850 880 900 840 830 790 810 880 880 830 800 790 760 800
880 880 880 860 720 720 620 860 970 950 880 910 850 870 840 840 850 840 840 840
890 810 810 820 800 770 760 740 750 760 910 920 890 860 880 720 840 850 850 780
890 840 780 810 760 810 790 810 820 850 870 870 810 740 810 940 950 800 810 870
"""


def alternating(centre: float, step: float) -> list[float]:
    """NIST's NumAcc sets 2 to 4: the centre, then 500 pairs around it."""
    return [centre, *[round(centre - step, 1), round(centre + step, 1)] * 500]


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        pytest.param([10000001, 10000003, 10000002], 10000002, 1, id="NumAcc1"),
        pytest.param(alternating(1.2, 0.1), 1.2, 0.1, id="NumAcc2"),
        pytest.param(alternating(1000000.2, 0.1), 1000000.2, 0.1, id="NumAcc3"),
        pytest.param(alternating(10000000.2, 0.1), 10000000.2, 0.1, id="NumAcc4"),
        pytest.param(
            [299 + int(v) / 1000 for v in MICHELSON.split()],
            299.8524,
            0.0790105478190518,
            id="Michelso",
        ),
    ],
)
def test_mean_and_sd_are_those_certified_in_nists_reference_data(
    values: list[float], mean: float, sd: float
) -> None:
    """NIST Statistical Reference Datasets, univariate summary statistics.

    The decimals are not doubles; what is left is the distance between the two, no more.
    """
    moments = Moments(values)
    assert moments.mean == pytest.approx(mean, rel=1e-15, abs=0)
    slack = max(1e-14, 2e-16 * mean / sd)
    assert moments.sd == pytest.approx(sd, rel=slack, abs=0)


@pytest.mark.parametrize("kind", ["normal", "skewed", "integers", "bools", "float32", "wide"])
def test_every_figure_agrees_with_numpy_and_scipy(kind: str) -> None:
    rng = np.random.default_rng(7)
    values = {
        "normal": rng.normal(3, 2, 30_000),
        "skewed": rng.exponential(size=30_000),
        "integers": rng.integers(-100, 1000, 30_000),
        "bools": rng.random(30_000) < 0.3,
        "float32": rng.normal(size=30_000).astype(np.float32),
        "wide": rng.lognormal(0, 3, 30_000),
    }[kind]
    moments, doubles = Moments(values), values.astype(np.float64)
    assert moments.count == 30_000
    assert moments.total == math.fsum(doubles)
    assert moments.mean == pytest.approx(doubles.mean(), rel=1e-12)
    assert moments.variance == pytest.approx(doubles.var(ddof=1), rel=1e-10)
    assert moments.sd == pytest.approx(doubles.std(ddof=1), rel=1e-10)
    assert moments.sem == pytest.approx(stats.sem(doubles), rel=1e-10)
    assert moments.skew == pytest.approx(stats.skew(doubles), rel=1e-9, abs=1e-12)
    assert moments.kurtosis == pytest.approx(stats.kurtosis(doubles), rel=1e-9, abs=1e-12)
    assert (moments.minimum, moments.maximum) == (doubles.min(), doubles.max())


@pytest.mark.parametrize("shift", [0.0, 1e9, -1e12])
def test_a_small_spread_around_a_large_mean_loses_no_digit(shift: float) -> None:
    values = shift + np.random.default_rng(8).normal(size=2000) * 1e-3
    exact = [Fraction(value) for value in values.tolist()]
    mean = sum(exact, Fraction()) / len(exact)
    m2, m3, m4 = (sum((v - mean) ** k for v in exact) / len(exact) for k in (2, 3, 4))
    moments = Moments(values)
    assert moments.mean == float(mean)
    assert moments.variance == float(m2 * len(exact) / (len(exact) - 1))
    assert moments.skew == pytest.approx(float(m3) / float(m2) ** 1.5, rel=1e-14)
    assert moments.kurtosis == float(m4 / m2**2 - 3)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e306])
def test_shape_and_sd_survive_scales_whose_powers_no_double_holds(scale: float) -> None:
    values = np.random.default_rng(9).exponential(size=500)
    plain, scaled = Moments(values), Moments(values * scale)
    assert scaled.sd == pytest.approx(plain.sd * scale, rel=1e-9)
    assert scaled.skew == pytest.approx(plain.skew, rel=1e-9)
    assert scaled.kurtosis == pytest.approx(plain.kurtosis, rel=1e-9)


def test_what_is_not_finite_is_counted_apart_and_poisons_nothing() -> None:
    moments = Moments([1.0, math.nan, 2.0, math.inf, -math.inf, 3.0])
    moments.add_array([None, 2.0])
    assert (moments.count, moments.missing) == (4, 4)
    assert (moments.mean, moments.minimum, moments.maximum) == (2.0, 1.0, 3.0)


def test_negative_zero_and_zero_are_one_value_in_either_order() -> None:
    assert str(Moments([0.0, -0.0]).minimum) == str(Moments([-0.0, 0.0]).minimum) == "0.0"


def test_figures_that_the_data_cannot_give_are_nan() -> None:
    nothing, one, same = Moments(), Moments([4.0]), Moments([0.1] * 9)
    assert all(map(math.isnan, (nothing.mean, nothing.minimum, nothing.maximum, nothing.sd)))
    assert one.mean == 4.0
    assert all(map(math.isnan, (one.variance, one.sd, one.sem, one.skew, one.kurtosis)))
    assert same.variance == same.sd == same.sem == 0.0
    assert math.isnan(same.skew)
    assert math.isnan(same.kurtosis)


def test_moments_of_a_low_order_say_what_they_do_not_know() -> None:
    low = Moments([1.0, 2.0, 4.0], order=2)
    assert low.sd == pytest.approx(1.5275252316519468)
    with pytest.raises(UsageError, match="order 3"):
        _ = low.skew
    with pytest.raises(UsageError, match="order 5"):
        Moments(order=5)


def test_a_long_stream_takes_no_more_memory_than_a_short_one() -> None:
    values = np.random.default_rng(10).normal(size=1 << 16)
    moments = Moments()
    moments.add_array(values)
    tracemalloc.start()
    try:
        for _ in range(8):
            moments.add_array(values)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100_000
    assert peak < 8 * values.nbytes
    assert moments.count == 9 * len(values)

"""Summaries: one pass, one line, and no more digits than the interval deserves."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from runyard.stats import Moments, Quantiles, Rate, Summary, plus_minus, show, t_interval, wilson


def test_one_pass_gives_what_its_parts_give() -> None:
    values = np.random.default_rng(1).normal(2, 1, 5000)
    summary = Summary(values)
    assert summary.moments.sd == Moments(values).sd
    assert summary.quantiles.median == Quantiles(values).median
    assert summary.interval() == t_interval(Moments(values))
    assert summary.rate is None


@pytest.mark.parametrize(
    "values",
    [[True, False, True, True], [True, None, False, True, True], np.array([1, 0, 1, 1], bool)],
)
def test_a_metric_of_booleans_is_a_rate_with_wilsons_interval(values: list[bool]) -> None:
    one_by_one = Summary()
    for value in values:
        one_by_one.add_array([value])
    for summary in (Summary(values), one_by_one):
        assert summary.rate == Rate(3, 4)
        assert summary.interval(0.9) == wilson(3, 4, 0.9)


@pytest.mark.parametrize("values", [[0, 1, 1, 1], [1.0, 0.0, 1.0, 1.0]])
def test_numbers_that_are_all_0_or_1_are_a_rate_only_where_declared(values: list[float]) -> None:
    assert Summary(values).rate is None
    assert Summary(values).interval() == t_interval(Moments(values))
    assert Summary(values, rate=True).rate == Rate(3, 4)
    assert Summary([*values, 2.0], rate=True).rate is None


def test_one_number_makes_a_rate_a_mean_in_any_order() -> None:
    parts: list[list[float]] = [[False, True, True], [1], []]
    for order in permutations(parts):
        summary = Summary()
        for part in order:
            summary.add_array(part)
        assert summary.rate is None
        assert summary.interval() == t_interval(Moments([0, 1, 1, 1]))
    assert Summary(parts[0]).rate == Rate(2, 3)
    assert math.isnan(Rate(0, 0).value)


def test_the_line_shows_mean_interval_spread_and_count() -> None:
    spread = np.tile([-1.57, 1.57], 98_304 // 2) + 0.1123
    assert Summary(spread).line() == "0.1123 ± 0.0098 (sd 1.57, n 98,304)"
    assert Summary([1, 2, math.nan]).line() == "1.5 ± 6.4 (sd 0.707, n 2, 1 missing)"


def test_the_line_of_a_rate_shows_both_ends_since_they_are_not_even() -> None:
    assert Summary([False] * 20).line() == "0.000 (0.000 to 0.161; 0 of 20)"
    assert Summary([True, False] * 500).line() == "0.500 (0.469 to 0.531; 500 of 1,000)"


def test_the_line_of_too_few_values_says_so_and_never_nan() -> None:
    assert Summary().line() == "no values"
    assert Summary([5]).line() == "5 (n 1)"
    assert Summary([math.nan]).line() == "no values, 1 missing"
    assert Summary([3, 3, 3]).line() == "3 ± 0 (sd 0, n 3)"
    assert Summary().interval() is None
    assert Summary([5]).interval() is None


@pytest.mark.parametrize(
    ("value", "half", "shown"),
    [
        (0.112345, 0.0098, "0.1123 ± 0.0098"),
        (12345.6, 678, "12,350 ± 680"),
        (1234567, 0.5, "1,234,567.00 ± 0.50"),
        (0.5, 0.0996, "0.50 ± 0.10"),
        (-0.0001, 0.1, "0.00 ± 0.10"),
        (-2.345, 0.12, "-2.35 ± 0.12"),
        (1.23456e-12, 3e-14, "(1.235 ± 0.030)e-12"),
        (5, 0, "5 ± 0"),
        (0.25, math.inf, "0.2500 ± inf"),
    ],
)
def test_a_value_is_rounded_to_what_its_interval_deserves(
    value: float, half: float, shown: str
) -> None:
    assert plus_minus(value, half) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.11234, "0.1123"),
        (98304, "98,304"),
        (123456.789, "123,457"),
        (1.2341e-9, "1.234e-09"),
        (1e12, "1e+12"),
        (-0.5, "-0.5000"),
        (0.0, "0"),
        (-0.0, "0"),
        (math.nan, "nan"),
    ],
)
def test_a_number_is_shown_with_a_few_digits(number: float, shown: str) -> None:
    assert show(number) == shown

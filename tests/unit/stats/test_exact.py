"""Exact sums: against fractions, in any order and pieces, for any finite doubles."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import UsageError
from runyard.stats import Moments, Quantiles, Summary

ANY_DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
SUBNORMAL = st.integers(-(2**52), 2**52).map(lambda n: math.ldexp(n, -1074))
MIXED = st.builds(
    lambda mantissa, exponent: math.ldexp(mantissa, exponent),
    st.floats(-1, 1),
    st.integers(-1070, 1023),
)
WHOLE = st.integers(-(2**53), 2**53).map(float)
SMALL = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 2.0, 1e9, 1e-9])
DOUBLES = st.one_of(ANY_DOUBLE, SUBNORMAL, MIXED, WHOLE, SMALL, st.floats(-1e6, 1e6))


@given(st.lists(DOUBLES, max_size=60))
def test_an_array_is_summed_without_any_rounding(values: list[float]) -> None:
    moments = Moments(values, order=1)
    assert moments._sums[0] == sum(map(Fraction, values))


@pytest.mark.parametrize("scale", [1.0, 1e-290, 1e290, 3e-25, 7e30])
def test_powers_up_to_the_fourth_are_summed_without_any_rounding(scale: float) -> None:
    values = np.random.default_rng(2).normal(size=9000) * scale
    sums = Moments(values)._sums
    exactly = [Fraction(value) for value in values.tolist()]
    for power, total in enumerate(sums, start=1):
        assert total == sum(value**power for value in exactly)


@given(st.lists(DOUBLES, min_size=2, max_size=30))
def test_powers_of_any_doubles_are_summed_without_any_rounding(values: list[float]) -> None:
    for power, total in enumerate(Moments(values)._sums, start=1):
        assert total == sum(Fraction(value) ** power for value in values)


def test_full_blocks_of_the_largest_slices_do_not_overflow_their_53_bits() -> None:
    just_below_one = np.full(1 << 14, math.nextafter(1.0, 0.0))
    for values in (just_below_one, -just_below_one, just_below_one * (1 - 2**-20)):
        exact = Fraction(float(values[0]))
        for power, total in enumerate(Moments(values)._sums, start=1):
            assert total == len(values) * exact**power


MAKERS: list[Callable[[], Any]] = [Moments, lambda: Moments(order=2), Quantiles, Summary]


def _state(made: Any) -> dict[str, Any]:
    """Everything that one of these holds, so that equal states give equal figures."""
    if isinstance(made, Moments):
        sums = list(made._sums)
        return {"ends": (made.minimum, made.maximum), "sums": sums, "count": made.count}
    if isinstance(made, Quantiles):
        pages = {number: page.tolist() for number, page in sorted(made._pages.items())}
        return {"counts": made.counts(), "pages": pages, "quantiles": made.quantiles([0, 0.3, 1])}
    return {"moments": _state(made.moments), "quantiles": _state(made.quantiles)}


def _in_pieces(values: list[float], make: Callable[[], Any], chance: random.Random) -> str:
    """The state after adding the values shuffled and cut at random."""
    values = list(values)
    chance.shuffle(values)
    cuts = sorted(chance.choices(range(len(values) + 1), k=chance.randrange(0, 6)))
    made = make()
    for start, stop in zip([0, *cuts], [*cuts, len(values)], strict=True):
        made.add_array(np.array(values[start:stop]))
    return repr(_state(made))


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
@given(values=st.lists(DOUBLES, max_size=40), chance=st.randoms(use_true_random=False))
def test_any_order_and_pieces_give_identical_figures(
    make: Callable[[], Any], values: list[float], chance: random.Random
) -> None:
    assert _in_pieces(values, make, chance) == _in_pieces(values, make, random.Random(1))


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("kind", ["doubles", "integers", "wide"])
def test_many_values_in_any_pieces_give_identical_figures(
    make: Callable[[], Any], kind: str
) -> None:
    rng = np.random.default_rng(3)
    values = {
        "doubles": rng.normal(size=20_000),
        "integers": rng.integers(-50, 5000, 20_000).astype(float),
        "wide": rng.normal(size=20_000) * 10.0 ** rng.integers(-12, 12, 20_000),
    }[kind].tolist()
    first = _in_pieces(values, make, random.Random(4))
    assert _in_pieces(values, make, random.Random(5)) == first


def test_a_sum_beyond_the_doubles_is_infinite_but_comes_back() -> None:
    moments = Moments([1.7e308, 1.7e308])
    assert moments.total == math.inf
    moments.add_array([-1.7e308])
    assert moments.total == 1.7e308


def test_text_is_refused_with_an_error_of_ours() -> None:
    with pytest.raises(UsageError, match="not numbers"):
        Moments(["a", "b"])

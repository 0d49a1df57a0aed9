"""Exact sums: against fractions, in any partition and merge order, for any finite doubles."""

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
from runyard.stats import ExactSum, Histogram, Moments, Quantiles, Rate, Ratio, Summary

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


def test_one_value_after_the_other_gives_what_fsum_gives() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=500) * 10.0 ** rng.integers(-200, 200, 500)
    total = ExactSum()
    for value in values:
        total.add(value)
    assert total.value == math.fsum(values)


@given(st.lists(DOUBLES, max_size=60))
def test_an_array_is_summed_without_any_rounding(values: list[float]) -> None:
    total = ExactSum()
    total.add_array(values)
    assert total.fraction == sum(map(Fraction, values))


@pytest.mark.parametrize("scale", [1.0, 1e-290, 1e290, 3e-25, 7e30])
def test_powers_up_to_the_fourth_are_summed_without_any_rounding(scale: float) -> None:
    values = np.random.default_rng(2).normal(size=9000) * scale
    sums = Moments(values)._sums
    exactly = [Fraction(value) for value in values.tolist()]
    for power, total in enumerate(sums, start=1):
        assert total.fraction == sum(value**power for value in exactly)


@given(st.lists(DOUBLES, min_size=2, max_size=30))
def test_powers_of_any_doubles_are_summed_without_any_rounding(values: list[float]) -> None:
    for power, total in enumerate(Moments(values)._sums, start=1):
        assert total.fraction == sum(Fraction(value) ** power for value in values)


@given(st.lists(st.tuples(DOUBLES, DOUBLES), min_size=1, max_size=30))
def test_products_of_pairs_are_summed_without_any_rounding(
    pairs: list[tuple[float, float]],
) -> None:
    ys, xs = zip(*pairs, strict=True)
    got = [total.fraction for total in Ratio(ys, xs)._sums]
    exact = [(Fraction(y), Fraction(x)) for y, x in pairs]
    assert got == [
        sum(x for _, x in exact),
        sum(y for y, _ in exact),
        sum(x * x for _, x in exact),
        sum(x * y for y, x in exact),
        sum(y * y for y, _ in exact),
    ]


def test_full_blocks_of_the_largest_slices_do_not_overflow_their_53_bits() -> None:
    just_below_one = np.full(1 << 14, math.nextafter(1.0, 0.0))
    for values in (just_below_one, -just_below_one, just_below_one * (1 - 2**-20)):
        exact = Fraction(float(values[0]))
        for power, total in enumerate(Moments(values)._sums, start=1):
            assert total.fraction == len(values) * exact**power


def _rows(values: list[float], make: Callable[[], Any]) -> Callable[[list[int]], Any]:
    """How a part of the data, given by positions, is taken in."""

    def part(positions: list[int]) -> Any:
        made = make()
        chosen = [values[i] for i in positions]
        if isinstance(made, Ratio):
            made.add_array(chosen, [values[i - 1] for i in positions])
        elif isinstance(made, Rate):
            made.add_array([value > 0 for value in chosen])
        elif len(chosen) % 2:
            made.add_array(np.array(chosen))
        else:
            for value in chosen:
                made.add(value)
        return made

    return part


MAKERS: list[Callable[[], Any]] = [
    Moments,
    lambda: Moments(order=2),
    Quantiles,
    Summary,
    Ratio,
    Rate,
    lambda: Histogram([-1e3, -1.0, 0.0, 1e-300, 0.5, 1e300]),
]


def _merged(values: list[float], make: Callable[[], Any], chance: random.Random) -> bytes:
    """The bytes of the data, shuffled, cut at random, and merged pair by pair in random order."""
    part = _rows(values, make)
    positions = list(range(len(values)))
    chance.shuffle(positions)
    cuts = sorted(chance.choices(range(len(values) + 1), k=chance.randrange(0, 6)))
    ends = zip([0, *cuts], [*cuts, len(values)], strict=True)
    parts = [part(positions[start:stop]) for start, stop in ends]
    while len(parts) > 1:
        chance.shuffle(parts)
        last = parts.pop()
        if chance.random() < 0.5:
            parts[0].merge(last)
        else:
            parts[0] = last + parts[0]
    return parts[0].to_bytes()


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
@given(values=st.lists(DOUBLES, max_size=40), chance=st.randoms(use_true_random=False))
def test_any_partition_and_merge_order_gives_identical_bytes(
    make: Callable[[], Any], values: list[float], chance: random.Random
) -> None:
    whole = _rows(values, make)(list(range(len(values)))).to_bytes()
    assert _merged(values, make, chance) == whole


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("kind", ["doubles", "integers", "wide"])
def test_many_values_in_any_partition_give_identical_bytes(
    make: Callable[[], Any], kind: str
) -> None:
    rng = np.random.default_rng(3)
    values = {
        "doubles": rng.normal(size=20_000),
        "integers": rng.integers(-50, 5000, 20_000).astype(float),
        "wide": rng.normal(size=20_000) * 10.0 ** rng.integers(-12, 12, 20_000),
    }[kind].tolist()
    first = _merged(values, make, random.Random(4))
    assert _merged(values, make, random.Random(5)) == first


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
def test_what_was_written_as_plain_data_reads_back_the_same(make: Callable[[], Any]) -> None:
    values = np.random.default_rng(6).normal(size=6001).tolist()
    made = _rows(values, make)(list(range(len(values))))
    again = type(made).from_data(made.to_data())
    assert again.to_bytes() == made.to_bytes()
    again.merge(made)
    assert again.to_bytes() == (made + made).to_bytes()
    assert type(made).from_data(make().to_data()).to_bytes() == make().to_bytes()


def test_a_sum_beyond_the_doubles_is_infinite_but_comes_back() -> None:
    total = ExactSum()
    total.add_array([1.7e308, 1.7e308])
    assert total.value == math.inf
    total.add(-1.7e308)
    assert total.value == 1.7e308


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None])
def test_what_is_no_finite_number_is_refused_by_a_bare_sum(value: Any) -> None:
    with pytest.raises(UsageError):
        ExactSum().add(value)


def test_text_is_refused_with_an_error_of_ours() -> None:
    with pytest.raises(UsageError, match="not numbers"):
        Moments(["a", "b"])
    with pytest.raises(UsageError, match="text"):
        Moments().add("3")  # type: ignore[arg-type]

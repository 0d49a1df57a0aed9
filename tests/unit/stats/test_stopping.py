from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import UsageError
from runyard.stats.intervals import t_interval
from runyard.stats.moments import Moments
from runyard.stats.stopping import ConfidenceSequence, RateSequence

Array = np.ndarray[Any, np.dtype[np.float64]]
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]

DATA: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.0),
    "uniform": (lambda rng, shape: rng.random(shape), 0.5),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "log-normal": (lambda rng, shape: rng.lognormal(size=shape), math.exp(0.5)),
    "rare": (lambda rng, shape: (rng.random(shape) < 0.05).astype(float), 0.05),
    "even": (lambda rng, shape: (rng.random(shape) < 0.5).astype(float), 0.5),
}


def looks_that_cover(
    sequence: ConfidenceSequence, draw: Draw, truth: float, sequences: int, values: int
) -> float:
    """The share of sequences whose interval holds the truth at every single look."""
    rng = np.random.default_rng(20)
    n = np.arange(1, values + 1)
    held = 0
    for start in range(0, sequences, 50):
        data = draw(rng, (min(50, sequences - start), values)) - truth
        means = np.cumsum(data, axis=1) / n
        squares = np.cumsum(data**2, axis=1) / n - means**2
        cubes = np.cumsum(data**3, axis=1) / n - 3 * means * squares - means**3
        varied = squares > 1e-12
        squares = np.where(varied, squares, 1.0)
        sd = np.sqrt(squares * n / np.maximum(n - 1, 1))
        half = sequence.half_widths(n, sd, cubes / squares**1.5)
        constant = np.where(n >= sequence.intended, 0.0, np.inf)
        held += int((np.abs(means) <= np.where(varied, half, constant)).all(axis=1).sum())
    return held / sequences


@pytest.mark.parametrize("kind", ["normal", "uniform", "exponential", "rare", "even"])
def test_the_sequence_covers_at_every_look_of_a_short_simulation(kind: str) -> None:
    draw, truth = DATA[kind]
    assert looks_that_cover(ConfidenceSequence(), draw, truth, 300, 2000) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("intended", [300, 1000])
@pytest.mark.parametrize("kind", DATA)
def test_the_sequence_covers_at_every_look(kind: str, intended: int) -> None:
    draw, truth = DATA[kind]
    assert looks_that_cover(ConfidenceSequence(intended), draw, truth, 2000, 5000) >= 0.95


def test_an_ordinary_interval_does_not_survive_looking() -> None:
    """What the sequence is for: the same looks at a t interval miss in a good part of the runs."""
    rng = np.random.default_rng(1)
    n = np.arange(1, 2001)
    data = rng.standard_normal((300, 2000))
    means = np.cumsum(data, axis=1) / n
    missed = (np.abs(means) > 1.96 / np.sqrt(n))[:, 49:].any(axis=1)
    assert missed.mean() > 0.25


def covered_rates(rate: float, sequences: int, tries: int) -> float:
    """The share of sequences in which the true rate is never refuted, looking at every try."""
    rng = np.random.default_rng(2)
    limit = -math.log(0.05)
    sequence = RateSequence()
    known: dict[tuple[int, int], bool] = {}
    held = 0
    for _ in range(sequences):
        for n, s in enumerate(np.cumsum(rng.random(tries) < rate).tolist(), start=1):
            if (s, n) not in known:
                known[s, n] = sequence.evidence(rate, s, n) < limit
            if not known[s, n]:
                break
        else:
            held += 1
    return held / sequences


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_rate_sequence_covers_at_every_look_of_a_short_simulation(rate: float) -> None:
    assert covered_rates(rate, 300, 1000) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_rate_sequence_covers_at_every_look(rate: float) -> None:
    assert covered_rates(rate, 2000, 4000) >= 0.95


@given(st.integers(1, 3000), st.floats(0, 1), st.floats(0.001, 0.999), st.sampled_from([0.9, 0.99]))
def test_a_rate_lies_in_the_interval_unless_it_is_refuted(
    total: int, share: float, rate: float, level: float
) -> None:
    sequence, successes = RateSequence(), round(share * total)
    interval = sequence.interval(successes, total, level)
    refuted = sequence.evidence(rate, successes, total, level) >= -math.log(1 - level)
    close = min(abs(rate - interval.low), abs(rate - interval.high)) < 1e-9
    assert interval.contains(rate) != refuted or close
    assert interval.contains(successes / total)


def test_the_boundary_of_the_paper_is_met_without_skew() -> None:
    """The formula of the asymptotic confidence sequence, worked once by hand for n = 1000."""
    squared_rho = (-2 * math.log(0.05) + math.log(-2 * math.log(0.05)) + 1) / 1000
    tuned = 1000 * squared_rho
    by_hand = math.sqrt(2 * (tuned + 1) / (1000 * tuned) * math.log(math.sqrt(tuned + 1) / 0.05))
    assert ConfidenceSequence().half_widths(1000, 1.0, 0.0) == pytest.approx(by_hand)


@pytest.mark.parametrize("count", [50, 400, 5000])
def test_moments_and_arrays_give_the_same_width(count: int) -> None:
    data = np.random.default_rng(3).gamma(9, size=count)
    moments = Moments(data)
    sequence = ConfidenceSequence(intended=500)
    interval = sequence.interval(moments)
    widths = sequence.half_widths([count], [np.std(data, ddof=1)], [moments.skew])
    assert interval.half == pytest.approx(widths[0])
    assert interval.contains(float(data.mean()))
    assert 1.3 < interval.half / t_interval(moments).half < 3


def test_there_is_no_interval_before_there_is_enough() -> None:
    sequence = ConfidenceSequence(minimum=50)
    rng = np.random.default_rng(4)
    assert sequence.half_width(Moments()) == math.inf
    assert sequence.half_width(Moments(rng.normal(size=49))) == math.inf
    assert sequence.half_width(Moments(rng.normal(size=50))) < math.inf
    few = sequence.interval(Moments([1.0]))
    assert (few.low, few.high) == (-math.inf, math.inf)


def test_skewed_values_are_waited_for_longer() -> None:
    rare = np.zeros(400)
    rare[:4] = 1
    assert ConfidenceSequence().half_width(Moments(rare)) == math.inf
    assert ConfidenceSequence().half_width(Moments(np.tile(rare, 20))) < math.inf


def test_values_that_are_all_equal_close_the_interval_only_at_the_intended_number() -> None:
    sequence = ConfidenceSequence(intended=1000)
    assert sequence.half_width(Moments(np.full(999, 3.5))) == math.inf
    assert sequence.half_width(Moments(np.full(1000, 3.5))) == 0
    assert sequence.expected_needed(Moments(np.full(200, 3.5)), 0.1) == 800


@pytest.mark.parametrize("target", [0.3, 0.1, 0.03])
def test_the_forecast_is_about_what_it_takes(target: float) -> None:
    rng = np.random.default_rng(5)
    sequence = ConfidenceSequence()
    moments = Moments(rng.normal(7, 1, 200))
    more = sequence.expected_needed(moments, target)
    assert (more == 0) == (sequence.half_width(moments) <= target)
    while sequence.half_width(moments) > target:
        moments.add_array(rng.normal(7, 1, 50))
    assert moments.count - 200 == pytest.approx(more, rel=0.25, abs=60)


@pytest.mark.parametrize(("successes", "total"), [(0, 0), (0, 30), (20, 40), (3, 200)])
def test_the_forecast_for_a_rate_is_where_the_interval_is_narrow_enough(
    successes: int, total: int
) -> None:
    sequence = RateSequence()
    more = sequence.expected_needed(successes, total, 0.02)
    rate = (successes + 0.5) / (total + 1)
    n = total + more
    assert sequence.half_width(round(rate * n), n) <= 0.02
    assert sequence.half_width(round(rate * 0.9 * n), round(0.9 * n)) > 0.02


def test_a_rate_needs_no_minimum_and_ends_at_zero_and_one() -> None:
    sequence = RateSequence()
    nothing = sequence.interval(0, 0)
    assert (nothing.low, nothing.high) == (0, 1)
    never, always = sequence.interval(0, 500), sequence.interval(500, 500)
    assert never.low == 0
    assert 0 < never.high < 0.05
    assert (always.low, always.high) == pytest.approx((1 - never.high, 1))


def test_widths_shrink_with_more_values_and_grow_with_the_level() -> None:
    sequence = ConfidenceSequence()
    n = np.unique(np.logspace(2, 9, 200).astype(int))
    widths = sequence.half_widths(n, 1.0, 0.5)
    assert (np.diff(widths) < 0).all()
    assert (sequence.half_widths(n, 1.0, 0.5, level=0.99) > widths).all()
    assert (sequence.half_widths(n, 1.0, 0.5, level=0.2) > 0).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: ConfidenceSequence(intended=0), lambda: ConfidenceSequence(minimum=1),
        lambda: RateSequence(0), lambda: RateSequence().interval(5, 4),
        lambda: RateSequence().interval(1, 4, level=95),
        lambda: ConfidenceSequence().half_width(Moments([1, 2]), level=1),
        lambda: ConfidenceSequence().expected_needed(Moments([1, 2]), 0),
        lambda: RateSequence().expected_needed(1, 2, math.nan),
        lambda: ConfidenceSequence().half_width(Moments(np.arange(99), order=2)),
    ],
)  # fmt: skip
def test_questions_without_an_answer_are_refused_with_a_hint(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.hint

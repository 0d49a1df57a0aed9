from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import TTestIndPower, TTestPower

from runyard.errors import UsageError
from runyard.stats.compare import minimum_detectable_effect, needed, paired


def test_cohens_table_of_group_sizes() -> None:
    """Cohen (1988, 1992): two groups, two-sided 5 %, power 80 %: small, medium, large effects."""
    assert [needed(1, d, paired=False) for d in (0.2, 0.5, 0.8)] == [394, 64, 26]


@pytest.mark.parametrize("n", [5, 10, 64, 1000, 100_000])
@pytest.mark.parametrize("power", [0.3, 0.8, 0.95])
def test_detectable_effects_agree_with_statsmodels(n: int, power: float) -> None:
    alone = TTestPower().power(minimum_detectable_effect(2, n, power) / 2, n, 0.05)
    assert alone == pytest.approx(power, abs=1e-6)
    size = minimum_detectable_effect(3, (n, 2 * n), power, 0.99, paired=False) / 3
    assert TTestIndPower().power(size, n, 0.01, ratio=2) == pytest.approx(power, abs=1e-6)


@given(st.floats(0.1, 3), st.sampled_from([0.5, 0.8, 0.9]), st.booleans())
def test_needed_is_the_smallest_number_that_is_enough(
    effect: float, power: float, pairs: bool
) -> None:
    n = needed(1, effect, power, paired=pairs)
    assert minimum_detectable_effect(1, n, power, paired=pairs) <= effect * (1 + 1e-9)
    if n > 2:
        assert minimum_detectable_effect(1, n - 1, power, paired=pairs) > effect


def test_the_detectable_effect_is_found_as_often_as_promised() -> None:
    rng = np.random.default_rng(6)
    n = 25
    effect = minimum_detectable_effect(2.0, n)
    found = [paired(rng.normal(effect, 2, n), np.zeros(n)).p < 0.05 for _ in range(600)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)


def test_without_spread_two_replicates_find_anything() -> None:
    assert needed(0, 0.1) == 2
    assert minimum_detectable_effect(0, 5) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: needed(1, 0), lambda: needed(1, math.nan), lambda: needed(1, 1e-9),
        lambda: needed(-1, 1), lambda: needed(math.inf, 1), lambda: needed(1, 1, power=1),
        lambda: needed(1, 1, power=0.01), lambda: needed(1, 1, level=95),
        lambda: minimum_detectable_effect(1, 1), lambda: minimum_detectable_effect(1, (5, 5)),
    ],
)  # fmt: skip
def test_questions_without_an_answer_are_refused_with_a_hint(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.hint

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestIndPower, TTestPower

from runyard.stats.compare import compare
from runyard.stats.compare_tests import noncentrality


@pytest.mark.parametrize("n", [5, 10, 64, 1000, 100_000])
@pytest.mark.parametrize("power", [0.3, 0.8, 0.95])
def test_detectable_effects_agree_with_statsmodels(n: int, power: float) -> None:
    size = noncentrality(n - 1, power, 0.95) / math.sqrt(n)
    assert TTestPower().power(size, n, 0.05) == pytest.approx(power, abs=1e-6)
    size = noncentrality(3 * n - 2, power, 0.99) * math.sqrt(1 / n + 1 / (2 * n))
    assert TTestIndPower().power(size, n, 0.01, ratio=2) == pytest.approx(power, abs=1e-6)


def test_cohens_table_of_group_sizes() -> None:
    """Cohen (1988, 1992): two groups, two-sided 5%, power 80%: small, medium, large effects."""
    for n, effect in ((394, 0.2), (64, 0.5), (26, 0.8)):
        assert noncentrality(2 * n - 2, 0.8, 0.95) * math.sqrt(2 / n) <= effect
        assert noncentrality(2 * n - 4, 0.8, 0.95) * math.sqrt(2 / (n - 1)) > effect


def test_the_detectable_effect_is_found_as_often_as_promised() -> None:
    rng = np.random.default_rng(6)
    n = 25
    effect = 2.0 * noncentrality(n - 1, 0.8, 0.95) / math.sqrt(n)
    samples = (rng.normal(effect, 2, n) for _ in range(600))
    found = [compare(sample, np.zeros(n), paired=True).p < 0.05 for sample in samples]
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)

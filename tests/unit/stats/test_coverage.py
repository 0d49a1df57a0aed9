"""Coverage by simulation: an interval at 95% holds the truth in at least 94.5% of batches.

2,000 simulated batches leave a coverage of exactly 95% within about one point, so the seeds are
fixed, and a bound of 94.5% means that the interval is at or above its level, not far below it.
The settings are those that each interval is meant for, and stand beside each test.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from runyard.stats import Interval, Moments, newcombe, t_interval, wilson

BATCHES = 2000
LEAST = 0.945

Draw = Callable[[np.random.Generator], Interval]


def covered(draw: Draw, truth: float, batches: int = BATCHES, seed: int = 11) -> float:
    rng = np.random.default_rng(seed)
    return sum(draw(rng).contains(truth) for _ in range(batches)) / batches


def test_students_interval_covers_for_twenty_normal_values() -> None:
    assert covered(lambda rng: t_interval(Moments(rng.normal(3, 2, 20), order=2)), 3.0) >= LEAST


def test_students_interval_covers_for_two_hundred_values_of_moderate_skew() -> None:
    """A gamma with shape 4; an exponential, twice as skewed, needs many times as many."""
    draws = covered(lambda rng: t_interval(Moments(rng.gamma(4, size=200), order=2)), 4.0)
    assert draws >= LEAST


def test_wilsons_interval_covers_on_average_over_rates() -> None:
    """Counts jump, so at any one rate the coverage swings around its level; on average it holds."""
    rng = np.random.default_rng(12)
    for total in (20, 50, 200):
        rates = rng.uniform(0.02, 0.98, BATCHES)
        held = [
            wilson(int(rng.binomial(total, rate)), total).contains(rate) for rate in rates.tolist()
        ]
        assert np.mean(held) >= LEAST


@pytest.mark.parametrize(("rate", "total"), [(0.2, 50), (0.5, 100), (0.05, 200)])
def test_wilsons_interval_covers_exactly_computed_near_its_level_at_single_rates(
    rate: float, total: int
) -> None:
    """No simulation: every count with its binomial probability. The least is 93.5% here."""
    from scipy.stats import binom

    held = [wilson(count, total).contains(rate) for count in range(total + 1)]
    assert binom.pmf(np.arange(total + 1), total, rate) @ held >= 0.935


def test_newcombes_interval_covers_on_average_over_pairs_of_rates() -> None:
    rng = np.random.default_rng(13)
    held = []
    for p1, p2 in rng.uniform(0.05, 0.95, (BATCHES, 2)).tolist():
        s1, s2 = int(rng.binomial(60, p1)), int(rng.binomial(80, p2))
        held.append(newcombe(s1, 60, s2, 80).contains(p1 - p2))
    assert np.mean(held) >= LEAST

"""By simulation: each interval of a comparison covers as promised, and pairs save replicates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from runyard.stats.compare import compare
from runyard.stats.compare_bootstrap import bootstrap_interval
from runyard.stats.compare_rates import newcombe_paired, unpaired_rates
from runyard.stats.compare_result import Comparison
from runyard.stats.intervals import Interval

Array = np.ndarray[Any, np.dtype[np.float64]]
Batch = Callable[[np.random.Generator], tuple[Interval, float]]


def paired(a: ArrayLike, b: ArrayLike, **options: Any) -> Comparison:
    return compare(a, b, paired=True, interval="t", **options)


def unpaired(a: ArrayLike, b: ArrayLike, **options: Any) -> Comparison:
    return compare(a, b, paired=False, interval="t", **options)


def normal_pairs(rng: np.random.Generator) -> tuple[Interval, float]:
    """Twelve pairs with normal differences."""
    a = rng.normal(3, 2, 12)
    return paired(a, a - rng.normal(0.5, 1, 12)).interval, 0.5


def unlike_groups(rng: np.random.Generator) -> tuple[Interval, float]:
    """Normal values of unlike spread, in groups of unlike size."""
    return unpaired(rng.normal(1, 3, 12), rng.normal(0, 1, 30)).interval, 1.0


def independent_rates(rng: np.random.Generator) -> tuple[Interval, float]:
    """Rates anywhere from 5% to 95%."""
    p, q = rng.uniform(0.05, 0.95, 2)
    s, t = int(rng.binomial(80, p)), int(rng.binomial(60, q))
    return unpaired_rates(s, 80, t, 60).interval, p - q


def correlated_rates(rng: np.random.Generator) -> tuple[Interval, float]:
    """Rates from 10% to 90%, where pairs agree more often than by chance."""
    p, q = rng.uniform(0.1, 0.9, 2)
    agreed = p * q + rng.uniform(0.2, 0.8) * (min(p, q) - p * q)
    cells = rng.multinomial(60, [agreed, p - agreed, q - agreed, 1 - p - q + agreed])
    return newcombe_paired(*map(int, cells)), p - q


def skewed_pairs(rng: np.random.Generator) -> tuple[Interval, float]:
    """Forty pairs of exponential values, by bootstrap."""
    a, b = rng.exponential(2, 40), rng.exponential(1, 40)
    seed, plain = int(rng.integers(2**32)), paired(a, b).interval
    return bootstrap_interval([a - b], plain, resamples=599, seed=seed), 1.0


def skewed_groups(rng: np.random.Generator) -> tuple[Interval, float]:
    """Forty exponential values a side, by bootstrap."""
    a, b = rng.exponential(2, 40), rng.exponential(1, 40)
    seed, plain = int(rng.integers(2**32)), unpaired(a, b).interval
    return bootstrap_interval([a, b], plain, resamples=599, seed=seed), 1.0


SETTINGS = [
    normal_pairs, unlike_groups, independent_rates, correlated_rates, skewed_pairs, skewed_groups,
]  # fmt: skip


def coverage(batch: Batch, batches: int) -> float:
    """The share of simulated batches whose interval holds the truth."""
    rng = np.random.default_rng(2024)
    found = (batch(rng) for _ in range(batches))
    return sum(interval.contains(truth) for interval, truth in found) / batches


@pytest.mark.parametrize("batch", SETTINGS)
def test_no_interval_covers_less_than_chance_explains(batch: Batch) -> None:
    """An exact interval covers in 95% of all batches, so of 500 in 92% at the least."""
    assert coverage(batch, 500) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 500)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", SETTINGS)
def test_every_interval_covers_as_promised(batch: Batch) -> None:
    """So many batches that 94.5% is a bound on the interval and not on its luck: of 2,000, one run
    in seven of an exact interval stays below; of 20,000, one in a thousand."""
    assert coverage(batch, 20_000) >= 0.945


def waiting_time(gaps: Array, services: Array) -> Array:
    """The mean wait of each row's customers at one server (Lindley's recursion)."""
    wait = np.zeros(len(gaps))
    total = np.zeros(len(gaps))
    for i in range(1, gaps.shape[1]):
        wait = np.maximum(0, wait + services[:, i - 1] - gaps[:, i])
        total += wait
    return total / gaps.shape[1]


def test_common_random_numbers_need_several_times_fewer_replicates() -> None:
    """An M/M/1 queue with its server and with one 5% faster, 300 customers a replicate."""
    rng = np.random.default_rng(7)
    gaps, services = rng.exponential(1, (400, 300)), rng.exponential(0.8, (400, 300))
    others = rng.exponential(1, (400, 300)), rng.exponential(0.8, (400, 300))
    slow, fast = waiting_time(gaps, services), waiting_time(gaps, services * 0.95)
    alone = waiting_time(others[0], others[1] * 0.95)
    together, apart = paired(slow, fast), unpaired(slow, alone)
    assert together.sd is not None
    assert together.effect == pytest.approx(apart.effect, rel=0.5)
    # Half the detectable effect takes a quarter of the replicates.
    assert together.detectable < apart.detectable / math.sqrt(5)

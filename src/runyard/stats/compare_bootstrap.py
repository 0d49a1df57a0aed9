"""The bootstrap-t interval of a mean difference, for skewed data.

scipy.stats.bootstrap has no studentized interval, and importing it takes longer than a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from runyard.errors import UsageError
from runyard.stats.intervals import Floats, Interval

_CELLS = 1 << 20  # most resampled values in memory


def bootstrap_interval(
    groups: Sequence[Floats], plain: Interval, resamples: int = 9999, seed: int = 0
) -> Interval:
    """The interval of the mean of one group (paired differences), or of mean(a) - mean(b) of two.

    Each resample's effect is divided by its own standard error, Welch's for two groups. Values are
    sorted first, so their order does not matter. Differences with two long tails are covered too
    rarely, so each end reaches at least as far as that of `plain`, the t interval.
    """
    if resamples < 1:
        raise UsageError(f"can't bootstrap with {resamples} resamples", hint="use 999 or more")
    ordered = [np.sort(group) for group in groups]
    effect, error = _effect_and_error([group[None, :] for group in ordered])
    steps = []
    for drawn in _resampled(ordered, resamples, seed):
        effects, errors = _effect_and_error(drawn)
        varied = errors > 0  # a resample of equal values has no scale to measure by
        steps.append((effects[varied] - effect[0]) / errors[varied])
    reached = np.concatenate(steps)
    if len(reached) == 0:
        return plain
    tails = [(1 + plain.level) / 2, (1 - plain.level) / 2]
    low, high = effect[0] - np.quantile(reached, tails, method="weibull") * error[0]
    low, high = min(float(low), plain.low), max(float(high), plain.high)
    return Interval(low, high, plain.level, "bootstrap studentized")


def _effect_and_error(groups: Sequence[Floats]) -> tuple[Floats, Floats]:
    """The effect and its standard error for each resample, which is a row of every group."""
    means = [rows.mean(axis=1) for rows in groups]
    squares = [rows.var(axis=1, ddof=1) / rows.shape[1] for rows in groups]
    effect = means[0] if len(means) == 1 else means[0] - means[1]
    return effect, np.sqrt(np.sum(squares, axis=0))


def _resampled(groups: Sequence[Floats], resamples: int, seed: int) -> Iterator[list[Floats]]:
    """Each group drawn with replacement, as rows, a bounded number of values at a time."""
    rng = np.random.default_rng(seed)
    rows = max(1, _CELLS // max(map(len, groups)))
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        yield [
            group[rng.integers(0, len(group), (count, len(group)), dtype=np.int32)]
            for group in groups
        ]

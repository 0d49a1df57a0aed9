"""Compare two variants: effect, interval, significance and detectable effect.

    numbers  ──▶ Moments ──▶ paired_moments / unpaired_moments ──┐
    booleans ──▶ counts ───▶ paired_rates   / unpaired_rates   ──┴─▶ Comparison ──▶ words

`compare` picks what fits the data. Prefer pairs where they exist (common random numbers): the luck
that both sides share cancels out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.stats.compare_bootstrap import bootstrap_interval
from runyard.stats.compare_rates import paired_rates, unpaired_rates
from runyard.stats.compare_result import About, Comparison
from runyard.stats.compare_tests import POWER, noncentrality, rank_sum_p, signed_rank_p, t_p
from runyard.stats.intervals import Floats, Interval, check_level, t_quantile
from runyard.stats.moments import Moments

IntervalKind = Literal["auto", "t", "score", "bootstrap"]
"""The interval of a difference; `auto` is `score` for rates and `t` for everything else."""

STREAMED = 1 << 20
"""From this many values on, comparisons use moments alone: rank tests would sort all values."""

_NOISE = 1e-13  # a spread below this share of the values is rounding, not data
_LARGEST = 1e150  # the square of anything larger overflows


def compare(
    a: ArrayLike,
    b: ArrayLike,
    *,
    paired: bool,
    level: float = 0.95,
    about: About | None = None,
    interval: IntervalKind = "auto",
) -> Comparison:
    """Compare two arrays: rates if both are boolean, otherwise means.

    `interval="score"` compares the numbers 0 and 1 as rates, "t" compares booleans as numbers, and
    "bootstrap" gives a studentized bootstrap interval.
    """
    if interval not in get_args(IntervalKind):
        raise UsageError(
            f"unknown interval {interval!r}",
            hint=f"use one of: {', '.join(get_args(IntervalKind))}",
        )
    first, second = _values(a), _values(b)
    if paired and len(first) != len(second):
        raise UsageError(
            f"{len(first)} values can't be paired with {len(second)}",
            hint="keep only the pairs that have both, or compare unpaired",
        )
    _check_count(min(len(first), len(second)), "pairs" if paired else "values in each group")
    if interval == "auto" and all(np.asarray(side).dtype.kind == "b" for side in (a, b)):
        interval = "score"
    if interval == "score":
        return _rates(first, second, paired, level, about)
    found = _means(first, second, paired, level, about)
    if interval == "bootstrap" and found.interval.half > 0:
        groups = [first - second] if paired else [first, second]
        return replace(found, interval=bootstrap_interval(groups, found.interval))
    return found


def paired_moments(
    differences: Moments, a: Moments, b: Moments, level: float = 0.95, about: About | None = None
) -> Comparison:
    """Compare pairs by the moments of a - b, a and b over the same pairs: Student's t.

    If the differences don't vary, p is that of the sign test.
    """
    check_level(level)
    _check_size(a, b)
    if not differences.count == a.count == b.count:
        raise UsageError(
            f"pairs don't match: {a.count} values, {b.count} values, "
            f"{differences.count} differences",
            hint="take all three over the same pairs",
        )
    pairs, effect, sd = differences.count, differences.mean, differences.sd
    _check_count(pairs, "pairs")
    if sd <= _NOISE * max(abs(a.mean), abs(b.mean), abs(effect)):
        effect, sd = (0.0 if abs(effect) <= _NOISE * abs(a.mean) else effect), 0.0
    return _by_t(
        (effect, sd / math.sqrt(pairs), pairs - 1), level, ("paired t", "paired t test"),
        unvaried=(math.ldexp(1.0, 1 - pairs), "sign test"), about=about, paired=True, n=pairs,
        mean_a=a.mean, mean_b=b.mean, sd=sd, correlation=_correlation(a.sd, b.sd, sd),
    )  # fmt: skip


def unpaired_moments(
    a: Moments, b: Moments, level: float = 0.95, about: About | None = None
) -> Comparison:
    """Compare two independent groups from their moments: Welch's t interval and test.

    If neither group varies, p is that of the permutation test.
    """
    check_level(level)
    _check_size(a, b)
    _check_count(min(a.count, b.count), "values in each group")
    effect, error = a.mean - b.mean, math.hypot(a.sem, b.sem)
    freedom: float = a.count + b.count - 2
    if error <= _NOISE * max(abs(a.mean), abs(b.mean)):
        error = 0.0
    else:
        share = (a.sem / error) ** 2
        freedom = 1 / (share**2 / (a.count - 1) + (1 - share) ** 2 / (b.count - 1))
    return _by_t(
        (effect, error, freedom), level, ("Welch t", "Welch's t test"),
        unvaried=(_split_p(a.count, b.count), "permutation test"), about=about, paired=False,
        n=(a.count, b.count), mean_a=a.mean, mean_b=b.mean,
    )  # fmt: skip


def _by_t(
    found: tuple[float, float, float],
    level: float,
    names: tuple[str, str],
    unvaried: tuple[float, str],
    about: About | None,
    **figures: Any,
) -> Comparison:
    """Compare by Student's t, from the effect, its standard error and the degrees of freedom.

    `names` are those of the interval and the test; where there is no error, p and the test are
    `unvaried`.
    """
    effect, error, freedom = found
    half = t_quantile(level, freedom) * error if error else 0.0
    p, method = (t_p(effect / error, freedom), names[1]) if error else unvaried
    return Comparison(
        about=about or About(),
        effect=effect,
        interval=Interval.around(effect, half, level, names[0]),
        p=p if error or effect else 1.0,
        method=method,
        detectable=error * noncentrality(freedom, POWER, level),
        **figures,
    )


def _means(a: Floats, b: Floats, paired: bool, level: float, about: About | None) -> Comparison:
    """Compare means, with the p value of a rank test beside where there are not too many values."""
    ranked = max(len(a), len(b)) < STREAMED
    if not paired:
        found = unpaired_moments(_moments(a), _moments(b), level, about)
        other = {"Mann-Whitney test": rank_sum_p(a, b)} if ranked else {}
    else:
        found = paired_moments(_moments(a, b), _moments(a), _moments(b), level, about)
        other = {"Wilcoxon signed-rank test": signed_rank_p(a - b)} if ranked else {}
    if found.interval.half == 0:  # nothing varies, so there is nothing to rank
        other = dict.fromkeys(other, found.p)
    return replace(found, other_p=other)


def _rates(a: Floats, b: Floats, paired: bool, level: float, about: About | None) -> Comparison:
    for values in (a, b):
        odd = values[(values != 0) & (values != 1)]
        if len(odd):
            raise UsageError(
                f"a score interval needs values of 0 and 1, but {odd[0]:g} is among them",
                hint="compare means, with the interval t",
            )
    hits_a, hits_b = int(a.sum()), int(b.sum())
    if not paired:
        return unpaired_rates(hits_a, len(a), hits_b, len(b), level, about)
    both = int(a @ b)
    return paired_rates(
        both, hits_a - both, hits_b - both, len(a) - hits_a - hits_b + both, level, about
    )


def _moments(a: Floats, minus: Floats | None = None) -> Moments:
    """The moments of a, or of a - minus, with at most `STREAMED` differences in memory."""
    found = Moments(order=2)
    for low in range(0, len(a), STREAMED):
        part = slice(low, low + STREAMED)
        found.add_array(a[part] if minus is None else a[part] - minus[part])
    return found


def _values(values: ArrayLike) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"these values are not numbers: {error}", hint="compare a numeric metric"
        ) from error
    if found.ndim != 1:
        raise UsageError(
            f"can't compare an array of shape {found.shape}", hint="flatten it to one dimension"
        )
    bad = int(np.count_nonzero(~np.isfinite(found)))
    if bad:
        raise UsageError(
            f"{bad} of {len(found)} values are NaN or infinite and can't be compared",
            hint="leave them out (and their partners), or let those tasks fail",
        )
    return found


def _check_count(count: int, what: str) -> None:
    if count < 2:
        raise UsageError(
            f"a comparison needs two or more {what}, but there are {count}",
            hint="add replicates",
        )


def _check_size(*groups: Moments) -> None:
    if any(max(-group.minimum, group.maximum) > _LARGEST for group in groups):
        raise UsageError(
            f"values beyond {_LARGEST:g} can't be compared", hint="measure in a larger unit"
        )


def _correlation(sd_a: float, sd_b: float, sd_difference: float) -> float | None:
    """The correlation of a and b, from three standard deviations; None if a or b is constant."""
    if sd_a == 0 or sd_b == 0:
        return None
    found = (sd_a / sd_b + sd_b / sd_a - (sd_difference / sd_a) * (sd_difference / sd_b)) / 2
    return max(-1.0, min(1.0, found))


def _split_p(first: int, second: int) -> float:
    """The permutation p value of two constant groups: two of all splits separate them fully."""
    logs = math.lgamma(first + second + 1) - math.lgamma(first + 1) - math.lgamma(second + 1)
    return min(1.0, 2 * math.exp(-logs))

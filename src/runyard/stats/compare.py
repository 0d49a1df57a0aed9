"""Two variants compared: how large the difference is, how sure that is, what could have been found.

    values ──▶ Moments ──▶ paired_moments / unpaired_moments ──┐
    booleans ▶ counts ───▶ paired_rates   / unpaired_rates   ──┴─▶ Comparison ──▶ words

Means take moments and rates take counts, so data that do not fit in memory are compared as a
stream; arrays give the rank tests and the bootstrap on top. `compare` picks what fits the data.
Paired is better wherever pairs exist (common random numbers): what both share cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.stats.compare_many import Correction, adjusted, benjamini_hochberg, holm, matches
from runyard.stats.compare_power import POWER, minimum_detectable_effect, needed, noncentrality
from runyard.stats.compare_rates import newcombe_paired, paired_rates, unpaired_rates
from runyard.stats.compare_result import About, Better, Comparison
from runyard.stats.compare_tests import rank_sum_p, signed_rank_p, t_p
from runyard.stats.intervals import Floats, Interval, bootstrap, check_level, t_quantile
from runyard.stats.moments import Moments

__all__ = [
    "About", "Better", "Comparison", "adjusted", "benjamini_hochberg", "bootstrap_difference",
    "compare", "compare_all", "holm", "minimum_detectable_effect", "needed", "newcombe_paired",
    "paired", "paired_moments", "paired_rates", "unpaired", "unpaired_moments", "unpaired_rates",
]  # fmt: skip

Kind = Literal["auto", "t", "score", "bootstrap"]
"""The interval of a difference; `auto` is `score` for rates and `t` for everything else."""

_CELLS = 1 << 20  # resampled values held at a time
_NOISE = 1e-13  # a spread below this share of the values is rounding, not data
_LARGEST = 1e150  # the square of anything larger is out of a float's reach


def compare(
    a: ArrayLike,
    b: ArrayLike,
    *,
    paired: bool,
    level: float = 0.95,
    about: About | None = None,
    interval: Kind = "auto",
) -> Comparison:
    """Compare two arrays by what they hold: rates if both are boolean, otherwise means.

    `interval="score"` compares the numbers 0 and 1 as rates too, and "t" takes booleans for
    numbers; "bootstrap" gives the studentized interval.
    """
    if interval not in get_args(Kind):
        raise UsageError(
            f"there is no interval {interval!r}", hint=f"use {', '.join(get_args(Kind))}"
        )
    first, second = _values(a), _values(b)
    if interval == "auto" and all(np.asarray(side).dtype.kind == "b" for side in (a, b)):
        interval = "score"
    if interval == "score":
        return _rates(first, second, paired, level, about)
    found = (_paired if paired else _unpaired)(first, second, level, about)
    if interval == "bootstrap" and found.interval.half > 0:
        return replace(found, interval=bootstrap_difference(first, second, paired, level))
    return found


def compare_all(
    groups: Mapping[str, ArrayLike | Moments],
    *,
    paired: bool,
    baseline: str | None = None,
    correction: Correction | None = "holm",
    level: float = 0.95,
    metric: str = "",
    better: Better = "higher",
    interval: Kind = "auto",
) -> list[Comparison]:
    """Compare every pair of groups, or each with a baseline, and adjust the p values for that.

    Paired, value i of every group belongs together. Unpaired groups may be moments.
    """
    if len(groups) < 2:
        raise UsageError(
            f"a comparison needs two groups or more, and there are {len(groups)}",
            hint="compare by a parameter with several values",
        )
    if baseline is not None and baseline not in groups:
        raise UsageError(
            f"there is no group {baseline!r} to compare with",
            hint=f"groups: {', '.join(map(str, groups))}",
        )
    found = []
    for one, other in matches(groups, baseline):
        a, b, about = groups[one], groups[other], About(one, other, metric, better)
        if isinstance(a, Moments) and isinstance(b, Moments):
            if paired or interval in ("bootstrap", "score"):
                raise UsageError(
                    "moments of groups hold neither pairs nor single values",
                    hint="use paired_moments with the moments of the differences, or arrays",
                )
            found.append(unpaired_moments(a, b, level, about))
        elif isinstance(a, Moments) or isinstance(b, Moments):
            raise UsageError(
                f"{one!r} and {other!r} are not alike", hint="give arrays, or moments, for all"
            )
        else:
            found.append(compare(a, b, paired=paired, level=level, about=about, interval=interval))
    return adjusted(found, correction)


def paired(
    a: ArrayLike, b: ArrayLike, level: float = 0.95, about: About | None = None
) -> Comparison:
    """Compare two arrays whose values belong together one to one.

    Student's t interval and test on the differences, Wilcoxon's signed-rank p beside them.
    Differences that are all the same have no spread to measure by: their p is the sign test's.
    """
    return _paired(_values(a), _values(b), level, about)


def paired_moments(
    differences: Moments,
    a: Moments,
    b: Moments,
    level: float = 0.95,
    about: About | None = None,
) -> Comparison:
    """Compare pairs from the moments of a - b, of a and of b, each taken over the same pairs."""
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
    error = sd / math.sqrt(pairs)
    if error > 0:
        p, method = t_p(effect / error, pairs - 1), "paired t test"
    else:
        p, method = (math.ldexp(1.0, 1 - pairs) if effect else 1.0), "sign test"
    return Comparison(
        about=about or About(),
        paired=True,
        n=pairs,
        mean_a=a.mean,
        mean_b=b.mean,
        effect=effect,
        interval=_around(effect, error, pairs - 1, level, "paired t"),
        p=p,
        method=method,
        detectable=minimum_detectable_effect(sd, pairs, level=level),
        sd=sd,
        correlation=_correlation(a.sd, b.sd, sd),
    )


def unpaired(
    a: ArrayLike, b: ArrayLike, level: float = 0.95, about: About | None = None
) -> Comparison:
    """Compare two independent arrays: Welch's t interval and test, the Mann-Whitney p beside."""
    return _unpaired(_values(a), _values(b), level, about)


def unpaired_moments(
    a: Moments, b: Moments, level: float = 0.95, about: About | None = None
) -> Comparison:
    """Compare two independent groups from their moments.

    Where neither group varies, p is that of the permutation test.
    """
    check_level(level)
    _check_size(a, b)
    _check_count(min(a.count, b.count), "values in each group")
    effect = a.mean - b.mean
    error = math.hypot(a.sem, b.sem)
    if error <= _NOISE * max(abs(a.mean), abs(b.mean)):
        error = 0.0
    if error > 0:
        share = (a.sem / error) ** 2
        freedom = 1 / (share**2 / (a.count - 1) + (1 - share) ** 2 / (b.count - 1))
        p, method = t_p(effect / error, freedom), "Welch's t test"
    else:
        freedom = a.count + b.count - 2
        p, method = (_split_p(a.count, b.count) if effect else 1.0), "permutation test"
    return Comparison(
        about=about or About(),
        paired=False,
        n=(a.count, b.count),
        mean_a=a.mean,
        mean_b=b.mean,
        effect=effect,
        interval=_around(effect, error, freedom, level, "Welch t"),
        p=p,
        method=method,
        detectable=error * noncentrality(freedom, POWER, level),
    )


def bootstrap_difference(
    a: ArrayLike,
    b: ArrayLike,
    paired: bool,
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """The studentized bootstrap (bootstrap-t) interval of mean(a) - mean(b), for skewed data.

    Paired it resamples differences, unpaired each group by itself around Welch's standard error.
    Alone it covers too seldom on differences with long tails both ways, so it reaches on each side
    at least as far as the t interval. The order of the values (of the pairs) does not matter.
    """
    first, second = _values(a), _values(b)
    if paired:
        _check_pairs(first, second)
        groups = _moments(first - second), _moments(first), _moments(second)
        plain = paired_moments(*groups, level).interval
        drawn = bootstrap(first - second, "mean", level, resamples, seed, "studentized")
        low, high = drawn.low, drawn.high
    else:
        plain = unpaired_moments(_moments(first), _moments(second), level).interval
        low, high = _resampled_ends([np.sort(first), np.sort(second)], level, resamples, seed)
    if plain.half == 0:
        return plain
    return Interval(min(low, plain.low), max(high, plain.high), level, "bootstrap studentized")


def _resampled_ends(
    groups: list[Floats], level: float, resamples: int, seed: int
) -> tuple[float, float]:
    """The ends of the two-sample bootstrap-t interval."""
    if resamples < 1:
        raise UsageError(f"{resamples} resamples are too few", hint="use 999 or more")
    effect = float(groups[0].mean() - groups[1].mean())
    error = math.sqrt(sum(float(group.var(ddof=1)) / len(group) for group in groups))
    rng = np.random.default_rng(seed)
    rows = max(1, _CELLS // max(map(len, groups)))
    steps = []
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = [group[rng.integers(0, len(group), (count, len(group)))] for group in groups]
        errors = np.sqrt(sum(block.var(axis=1, ddof=1) / block.shape[1] for block in drawn))
        varied = errors > 0  # resamples of one value over and over have no scale to measure by
        moved = drawn[0].mean(axis=1) - drawn[1].mean(axis=1) - effect
        steps.append(moved[varied] / errors[varied])
    reached = np.concatenate(steps)
    if len(reached) == 0:
        return effect, effect
    below, above = np.quantile(reached, [(1 - level) / 2, (1 + level) / 2]) * error
    return effect - float(above), effect - float(below)


def _paired(a: Floats, b: Floats, level: float, about: About | None) -> Comparison:
    _check_pairs(a, b)
    first, second = _moments(a), _moments(b)
    _check_size(first, second)
    found = paired_moments(_moments(a - b), first, second, level, about)
    ranked = signed_rank_p(a - b) if found.interval.half > 0 else found.p
    return replace(found, other_p={"Wilcoxon signed-rank test": ranked})


def _unpaired(a: Floats, b: Floats, level: float, about: About | None) -> Comparison:
    found = unpaired_moments(_moments(a), _moments(b), level, about)
    ranked = rank_sum_p(a, b) if found.interval.half > 0 else found.p
    return replace(found, other_p={"Mann-Whitney test": ranked})


def _rates(a: Floats, b: Floats, paired: bool, level: float, about: About | None) -> Comparison:
    check_rates(a, b)
    if not paired:
        _check_count(min(len(a), len(b)), "values in each group")
        return unpaired_rates(int(a.sum()), len(a), int(b.sum()), len(b), level, about)
    _check_pairs(a, b)
    both, only_a, only_b = int(a @ b), int(a @ (1 - b)), int((1 - a) @ b)
    return paired_rates(both, only_a, only_b, len(a) - both - only_a - only_b, level, about)


def _moments(values: Floats) -> Moments:
    return Moments(values, order=2)


def _values(values: ArrayLike) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"these values are not numbers: {error}", hint="compare a numeric metric"
        ) from error
    if found.ndim != 1:
        raise UsageError(f"an array of shape {found.shape} is no list of values", hint="flatten it")
    bad = int(np.count_nonzero(~np.isfinite(found)))
    if bad:
        raise UsageError(
            f"{bad} of {len(found)} values are NaN or infinite and can't be compared",
            hint="leave them out (in pairs: the whole pair), or make them failures of the task",
        )
    return found


def check_rates(*groups: Floats) -> None:
    """Refuse score intervals for anything but 0 and 1."""
    for values in groups:
        odd = values[(values != 0) & (values != 1)]
        if len(odd):
            raise UsageError(
                f"a score interval is for values of 0 and 1, and {odd[0]:g} is among these",
                hint="compare means, with the interval t",
            )


def _check_pairs(a: Floats, b: Floats) -> None:
    if len(a) != len(b):
        raise UsageError(
            f"{len(a)} values can't be paired with {len(b)}",
            hint="keep only what exists in both, or compare unpaired",
        )
    _check_count(len(a), "pairs")


def _check_count(count: int, what: str) -> None:
    if count < 2:
        raise UsageError(
            f"a comparison needs two {what} or more, and there are {count}", hint="add replicates"
        )


def _check_size(*groups: Moments) -> None:
    if any(max(-group.minimum, group.maximum) > _LARGEST for group in groups):
        raise UsageError(
            f"values beyond {_LARGEST:g} can't be compared", hint="measure in a larger unit"
        )


def _correlation(sd_a: float, sd_b: float, sd_difference: float) -> float | None:
    """From three spreads; None where one of the two is constant."""
    if sd_a == 0 or sd_b == 0:
        return None
    found = (sd_a / sd_b + sd_b / sd_a - (sd_difference / sd_a) * (sd_difference / sd_b)) / 2
    return max(-1.0, min(1.0, found))


def _around(effect: float, error: float, freedom: float, level: float, method: str) -> Interval:
    half = t_quantile(level, freedom) * error if error > 0 else 0.0
    return Interval(effect - half, effect + half, level, method)


def _split_p(first: int, second: int) -> float:
    """Of all ways to deal the values into two groups, the share of the two that part them fully."""
    logs = math.lgamma(first + second + 1) - math.lgamma(first + 1) - math.lgamma(second + 1)
    return min(1.0, 2 * math.exp(-logs))

"""How small an effect a comparison can find, and how many replicates a wanted effect takes.

Both are exact for normal data (the non-central t distribution), two-sided.
"""

from __future__ import annotations

import math

from runyard.errors import UsageError
from runyard.stats.intervals import check_level, t_quantile

POWER = 0.8
"""The chance of finding an effect that a comparison is asked to have, unless told otherwise."""

_MOST = 10**12  # replicates beyond which an effect counts as out of reach


def minimum_detectable_effect(
    sd: float,
    n: int | tuple[int, int],
    power: float = POWER,
    level: float = 0.95,
    paired: bool = True,
) -> float:
    """The smallest true effect that a t test finds with a chance of `power`.

    Paired, `sd` is that of the differences and `n` the pairs; unpaired, `sd` is that inside each
    group and `n` the replicates of each (or of both, as a tuple).
    """
    _check(sd, power, level)
    freedom, scale = _design(n, paired)
    return float(sd * scale * noncentrality(freedom, power, level))


def needed(
    sd: float, effect: float, power: float = POWER, level: float = 0.95, paired: bool = True
) -> int:
    """The pairs (or, unpaired, the replicates of each group) that find `effect` with `power`."""
    _check(sd, power, level)
    if not (math.isfinite(effect) and effect != 0):
        raise UsageError(f"an effect of {effect!r} can't be looked for", hint="use one unlike zero")

    def enough(n: int) -> bool:
        if sd == 0:
            return True
        freedom, scale = _design(n, paired)
        return t_power(freedom, abs(effect) / (sd * scale), level) >= power

    most = 2
    while not enough(most):
        most *= 2
        if most > _MOST:
            raise UsageError(
                f"an effect of {effect:g} at a standard deviation of {sd:g} is out of reach",
                hint="look for a larger effect, or compare in pairs",
            )
    least = max(1, most // 2)  # not enough, or one
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def t_power(freedom: float, shift: float, level: float) -> float:
    """The chance that a two-sided t test rejects when its statistic is shifted by `shift`."""
    from scipy.special import nctdtr

    reach = t_quantile(level, freedom)
    return float(1 - nctdtr(freedom, shift, reach) + nctdtr(freedom, shift, -reach))


def noncentrality(freedom: float, power: float, level: float) -> float:
    """The shift, in standard errors, that a two-sided t test finds with a chance of `power`."""
    low, high = 0.0, 1.0
    while t_power(freedom, high, level) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_power(freedom, middle, level) < power else (low, middle)
    return high


def _design(n: int | tuple[int, int], paired: bool) -> tuple[float, float]:
    """Degrees of freedom, and the standard error of an effect in units of the sd."""
    counts = n if isinstance(n, tuple) else (n, n)
    if min(counts) < 2 or (paired and isinstance(n, tuple)):
        raise UsageError(
            f"{n!r} replicates make no test",
            hint="use two or more; a tuple only where the groups are not paired",
        )
    if paired:
        return counts[0] - 1, math.sqrt(1 / counts[0])
    return sum(counts) - 2, math.sqrt(1 / counts[0] + 1 / counts[1])


def _check(sd: float, power: float, level: float) -> None:
    check_level(level)
    if not (math.isfinite(sd) and sd >= 0):
        raise UsageError(f"a standard deviation of {sd!r} makes no sense", hint="use one from 0 up")
    if not 1 - level < power < 1:
        raise UsageError(
            f"a power of {power!r} makes no sense at a level of {level:g}", hint="use 0.8 or 0.9"
        )

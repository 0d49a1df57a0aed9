"""When to stop adding replicates: intervals that stay valid under repeated checks.

An ordinary 95% interval that is checked after every replicate misses the truth far more often than
one time in twenty. A confidence sequence holds at all sample sizes at once, so a run may stop as
soon as its interval is narrow enough, and that interval still covers.

    ConfidenceSequence   a mean: asymptotic, tuned to an intended number of replicates
    RateSequence         a rate (0 or 1): exact at any number
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from runyard.errors import UsageError
from runyard.stats.intervals import Floats, Interval, check_level
from runyard.stats.moments import Moments

_FAR = 10**15  # replicates beyond which a width is out of reach
_SKEW_RULE = 50  # values needed for a skewness of one; Cochran's rule needs 25 for a single check


@dataclass(frozen=True, slots=True)
class ConfidenceSequence:
    """The running interval of a mean (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas).

    A normal-mixture boundary with the running standard deviation, narrowest near `intended`
    replicates (a quarter wider than necessary at a tenth of that number, 7% at ten times).
    It is asymptotic, so three things guard the beginning: there is no interval before `minimum`
    values, none before 50 x skewness squared of them, and each is widened by the Cornish-Fisher
    term of the estimated skewness. Values that have all been equal so far have an
    unknown spread: no interval before `intended` of them.

    Holds (simulated, looking at every n up to thousands) for independent values that are normal,
    uniform, exponential, log-normal of shape 1, and 0/1 down to 5%. Does not hold for tails so
    heavy that there is hardly a variance (Pareto near 2: 94%), nor where events rarer than a few
    in `minimum` carry the mean, which no early sample shows coming (jumps in one value of a
    hundred: 40%): raise `minimum` to five times one over their frequency. Rates have a sequence of
    their own. Needs moments of order 3 or more.
    """

    intended: int = 1000
    minimum: int = 50

    def __post_init__(self) -> None:
        if self.intended < 1 or self.minimum < 2:
            raise UsageError(
                f"a sequence for {self.intended} values from {self.minimum} on is not possible",
                hint="use intended=1000, minimum=50",
            )

    def half_width(self, moments: Moments, level: float = 0.95) -> float:
        """Half the width after these values; infinite where there is no interval yet."""
        check_level(level)
        if moments.count < 2:
            return math.inf
        if moments.minimum == moments.maximum:
            return 0.0 if moments.count >= max(self.intended, self.minimum) else math.inf
        return float(self.half_widths(moments.count, moments.sd, moments.skew, level))

    def half_widths(
        self, count: ArrayLike, sd: ArrayLike, skew: ArrayLike, level: float = 0.95
    ) -> Floats:
        """The same for many counts, standard deviations (above zero) and skewnesses at once."""
        n, spread, lean = (np.asarray(given, dtype=np.float64) for given in (count, sd, skew))
        tuned = n * mixing(self.intended, level)
        squared = 2 * (tuned + 1) / tuned * np.log(np.sqrt(tuned + 1) / (1 - level))
        reach = np.sqrt(squared / n) + np.abs(lean) * (1 + 2 * squared) / (6 * n)
        ready = n >= np.maximum(self.minimum, _SKEW_RULE * lean * lean)
        return np.where(ready, spread * reach, np.inf)

    def interval(self, moments: Moments, level: float = 0.95) -> Interval:
        """The interval after these values; without ends where there is none yet."""
        half = self.half_width(moments, level)
        middle = moments.mean if math.isfinite(half) else 0.0
        return Interval.around(middle, half, level, "asymptotic confidence sequence")

    def expected_needed(self, moments: Moments, target: float, level: float = 0.95) -> int:
        """The estimated number of values still needed for a half-width of `target`."""
        _check_target(target)
        if self.half_width(moments, level) <= target:
            return 0
        if moments.count < 2 or moments.minimum == moments.maximum:
            return max(self.minimum, self.intended) - moments.count
        sd, skew = moments.sd, moments.skew

        def narrow(n: int) -> bool:
            return bool(self.half_widths(n, sd, skew, level) <= target)

        return _smallest(moments.count + 1, narrow) - moments.count


@dataclass(frozen=True, slots=True)
class RateSequence:
    """The running interval of a rate: Robbins' mixture with a beta-binomial law around each rate.

    Exact at any number of independent tries and for any rate (Ville's
    inequality); narrowest near `intended` tries.
    """

    intended: int = 1000

    def __post_init__(self) -> None:
        if self.intended < 1:
            raise UsageError(
                f"a sequence for {self.intended} tries is not possible", hint="use 1000"
            )

    def half_width(self, successes: int, total: int, level: float = 0.95) -> float:
        """Half the width after this many tries."""
        return self.interval(successes, total, level).half

    def interval(self, successes: int, total: int, level: float = 0.95) -> Interval:
        """The interval after this many tries; from 0 to 1 before the first."""
        check_level(level)
        if not 0 <= successes <= total:
            raise UsageError(
                f"{successes} successes in {total} tries are not possible", hint="check the counts"
            )
        return Interval(
            self._end(successes, total, level),
            1 - self._end(total - successes, total, level),
            level,
            "beta-binomial confidence sequence",
        )

    def expected_needed(
        self, successes: int, total: int, target: float, level: float = 0.95
    ) -> int:
        """The estimated number of tries still needed for a half-width of `target`."""
        _check_target(target)
        if self.half_width(successes, total, level) <= target:
            return 0
        rate = (successes + 0.5) / (total + 1)  # a rate of 0 or 1 rarely stays there

        def narrow(n: int) -> bool:
            return self.half_width(round(rate * n), n, level) <= target

        return _smallest(total + 1, narrow) - total

    def _end(self, successes: int, total: int, level: float) -> float:
        """The lower end, by bisection; the upper is that of the failures."""
        if successes == 0:
            return 0.0
        low, high = 0.0, successes / total
        limit = -math.log1p(-level)
        for _ in range(60):
            middle = (low + high) / 2
            if self.evidence(middle, successes, total, level) >= limit:
                low = middle
            else:
                high = middle
        return low

    def evidence(self, rate: float, successes: int, total: int, level: float = 0.95) -> float:
        """The log of the mixture martingale against a rate; -log(1 - level) and more refutes it."""
        weight = 1 / mixing(self.intended, level)
        up, down = rate * weight, (1 - rate) * weight
        if min(up, down) <= 0:
            return math.inf
        mixed = _log_beta(up + successes, down + total - successes) - _log_beta(up, down)
        plain = successes * math.log(rate) + (total - successes) * math.log1p(-rate)
        return mixed - plain


def mixing(intended: int, level: float) -> float:
    """The squared mixing parameter that makes a normal mixture narrowest near `intended` values."""
    odds = -2 * math.log1p(-max(level, 0.5))
    return (odds + math.log(odds) + 1) / intended


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _check_target(target: float) -> None:
    if not target > 0:
        raise UsageError(f"an interval can't shrink to {target!r}", hint="use a width above zero")


def _smallest(first: int, enough: Callable[[int], bool]) -> int:
    """The smallest number from `first` on that is enough, if more is never worse."""
    step = 1
    while not enough(first + step - 1):
        step *= 2
        if first + step > _FAR:
            return _FAR
    candidates = range(first + step // 2, first + step)
    return candidates[bisect_left(candidates, True, key=enough)]

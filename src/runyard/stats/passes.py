"""pass@k and pass^k: what k attempts at a case achieve, estimated from n recorded ones.

Both are unbiased: they average over all ways to choose k of the n attempts. Plugging the observed
rate into 1 - (1 - p)**k or p**k would not be.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import comb, nan
from statistics import fmean

from runyard.errors import UsageError


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """The chance that at least one of k attempts passes (Chen et al. 2021)."""
    _check(attempts, passed, k)
    return 1 - comb(attempts - passed, k) / comb(attempts, k)


def pass_all_k(attempts: int, passed: int, k: int) -> float:
    """The chance that all of k attempts pass, written pass^k (Yao et al. 2024)."""
    _check(attempts, passed, k)
    return comb(passed, k) / comb(attempts, k)


def over_cases(
    counts: Iterable[tuple[int, int]], k: int, *, every: bool = False
) -> tuple[float, int]:
    """The mean of pass@k over cases, or with `every` that of pass^k, and how many cases it covers.

    `counts` has the attempts and passes of each case; cases with fewer than k attempts are left
    out. NaN if none is left.
    """
    estimate = pass_all_k if every else pass_at_k
    found = [estimate(attempts, passed, k) for attempts, passed in counts if attempts >= k]
    return (fmean(found) if found else nan), len(found)


def _check(attempts: int, passed: int, k: int) -> None:
    if not 0 <= passed <= attempts or not 1 <= k <= attempts:
        raise UsageError(
            f"{k} of {attempts} attempts, of which {passed} passed, can't be estimated",
            hint="k is at least 1 and at most the number of attempts",
        )

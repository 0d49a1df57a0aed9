"""How small an effect a t test can find: exact for normal data, two-sided."""

from __future__ import annotations

from runyard.stats.intervals import t_quantile

POWER = 0.8
"""The chance of finding an effect for which `Comparison.detectable` is stated."""


def noncentrality(freedom: float, power: float, level: float) -> float:
    """The true effect, in standard errors, that a t test finds with a chance of `power`."""
    low, high = 0.0, 1.0
    while t_power(freedom, high, level) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_power(freedom, middle, level) < power else (low, middle)
    return high


def t_power(freedom: float, shift: float, level: float) -> float:
    """The chance that a t test rejects when the true effect is `shift` standard errors."""
    from scipy.special import nctdtr

    reach = t_quantile(level, freedom)
    return float(1 - nctdtr(freedom, shift, reach) + nctdtr(freedom, shift, -reach))

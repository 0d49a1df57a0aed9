"""Money while playing: whole cents, shares in whole millionths, pays in ten-thousandths.

Only payouts are rounded: with a pay that has decimals, a payout that is not in whole cents is
rounded down to the cent.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

CENT, MILLIONTH, PAY = 100, 1_000_000, 10_000
"""How many of each make one unit."""


def cents(dollars: float) -> int:
    """An amount in whole cents; halves are rounded up."""
    return _scaled(dollars, CENT)


def millionths(share: float) -> int:
    """A share in whole millionths."""
    return _scaled(share, MILLIONTH)


def pay_units(pay: int | Fraction) -> int:
    """A pay to 1 in ten-thousandths."""
    return int(pay * PAY)


def payout(bet: int, pay: int) -> int:
    """The gain of a bet in cents; a loss is the whole bet."""
    return bet * pay // PAY


def dollars(amount: int) -> float:
    """Cents in dollars."""
    return amount / CENT


def _scaled(value: float, scale: int) -> int:
    return floor(Fraction(repr(float(value))) * scale + Fraction(1, 2))

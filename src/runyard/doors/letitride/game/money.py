"""Money while playing: whole cents, whole millionths of a share, pays in ten-thousandths.

Nothing is rounded but what a cashier rounds: a payout that is not whole cents, which takes a pay
with decimals, is paid down to the cent.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

CENT, MILLIONTH, PAY = 100, 1_000_000, 10_000
"""How many of each make one."""


def cents(dollars: float) -> int:
    """An amount in whole cents; a half goes up."""
    return _scaled(dollars, CENT)


def millionths(share: float) -> int:
    """A share in whole millionths."""
    return _scaled(share, MILLIONTH)


def pay_units(pay: int | Fraction) -> int:
    """A pay to 1 in ten-thousandths."""
    return int(pay * PAY)


def payout(bet: int, pay: int) -> int:
    """What a bet of so many cents gains; a loss is the whole bet."""
    return bet * pay // PAY


def dollars(amount: int) -> float:
    """Cents as people write them."""
    return amount / CENT


def _scaled(value: float, scale: int) -> int:
    return floor(Fraction(repr(float(value))) * scale + Fraction(1, 2))

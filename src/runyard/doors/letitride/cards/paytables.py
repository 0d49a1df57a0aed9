"""Paytables: what hands pay, to 1, in the main game and in the three-card bonus.

Pays are kept exact: whole numbers as `int`, all others as `Fraction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Self

import msgspec

from runyard.errors import UsageError

Pay = int | Fraction

MOST = 10**9
"""The largest pay in a table."""


def exact_pay(value: Any, name: str) -> Pay:
    """Read a pay exactly as written: `8`, `1.5` or `"3/2"`."""
    try:
        if isinstance(value, bool):
            raise ValueError
        pay = Fraction(repr(value) if isinstance(value, float) else value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise UsageError(
            f"{name} pays {value!r}, which is not a number", hint="write 8, 1.5 or 3/2"
        ) from None
    if not 0 <= pay <= MOST:
        raise UsageError(
            f"{name} pays {value}, which is not between 0 and {MOST:,}",
            hint="pays are to 1: 0 gives the bet back",
        )
    return pay.numerator if pay.denominator == 1 else pay


class _Table(msgspec.Struct, frozen=True):
    """Pays by name of the hand, best hand first."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            pay = exact_pay(getattr(self, name), name)
            msgspec.structs.force_setattr(self, name, pay)

    @classmethod
    def of(cls, values: Mapping[str, Any], base: Self | None = None) -> Self:
        """The table with these pays; missing ones come from `base`."""
        names = cls.__struct_fields__
        for name in values:
            if name not in names:
                raise UsageError(
                    f"unknown hand {name!r} in a paytable",
                    hint=f"hands: {', '.join(names)}",
                )
        given = ({} if base is None else base.by_name()) | dict(values)
        missing = [name for name in names if name not in given]
        if missing:
            raise UsageError(
                f"the paytable does not say what {', '.join(missing)} pays",
                hint=f"name all of {', '.join(names)}",
            )
        return cls(**given)

    def by_name(self) -> dict[str, Pay]:
        """The pays of winning hands, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class MainTable(_Table, frozen=True):
    """What each riding bet pays for the five cards."""

    royal_flush: Pay
    straight_flush: Pay
    four_of_a_kind: Pay
    full_house: Pay
    flush: Pay
    straight: Pay
    three_of_a_kind: Pay
    two_pair: Pay
    pair_tens_or_better: Pay

    @property
    def pays(self) -> tuple[Pay, ...]:
        """Pays by five-card category; a low pair and a high card lose the bet."""
        return (*self.by_name().values(), -1, -1)


class BonusTable(_Table, frozen=True):
    """What the bonus bet pays for the player's three cards."""

    mini_royal: Pay
    straight_flush: Pay
    three_of_a_kind: Pay
    straight: Pay
    flush: Pay
    pair: Pay

    @property
    def pays(self) -> tuple[Pay, ...]:
        """Pays by three-card category; `nothing` loses the bet."""
        return (*self.by_name().values(), -1)


STANDARD = MainTable(1000, 200, 50, 11, 8, 5, 3, 2, 1)

BONUS = {
    "paytable_a": BonusTable(50, 40, 30, 6, 3, 1),
    "paytable_b": BonusTable(100, 40, 30, 5, 4, 1),
    "paytable_c": BonusTable(1000, 200, 30, 6, 4, 1),
}

"""The best play for any paytable, and the cost of another play against it.

Bets are independent: pulling one doesn't affect the others. So a bet rides if its own value is
positive; a bet with a value of exactly 0 is pulled, and such hands are counted separately.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from runyard.doors.letitride.cards.cards import hand_text
from runyard.doors.letitride.cards.paytables import MainTable
from runyard.doors.letitride.cards.profiles import Profile, all_profiles
from runyard.doors.letitride.cards.tables import Bytes, Decisions, hands

SIZES = {"bet1": 3, "bet2": 4}
"""How many cards the player knows when deciding on a bet."""


class Choice(NamedTuple):
    """One profile, and the value of a riding bet with it."""

    bet: str
    profile: Profile
    hands: int  # how many hands have this profile
    worth: Fraction  # of the bet if it rides

    @property
    def ride(self) -> bool:
        """Whether the best play lets the bet ride."""
        return self.worth > 0


class Mistake(NamedTuple):
    """A decision that differs from the best play, for hands of one profile."""

    choice: Choice
    hands: int  # how many hands of this profile are played this way
    example: str  # one such hand
    cost: Fraction  # in base bets a hand dealt, over all hands

    @property
    def played(self) -> str:
        """The strategy's decision, the opposite of the best one."""
        return "pull" if self.choice.ride else "ride"


def choices(bet: str, table: MainTable) -> list[Choice]:
    """The value of riding for every profile; `bet` is `bet1` or `bet2`."""
    known = all_profiles(SIZES[bet])
    pays = table.pays
    return [
        Choice(bet, profile, size, _worth(futures, pays))
        for profile, size, futures in zip(known.profiles, known.sizes, known.futures, strict=True)
    ]


@lru_cache(maxsize=32)
def optimal(table: MainTable) -> Decisions:
    """The best decision for every hand."""
    return Decisions(_best("bet1", table), _best("bet2", table))


def mistakes(decisions: Decisions, table: MainTable) -> list[Mistake]:
    """Where a strategy differs from the best play at a cost, the most expensive first.

    The costs add up to what the strategy loses against the best play.
    """
    found = [
        *_mistakes("bet1", decisions.bet1, table),
        *_mistakes("bet2", decisions.bet2, table),
    ]
    return sorted(found, key=lambda mistake: -mistake.cost)


def _worth(futures: tuple[int, ...], pays: tuple[int | Fraction, ...]) -> Fraction:
    total = sum(ways * pay for ways, pay in zip(futures, pays, strict=True))
    return Fraction(total) / sum(futures)


def _best(bet: str, table: MainTable) -> Bytes:
    rides = np.array([choice.ride for choice in choices(bet, table)], dtype=np.uint8)
    found = rides[all_profiles(SIZES[bet]).of_hand]
    found.flags.writeable = False
    return found


def _mistakes(bet: str, played: Bytes, table: MainTable) -> list[Mistake]:
    size = SIZES[bet]
    of_hand = all_profiles(size).of_hand
    rides = np.bincount(of_hand, played)
    found = []
    for place, choice in enumerate(choices(bet, table)):
        riding = int(rides[place])
        wrong = choice.hands - riding if choice.ride else riding
        if wrong and choice.worth:
            numbers = np.flatnonzero((of_hand == place) & (played != choice.ride))
            example = hand_text(hands(size)[:, numbers[0]].tolist())
            cost = abs(choice.worth) * wrong / len(of_hand)
            found.append(Mistake(choice, wrong, example, cost))
    return found

"""The best play for any paytable, and what another play costs against it.

The bets don't touch each other: pulling one changes nothing for the rest. So a bet rides where it
is worth something by itself, and one that is worth exactly nothing is pulled and counted apart.
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
"""How many cards the player knows when a bet may be pulled."""


class Choice(NamedTuple):
    """One profile, and what a riding bet is worth there."""

    bet: str
    profile: Profile
    hands: int  # how many hands have this profile
    worth: Fraction  # of the bet, should it ride

    @property
    def ride(self) -> bool:
        """Whether the best play lets the bet ride."""
        return self.worth > 0


class Mistake(NamedTuple):
    """A play that differs from the best one, for hands of one profile."""

    choice: Choice
    hands: int  # how many hands of this profile are played this way
    example: str  # one of them
    cost: Fraction  # in base bets a hand dealt, over all hands

    @property
    def played(self) -> str:
        """What the strategy does there: the opposite of what is best."""
        return "pull" if self.choice.ride else "ride"


def choices(bet: str, table: MainTable) -> list[Choice]:
    """What riding is worth for every profile, by `bet1` or `bet2`."""
    known = all_profiles(SIZES[bet])
    pays = table.pays
    return [
        Choice(bet, profile, size, _worth(futures, pays))
        for profile, size, futures in zip(known.profiles, known.sizes, known.futures, strict=True)
    ]


@lru_cache(maxsize=32)
def optimal(table: MainTable) -> Decisions:
    """The decisions that no other ones beat, for every hand."""
    return Decisions(_best("bet1", table), _best("bet2", table))


def mistakes(decisions: Decisions, table: MainTable) -> list[Mistake]:
    """Where a strategy differs from the best play at a cost, the dearest first.

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

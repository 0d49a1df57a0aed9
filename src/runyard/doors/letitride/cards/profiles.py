"""Profiles: the properties of three or four cards that affect the best play, and nothing else.

There are 33 profiles of three cards and 33 of four. Two hands with the same profile lead to each
category in the same number of ways, under any paytable; so the best play is a decision per profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES as NAMES
from runyard.doors.letitride.cards.cards import (
    FOUR_OF_A_KIND,
    LOW_PAIR,
    TENS_OR_BETTER,
    THREE_OF_A_KIND,
    TWO_PAIR,
)
from runyard.doors.letitride.cards.facts import HandFacts
from runyard.doors.letitride.cards.tables import (
    Numbers,
    four_card_futures,
    hands,
    kinds,
    three_card_futures,
)

SPELLED = {3: "three", 4: "four"}


class Profile(NamedTuple):
    """The properties of three or four cards that matter."""

    size: int
    made: str  # low_pair, pair_tens_or_better, …; empty if all ranks differ
    suited: bool  # all cards of one suit
    straights: int  # how many of the ten straights contain all cards
    high_cards: int  # tens or better, if all ranks differ

    @property
    def text(self) -> str:
        """In words."""
        if self.made:
            return self.made.replace("_", " ")
        start = f"{SPELLED[self.size]} to {self._goal()}" if self._goal() else "no pair, no draw"
        fits = f", in {counted(self.straights, 'straight')}" if self.straights else ""
        return f"{start}{fits}, {counted(self.high_cards, 'high card')}"

    def _goal(self) -> str:
        if self.suited:
            if not self.straights:
                return "a flush"
            return "a royal flush" if self.high_cards == self.size else "a straight flush"
        return "a straight" if self.straights else ""


def counted(count: int, noun: str) -> str:
    """A count with its noun, in words."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def profile_of(cards: Sequence[int]) -> Profile:
    """The profile of three or four cards."""
    hand = HandFacts(cards)
    if hand.has_pair:
        return Profile(len(cards), _made(hand), suited=False, straights=0, high_cards=0)
    return Profile(len(cards), "", hand.is_flush_draw, hand.straights, hand.high_cards)


def _made(hand: HandFacts) -> str:
    if hand.of_a_kind > 2:
        return NAMES[FOUR_OF_A_KIND if hand.of_a_kind == 4 else THREE_OF_A_KIND]
    if hand.pairs == 2:
        return NAMES[TWO_PAIR]
    return NAMES[TENS_OR_BETTER if hand.has_high_pair else LOW_PAIR]


class Profiles(NamedTuple):
    """All profiles of one size, the profile of each hand, and the future of each profile."""

    profiles: tuple[Profile, ...]
    of_hand: Numbers  # for each hand, by number, the index of its profile in `profiles`
    sizes: tuple[int, ...]  # how many hands have each profile
    futures: tuple[tuple[int, ...], ...]  # for each profile, the ways to each five-card category


@cache
def all_profiles(size: int) -> Profiles:
    """The profiles of all hands of three or of four cards."""
    known = kinds(size)
    examples = hands(size)[:, known.examples].T.tolist()
    of_kind = [profile_of(cards) for cards in examples]
    found = sorted(set(of_kind))
    places = np.array([found.index(profile) for profile in of_kind], dtype=np.int32)
    futures = three_card_futures() if size == 3 else four_card_futures()
    firsts = known.examples[np.unique(places, return_index=True)[1]]
    of_hand = places[known.kind]
    of_hand.flags.writeable = False
    return Profiles(
        tuple(found),
        of_hand,
        tuple(np.bincount(of_hand).tolist()),
        tuple(tuple(row) for row in futures[firsts].tolist()),
    )

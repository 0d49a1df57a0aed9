"""Lookup tables of all hands by number, which enumeration and the kernel read.

A set of cards has one number: in ascending order, c0 < c1 < …, it is C(c0, 1) + C(c1, 2) + …, with
the binomials in `BINOMIAL`. So the hands of one size are numbered without gaps, the number of a
hand without its highest card is that sum without its last term, and an array is a lookup table.

Each table is computed on first use, in well under a second, and kept for the process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from math import comb
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.cards.cards import (
    ACE,
    DECK,
    FIVE_CARD_NAMES,
    FLUSH,
    FOUR_OF_A_KIND,
    FULL_HOUSE,
    HIGH_CARD,
    LOW_PAIR,
    RANKS,
    ROYAL_FLUSH,
    STRAIGHT,
    STRAIGHT_FLUSH,
    TEN,
    TENS_OR_BETTER,
    THREE_OF_A_KIND,
    TWO_PAIR,
    hand_text,
    three_card_category,
)
from runyard.errors import UsageError

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int32]
Decide = Callable[[tuple[int, ...]], bool]
Array = TypeVar("Array", bound=NDArray[Any])

THREES, FOURS, FIVES = comb(DECK, 3), comb(DECK, 4), comb(DECK, 5)
CATEGORIES = len(FIVE_CARD_NAMES)
_FIVE = RANKS.index("5")

BINOMIAL = np.array([[comb(n, k) for n in range(DECK + 1)] for k in range(6)], dtype=np.int32)
"""`BINOMIAL[k, n]`: the number of ways to choose k of n."""


def hands(size: int) -> Bytes:
    """All hands of `size` cards in the order of their numbers: a column each, cards ascending."""
    if size == 1:
        return np.arange(DECK, dtype=np.uint8)[None, :]
    smaller = hands(size - 1)
    found = np.empty((size, comb(DECK, size)), dtype=np.uint8)
    start = 0
    for highest in range(size - 1, DECK):
        end = start + comb(highest, size - 1)
        found[:-1, start:end] = smaller[:, : end - start]
        found[-1, start:end] = highest
        start = end
    return found


def number_of(*cards: int) -> int:
    """The number of a hand, with its cards in any order."""
    return sum(comb(card, place) for place, card in enumerate(sorted(cards), start=1))


def numbers_without(cards: Bytes) -> Iterator[Numbers]:
    """For columns of ascending cards: the numbers of the hands without the first card, and so on.

    Cards above the one that is left out move down by one place.
    """
    for left_out in range(len(cards)):
        numbers = np.zeros(cards.shape[1], dtype=np.int32)
        for place, card in enumerate(np.delete(cards, left_out, axis=0), start=1):
            numbers += BINOMIAL[place][card]
        yield numbers


@cache
def five_categories() -> Bytes:
    """The category of every hand of five cards, by number."""
    cards = hands(5)
    ranks, suits = cards >> 2, cards & 3
    first, second, third, fourth = same = ranks[1:] == ranks[:-1]
    equal = same.sum(axis=0, dtype=np.uint8)
    suited = (suits[1:] == suits[0]).all(axis=0)
    wheel = (ranks[4] == ACE) & (ranks[3] == _FIVE)
    in_a_row = (equal == 0) & ((ranks[4] - ranks[0] == 4) | wheel)
    three = (first & second) | (second & third) | (third & fourth)
    four = (first & second & third) | (second & third & fourth)
    paired = np.select([first, second, third], ranks[:3], ranks[3])
    found = np.full(FIVES, HIGH_CARD, dtype=np.uint8)
    for category, hands_of_it in (
        (LOW_PAIR, equal == 1),
        (TENS_OR_BETTER, (equal == 1) & (paired >= TEN)),
        (TWO_PAIR, equal == 2),
        (THREE_OF_A_KIND, three),
        (STRAIGHT, in_a_row),
        (FLUSH, suited),
        (FULL_HOUSE, equal == 3),
        (FOUR_OF_A_KIND, four),
        (STRAIGHT_FLUSH, suited & in_a_row),
        (ROYAL_FLUSH, suited & in_a_row & (ranks[0] == TEN)),
    ):
        found[hands_of_it] = category
    return _fixed(found)


@cache
def three_categories() -> Bytes:
    """The bonus category of every hand of three cards, by number."""
    found = [three_card_category(row) for row in hands(3).T.tolist()]
    return _fixed(np.array(found, dtype=np.uint8))


@cache
def four_card_futures() -> Bytes:
    """For every hand of four cards, how many of the 48 further cards lead to each category."""
    found = np.zeros(FOURS * CATEGORIES, dtype=np.uint8)
    categories = five_categories()
    for left in numbers_without(hands(5)):
        left *= CATEGORIES
        left += categories
        found += np.bincount(left, minlength=len(found)).astype(np.uint8)
    return _fixed(found.reshape(FOURS, CATEGORIES))


@cache
def three_card_futures() -> Numbers:
    """For every hand of three cards, how many of the 1,176 further pairs lead to each category."""
    found = np.zeros((THREES, CATEGORIES), dtype=np.int32)
    futures = four_card_futures()
    for left in numbers_without(hands(4)):
        for category, counts in enumerate(futures.T):
            found[:, category] += np.bincount(left, counts, THREES).astype(np.int32)
    return _fixed(found // 2)  # each pair was counted in both orders


class Decisions(NamedTuple):
    """When bets ride: 1 or 0 for every hand of three cards (bet 1) and of four (bet 2)."""

    bet1: Bytes
    bet2: Bytes

    @property
    def digest(self) -> str:
        """A hash of the decisions."""
        return hashlib.sha256(self.bet1.tobytes() + self.bet2.tobytes()).hexdigest()


def decisions(ride_bet1: Decide, ride_bet2: Decide, *, suits_alike: bool) -> Decisions:
    """Call two functions with the ascending cards of every hand.

    With `suits_alike` the functions must not depend on which suit cards share, only on whether they
    share one; then they are called for one hand of each kind, which is much faster.
    """
    return Decisions(_asked(ride_bet1, 3, suits_alike), _asked(ride_bet2, 4, suits_alike))


class Kinds(NamedTuple):
    """Hands grouped by kind: those of one kind differ only by a permutation of suits."""

    examples: Numbers  # the number of one hand of each kind
    kind: Numbers  # of each hand


@cache
def kinds(size: int) -> Kinds:
    """The kinds of hands of `size` cards: 1,755 of three cards, 16,432 of four."""
    cards = hands(size)
    held = np.zeros((4, cards.shape[1]), dtype=np.int64)  # ranks of each suit, as bits
    for card in cards:
        held[card & 3, np.arange(len(card))] |= np.int64(1) << (card >> 2).astype(np.int64)
    held.sort(axis=0)
    key = (held << np.arange(0, DECK, len(RANKS))[:, None]).sum(axis=0)
    _, examples, kind = np.unique(key, return_index=True, return_inverse=True)
    return Kinds(_fixed(examples.astype(np.int32)), _fixed(kind.astype(np.int32)))


def _asked(ride: Decide, size: int, suits_alike: bool) -> Bytes:
    cards = hands(size)
    if not suits_alike:
        return _answers(ride, cards)
    known = kinds(size)
    return _fixed(_answers(ride, cards[:, known.examples])[known.kind])


def _answers(ride: Decide, cards: Bytes) -> Bytes:
    found = np.empty(cards.shape[1], dtype=np.uint8)
    for number, hand in enumerate(cards.T.tolist()):
        try:
            found[number] = bool(ride(tuple(hand)))
        except Exception as error:
            raise UsageError(
                f"the strategy failed on {hand_text(hand)}: {type(error).__name__}: {error}",
                hint="it is called for every hand of three cards and of four",
            ) from error
    return _fixed(found)


def _fixed(array: Array) -> Array:
    """Make an array read-only, since it is shared."""
    array.flags.writeable = False
    return array

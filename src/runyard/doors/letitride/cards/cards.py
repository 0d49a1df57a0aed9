"""Cards as small integers, and the categories of three and of five cards, in plain Python.

A card is 0 to 51: `card // 4` is its rank (0 a two, 12 an ace), `card % 4` its suit.
"""

from __future__ import annotations

from collections.abc import Sequence

RANKS = "23456789TJQKA"
SUITS = "cdhs"
DECK = 52
TEN, ACE = RANKS.index("T"), RANKS.index("A")

FIVE_CARD_NAMES = (
    "royal_flush",
    "straight_flush",
    "four_of_a_kind",
    "full_house",
    "flush",
    "straight",
    "three_of_a_kind",
    "two_pair",
    "pair_tens_or_better",
    "low_pair",
    "high_card",
)
"""Five-card categories, best first; the last two lose."""

THREE_CARD_NAMES = (
    "mini_royal",
    "straight_flush",
    "three_of_a_kind",
    "straight",
    "flush",
    "pair",
    "nothing",
)
"""Three-card categories of the bonus, best first; the last one loses."""

(
    ROYAL_FLUSH,
    STRAIGHT_FLUSH,
    FOUR_OF_A_KIND,
    FULL_HOUSE,
    FLUSH,
    STRAIGHT,
    THREE_OF_A_KIND,
    TWO_PAIR,
    TENS_OR_BETTER,
    LOW_PAIR,
    HIGH_CARD,
) = range(len(FIVE_CARD_NAMES))

(
    BONUS_MINI_ROYAL,
    BONUS_STRAIGHT_FLUSH,
    BONUS_THREE_OF_A_KIND,
    BONUS_STRAIGHT,
    BONUS_FLUSH,
    BONUS_PAIR,
    BONUS_NOTHING,
) = range(len(THREE_CARD_NAMES))


def rank_of(card: int) -> int:
    """The rank of a card: 0 a two, 12 an ace."""
    return card // 4


def suit_of(card: int) -> int:
    """The suit of a card, 0 to 3."""
    return card % 4


def five_card_category(cards: Sequence[int]) -> int:
    """The category of five cards, as an index into `FIVE_CARD_NAMES`."""
    ranks = sorted(map(rank_of, cards))
    groups = sorted((ranks.count(rank) for rank in set(ranks)), reverse=True)
    suited, in_a_row = _is_suited(cards), _is_straight(ranks)
    if suited and in_a_row:
        return ROYAL_FLUSH if ranks[0] == TEN else STRAIGHT_FLUSH
    if groups[0] == 4:
        return FOUR_OF_A_KIND
    if groups == [3, 2]:
        return FULL_HOUSE
    if suited:
        return FLUSH
    if in_a_row:
        return STRAIGHT
    if groups[0] == 3:
        return THREE_OF_A_KIND
    if groups == [2, 2, 1]:
        return TWO_PAIR
    if groups[0] == 2:
        pair = next(rank for rank in ranks if ranks.count(rank) == 2)
        return TENS_OR_BETTER if pair >= TEN else LOW_PAIR
    return HIGH_CARD


def three_card_category(cards: Sequence[int]) -> int:
    """The bonus category of three cards, as an index into `THREE_CARD_NAMES`."""
    ranks = sorted(map(rank_of, cards))
    suited, in_a_row = _is_suited(cards), _is_straight(ranks)
    if suited and in_a_row:
        mini_royal = ranks == [ACE - 2, ACE - 1, ACE]
        return BONUS_MINI_ROYAL if mini_royal else BONUS_STRAIGHT_FLUSH
    if len(set(ranks)) == 1:
        return BONUS_THREE_OF_A_KIND
    if in_a_row:
        return BONUS_STRAIGHT
    if suited:
        return BONUS_FLUSH
    return BONUS_PAIR if len(set(ranks)) == 2 else BONUS_NOTHING


def card_text(card: int) -> str:
    """A card in two letters, such as `As`."""
    return RANKS[rank_of(card)] + SUITS[suit_of(card)]


def hand_text(cards: Sequence[int]) -> str:
    """Cards in two letters each, the highest first."""
    return " ".join(card_text(card) for card in sorted(cards, reverse=True))


def _is_suited(cards: Sequence[int]) -> bool:
    return len(set(map(suit_of, cards))) == 1


def _is_straight(ranks: Sequence[int]) -> bool:
    """Whether sorted ranks are consecutive; an ace may be below the two."""
    below = ranks[-1] == ACE
    return _in_a_row(ranks) or (below and _in_a_row([-1, *ranks[:-1]]))


def _in_a_row(ranks: Sequence[int]) -> bool:
    return list(ranks) == list(range(ranks[0], ranks[0] + len(ranks)))

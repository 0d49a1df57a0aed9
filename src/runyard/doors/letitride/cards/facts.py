"""What a player knows of a hand when deciding on a bet: three cards for bet 1, four for bet 2.

Facts say which cards share a suit, but not which suit, so hands that differ only by a permutation
of suits are decided alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from runyard.doors.letitride.cards.cards import ACE, TEN

STRAIGHTS = ({ACE, 0, 1, 2, 3}, *(set(range(low, low + 5)) for low in range(TEN + 1)))
"""The ranks of every straight."""

UNSUITED_SPREAD = 14
"""The `straight_flush_spread` of cards of several suits: larger than any suited spread."""

PAYING = 3
"""The `strength` from which a hand already wins."""

_STRENGTH_OF_A_KIND = {1: 0, 3: 7, 4: 9}


class HandFacts:
    """The facts of three or four cards, each computed on first use."""

    def __init__(self, cards: Sequence[int]) -> None:
        self.cards = tuple(sorted(cards))

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The rank of each card, ascending."""
        return tuple(card // 4 for card in self.cards)

    @cached_property
    def suits(self) -> tuple[int, ...]:
        """The suit of each card, in the order of their ranks."""
        return tuple(card % 4 for card in self.cards)

    @cached_property
    def distinct_ranks(self) -> tuple[int, ...]:
        """Each rank once, ascending."""
        return tuple(sorted(set(self.ranks)))

    @property
    def high_cards(self) -> int:
        """How many cards are tens or better."""
        return sum(rank >= TEN for rank in self.ranks)

    @property
    def suited_cards(self) -> int:
        """The most cards that share a suit."""
        return max(self.suits.count(suit) for suit in self.suits)

    @property
    def suited_high_cards(self) -> int:
        """The most tens or better that share a suit."""
        high = [card % 4 for card in self.cards if card // 4 >= TEN]
        return max((high.count(suit) for suit in high), default=0)

    @property
    def connected_cards(self) -> int:
        """The longest run of consecutive ranks; an ace counts high and low."""
        return max(_longest_run(ranks) for ranks in self._both_ways)

    @property
    def spread(self) -> int:
        """The number of ranks from the lowest to the highest card, an ace being high or low."""
        return min(ranks[-1] - ranks[0] + 1 for ranks in self._both_ways)

    @property
    def gaps(self) -> int:
        """How many ranks are missing between the lowest card and the highest."""
        return self.spread - len(self.distinct_ranks)

    @property
    def straights(self) -> int:
        """How many of the ten straights contain all cards; 0 for a pair."""
        if self.has_pair:
            return 0
        return sum(straight.issuperset(self.ranks) for straight in STRAIGHTS)

    @property
    def of_a_kind(self) -> int:
        """The most cards of one rank."""
        return max(self.ranks.count(rank) for rank in self.ranks)

    @property
    def pairs(self) -> int:
        """How many ranks have exactly two cards."""
        return sum(self.ranks.count(rank) == 2 for rank in self.distinct_ranks)

    @property
    def strength(self) -> int:
        """A made hand from 0 to 10.

        1 any pair, 3 a pair of tens or better, 5 two pair, 7 three of a kind, 9 four of a kind; 0
        for the rest. 10 is a royal flush, which three or four cards never are.
        """
        if self.of_a_kind != 2:
            return _STRENGTH_OF_A_KIND[self.of_a_kind]
        if self.pairs == 2:
            return 5
        return PAYING if self.has_high_pair else 1

    @property
    def straight_flush_spread(self) -> int:
        """The spread of cards of one suit; 14 for others."""
        return self.spread if self.is_flush_draw else UNSUITED_SPREAD

    @property
    def has_pair(self) -> bool:
        """Whether two cards are of one rank."""
        return len(self.distinct_ranks) < len(self.ranks)

    @property
    def has_high_pair(self) -> bool:
        """Whether two cards are of one rank, tens or better."""
        return any(rank >= TEN and self.ranks.count(rank) > 1 for rank in self.distinct_ranks)

    @property
    def has_trips(self) -> bool:
        """Whether three cards are of one rank."""
        return any(self.ranks.count(rank) > 2 for rank in self.distinct_ranks)

    @property
    def has_paying_hand(self) -> bool:
        """Whether the cards already win."""
        two_pair = len(self.ranks) - len(self.distinct_ranks) == 2
        return self.has_high_pair or self.has_trips or two_pair

    @property
    def is_flush_draw(self) -> bool:
        """Whether all cards are of one suit."""
        return len(set(self.suits)) == 1

    @property
    def is_straight_draw(self) -> bool:
        """Whether all cards fit one straight."""
        return not self.has_pair and self.spread <= 5

    @property
    def is_open_straight_draw(self) -> bool:
        """Whether the ranks are consecutive and can be extended at both ends."""
        if self.has_pair or self.connected_cards < len(self.ranks):
            return False
        return self.distinct_ranks[-1] < ACE

    @property
    def is_inside_straight_draw(self) -> bool:
        """Whether all cards fit one straight, but it isn't open at both ends."""
        return self.is_straight_draw and not self.is_open_straight_draw

    @property
    def is_straight_flush_draw(self) -> bool:
        """Whether all cards fit one straight flush."""
        return self.is_flush_draw and self.is_straight_draw

    @property
    def is_royal_draw(self) -> bool:
        """Whether all cards fit one royal flush."""
        return self.is_flush_draw and self.ranks[0] >= TEN

    @property
    def _both_ways(self) -> tuple[tuple[int, ...], ...]:
        """The ranks ascending, and again with an ace below the two."""
        ranks = self.distinct_ranks
        return (ranks, (-1, *ranks[:-1])) if ranks[-1] == ACE else (ranks,)


def _longest_run(ranks: Sequence[int]) -> int:
    longest = run = 1
    for low, high in pairwise(ranks):
        run = run + 1 if high == low + 1 else 1
        longest = max(longest, run)
    return longest


def _names_of(kind: str) -> tuple[str, ...]:
    return tuple(
        name
        for name, member in vars(HandFacts).items()
        if isinstance(member, property)
        and not name.startswith("_")
        and member.fget is not None
        and member.fget.__annotations__["return"] == kind
    )


COUNTS = _names_of("int")
"""Facts that are whole numbers."""

FLAGS = _names_of("bool")
"""Facts that hold or don't."""

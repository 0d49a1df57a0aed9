"""What cards make, hand by hand, and every hand by number."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from runyard.doors.letitride.cards import cards, tables
from runyard.doors.letitride.cards.profiles import all_profiles


def hand(text: str) -> list[int]:
    return [cards.RANKS.index(word[0]) * 4 + cards.SUITS.index(word[1]) for word in text.split()]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ts Js Qs Ks As", "royal_flush"),
        ("9s Ts Js Qs Ks", "straight_flush"),
        ("As 2s 3s 4s 5s", "straight_flush"),
        ("2s 2h 2d 2c 5s", "four_of_a_kind"),
        ("2s 2h 2d 5c 5s", "full_house"),
        ("2s 4s 6s 8s Ts", "flush"),
        ("As 2h 3s 4s 5s", "straight"),
        ("Th Js Qs Ks As", "straight"),
        ("Qh Ks As 2s 3s", "high_card"),
        ("Ts Th Td 2s 4h", "three_of_a_kind"),
        ("2s 2h 3d 3s 4h", "two_pair"),
        ("Ts Th 3d 2s 4h", "pair_tens_or_better"),
        ("9s 9h 3d 2s 4h", "low_pair"),
        ("2s 4s 6s 8s Th", "high_card"),
    ],
)
def test_five_cards_make_what_the_rules_say(text: str, name: str) -> None:
    found = hand(text)
    random.Random(1).shuffle(found)
    assert cards.FIVE_CARD_NAMES[cards.five_card_category(found)] == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("As Ks Qs", "mini_royal"),
        ("Ks Qs Js", "straight_flush"),
        ("As 2s 3s", "straight_flush"),
        ("2s 2h 2d", "three_of_a_kind"),
        ("As 2h 3s", "straight"),
        ("As Kh Qs", "straight"),
        ("Ks As 2s", "flush"),
        ("2s 2h As", "pair"),
        ("2s 4h As", "nothing"),
    ],
)
def test_three_cards_make_what_the_bonus_says(text: str, name: str) -> None:
    assert cards.THREE_CARD_NAMES[cards.three_card_category(hand(text))] == name


def test_a_hand_is_written_with_its_highest_card_first() -> None:
    assert cards.hand_text(hand("2c As Td")) == "As Td 2c"


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_hands_are_numbered_without_a_gap_and_hold_different_cards_upwards(size: int) -> None:
    found = [tuple(column) for column in tables.hands(size).T.tolist()]
    assert len(found) == math.comb(52, size)
    assert set(found) == set(itertools.combinations(range(52), size))
    for number in range(0, len(found), 997):
        shuffled = random.Random(number).sample(found[number], size)
        assert tables.number_of(*shuffled) == number


def test_the_table_of_five_cards_says_what_the_plain_function_says() -> None:
    hands = tables.hands(5)
    numbers = random.Random(2).sample(range(tables.FIVES), 20_000)
    rare = np.flatnonzero(tables.five_categories() <= cards.FULL_HOUSE).tolist()[::7]
    for number in [*numbers, *rare]:
        found = hands[:, number].tolist()
        assert tables.number_of(*found) == number
        assert tables.five_categories()[number] == cards.five_card_category(found)


def test_the_futures_of_hands_are_what_dealing_every_card_gives() -> None:
    sample = random.Random(3)
    for _ in range(12):
        four = sample.sample(range(52), 4)
        ends = [cards.five_card_category([*four, card]) for card in range(52) if card not in four]
        expected = np.bincount(ends, minlength=tables.CATEGORIES)
        assert (tables.four_card_futures()[tables.number_of(*four)] == expected).all()
    for _ in range(4):
        three = sample.sample(range(52), 3)
        rest = [card for card in range(52) if card not in three]
        ends = [
            cards.five_card_category([*three, *pair]) for pair in itertools.combinations(rest, 2)
        ]
        expected = np.bincount(ends, minlength=tables.CATEGORIES)
        assert (tables.three_card_futures()[tables.number_of(*three)] == expected).all()


@pytest.mark.parametrize(
    ("size", "futures"), [(3, tables.three_card_futures), (4, tables.four_card_futures)]
)
def test_hands_have_the_same_future_exactly_where_they_have_the_same_profile(
    size: int, futures: object
) -> None:
    known = all_profiles(size)
    assert callable(futures)
    assert (np.array(known.futures)[known.of_hand] == futures()).all()
    assert len(known.profiles) == len(set(known.futures)) == 33
    assert sum(known.sizes) == math.comb(52, size)


def test_a_swap_of_suits_leaves_the_kind_of_a_hand() -> None:
    sample = random.Random(4)
    kinds = tables.kinds(4)
    assert (len(tables.kinds(3).examples), len(kinds.examples)) == (1755, 16432)
    for _ in range(200):
        four = sample.sample(range(52), 4)
        swap = sample.sample(range(4), 4)
        swapped = [card // 4 * 4 + swap[card % 4] for card in four]
        assert kinds.kind[tables.number_of(*four)] == kinds.kind[tables.number_of(*swapped)]


def test_shared_tables_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        tables.five_categories()[0] = 3

"""The best play: nothing beats it, its rules say it exactly, and mistakes cost what they cost."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.doors.letitride.cards import tables
from runyard.doors.letitride.cards.facts import HandFacts
from runyard.doors.letitride.cards.paytables import STANDARD, MainTable
from runyard.doors.letitride.cards.profiles import all_profiles
from runyard.doors.letitride.cards.tables import Decisions
from runyard.doors.letitride.config.conditions import parse
from runyard.doors.letitride.exact import tally as exact
from runyard.doors.letitride.exact.rules import rules
from runyard.doors.letitride.game.optimal import SIZES, choices, mistakes, optimal
from runyard.doors.letitride.game.strategies import (
    Aggressive,
    Always,
    Conservative,
    Custom,
    Strategy,
    decisions_of,
)

pays = st.integers(0, 60) | st.fractions(0, 5, max_denominator=4)
paytables = st.builds(MainTable, st.integers(0, 20_000), st.integers(0, 900), *[pays] * 7)


def ev(decisions: Decisions, table: MainTable) -> Fraction:
    return exact.figures(exact.Tally(decisions), table).ev


def custom(table: MainTable) -> Custom:
    """The rules of the best play as a custom strategy."""
    bet1, bet2 = (
        tuple((parse(rule.condition), True) for rule in rules(choices(bet, table))) for bet in SIZES
    )
    return Custom(bet1, bet2)


def test_four_card_hands_that_neither_win_nor_lose_are_counted_apart() -> None:
    zero = [choice for bet in SIZES for choice in choices(bet, STANDARD) if not choice.worth]
    assert sum(choice.hands for choice in zero) == 2268
    assert not any(choice.ride for choice in zero)
    assert {choice.bet for choice in zero} == {"bet2"}


@pytest.mark.parametrize("bet", SIZES)
def test_no_change_of_play_for_any_profile_beats_the_best_one(bet: str) -> None:
    best = optimal(STANDARD)
    top = ev(best, STANDARD)
    for place, choice in enumerate(choices(bet, STANDARD)):
        flipped = getattr(best, bet) ^ (all_profiles(SIZES[bet]).of_hand == place)
        changed = ev(best._replace(**{bet: flipped.astype(np.uint8)}), STANDARD)
        lost = abs(choice.worth) * choice.hands / len(flipped)
        assert changed == top - lost <= top


@given(paytables, st.integers(0, 2**32))
@settings(max_examples=10)
def test_no_random_change_of_play_beats_the_best_one(table: MainTable, seed: int) -> None:
    best = optimal(table)
    random = np.random.default_rng(seed)
    share = random.choice([1e-4, 0.01, 0.5])
    changed = Decisions(*(each ^ (random.random(len(each)) < share) for each in best))
    loss = ev(best, table) - ev(changed, table)
    assert loss >= 0
    assert sum((mistake.cost for mistake in mistakes(changed, table)), Fraction()) == loss


def test_the_standard_rules_are_few() -> None:
    assert [rule.condition for rule in rules(choices("bet1", STANDARD))] == [
        "has_paying_hand",
        "is_flush_draw and straights == 3",
        "is_flush_draw and straights >= 2 and high_cards >= 1",
        "is_flush_draw and straights >= 1 and high_cards >= 2",
    ]
    assert [rule.condition for rule in rules(choices("bet2", STANDARD))] == [
        "has_paying_hand",
        "is_flush_draw",
        "straights == 2 and high_cards >= 1",
    ]


@given(paytables)
@settings(max_examples=150)
def test_the_rules_hold_for_exactly_the_profiles_that_ride(table: MainTable) -> None:
    for bet, size in SIZES.items():
        conditions = [parse(rule.condition) for rule in rules(choices(bet, table))]
        known = all_profiles(size)
        for place, choice in enumerate(choices(bet, table)):
            number = int(np.argmax(known.of_hand == place))
            hand = HandFacts(tables.hands(size)[:, number].tolist())
            assert any(condition.holds(hand) for condition in conditions) == choice.ride


@pytest.mark.parametrize(
    "table",
    [
        STANDARD,
        MainTable.of({"flush": 4, "straight": 9}, STANDARD),
        MainTable.of({"pair_tens_or_better": 2, "three_of_a_kind": 4}, STANDARD),
        MainTable(20_000, 50, 0, 2, 3, 40, 0, 2, 3),
        MainTable(0, 0, 0, 0, 0, 0, 0, 0, 0),
        MainTable(60, 60, 60, 60, 60, 60, 60, 60, 60),
    ],
    ids=["standard", "straights", "generous", "odd", "nothing", "plenty"],
)
def test_the_rules_play_every_hand_as_the_best_play_does(table: MainTable) -> None:
    played = decisions_of(custom(table))
    assert played.digest == optimal(table).digest


class Superstitious:
    """Rides whatever has the ace of spades."""

    def ride_bet1(self, hand: HandFacts) -> bool:
        return 51 in hand.cards

    ride_bet2 = ride_bet1


@pytest.mark.parametrize(
    "strategy",
    [Always(True), Always(False), Conservative(), Aggressive(), Superstitious()],
    ids=lambda strategy: type(strategy).__name__.lower(),
)
def test_mistakes_add_up_to_what_a_strategy_loses_and_the_dearest_come_first(
    strategy: Strategy,
) -> None:
    played = decisions_of(strategy)
    found = mistakes(played, STANDARD)
    costs = [mistake.cost for mistake in found]
    assert sum(costs) == ev(optimal(STANDARD), STANDARD) - ev(played, STANDARD)
    assert costs == sorted(costs, reverse=True)
    assert all(cost > 0 for cost in costs)


def test_a_strategy_that_knows_suits_by_name_is_asked_about_every_hand() -> None:
    played = decisions_of(Superstitious())
    assert played.bet1.sum() == 51 * 50 // 2
    assert played.bet2.sum() == 51 * 50 * 49 // 6


def test_the_best_play_makes_no_mistakes() -> None:
    assert mistakes(optimal(STANDARD), STANDARD) == []


def test_the_known_rule_books_lose_what_is_known_against_the_best_play() -> None:
    """They pull four of a kind on four cards, and ride A-2-4 and A-3-4 suited."""
    best = optimal(STANDARD)
    bet1, bet2 = best.bet1.copy(), best.bet2.copy()
    for suit in range(4):
        for other in (0, 1):
            bet1[tables.number_of(48 + suit, 4 * other + suit, 8 + suit)] = 1
    for rank in range(13):
        bet2[tables.number_of(*range(4 * rank, 4 * rank + 4))] = 0
    found = mistakes(Decisions(bet1, bet2), STANDARD)
    assert [mistake.hands for mistake in found] == [13, 8]
    assert round(float(sum(mistake.cost for mistake in found)), 4) == 0.0024

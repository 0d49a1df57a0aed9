"""The parts of a session: facts, conditions, strategies, betting systems, the bonus, the cards."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.doors.letitride import BettingSystemFactory, FullConfig, HandFacts, Strategy
from runyard.doors.letitride.cards.cards import RANKS, SUITS
from runyard.doors.letitride.cards.facts import COUNTS, FLAGS
from runyard.doors.letitride.cards.generator import (
    SESSION_KEY,
    Generator,
    deals,
    discarded,
    session_seeds,
)
from runyard.doors.letitride.config.conditions import parse
from runyard.doors.letitride.game import bonus as bonuses
from runyard.doors.letitride.game.bonus import Standing, bonus_of
from runyard.doors.letitride.game.game import game_of
from runyard.errors import UsageError
from runyard.spec.seeds import sequence


def hand(text: str) -> HandFacts:
    return HandFacts([RANKS.index(card[0]) * 4 + SUITS.index(card[1]) for card in text.split()])


@pytest.mark.parametrize(
    ("cards", "facts"),
    [
        ("Tc Jc Qc", {"is_royal_draw": True, "straight_flush_spread": 3, "gaps": 0,
                      "is_open_straight_draw": True, "suited_high_cards": 3}),
        ("As 2d 3h", {"connected_cards": 3, "is_straight_draw": True,
                      "is_open_straight_draw": False, "is_inside_straight_draw": True}),
        ("Qs Kd Ah 9c", {"is_straight_draw": False, "high_cards": 3}),
        ("9s Td Jh Ks", {"gaps": 1, "is_inside_straight_draw": True, "suited_cards": 2}),
        ("Ts Td 4h", {"has_high_pair": True, "has_paying_hand": True, "is_straight_draw": False}),
        ("9s 9d 4h", {"has_pair": True, "has_high_pair": False, "has_paying_hand": False}),
        ("2s 2d 4h 4c", {"has_paying_hand": True, "has_trips": False}),
        ("2s 2d 2h", {"has_trips": True, "has_paying_hand": True}),
        ("2s 5s 9s Ks", {"is_flush_draw": True, "straight_flush_spread": 12}),
        ("2s 5s 9s Kd", {"is_flush_draw": False, "straight_flush_spread": 14}),
    ],
)  # fmt: skip
def test_facts_of_a_hand(cards: str, facts: dict[str, Any]) -> None:
    known = hand(cards)
    assert {name: getattr(known, name) for name in facts} == facts


@given(st.lists(st.integers(0, 51), min_size=3, max_size=4, unique=True), st.permutations(range(4)))
def test_facts_don_t_know_which_suit_is_which(cards: list[int], swap: list[int]) -> None:
    swapped = [card // 4 * 4 + swap[card % 4] for card in cards]
    for name in (*COUNTS, *FLAGS):
        assert getattr(HandFacts(cards), name) == getattr(HandFacts(swapped), name)


@pytest.mark.parametrize(
    ("text", "cards", "holds"),
    [
        ("has_pair", "9s 9d 4h", True),
        ("not has_pair and high_cards == 0", "9s 8d 4h", True),
        ("HAS_PAIR or default".lower(), "9s 8d 4h", True),
        ("(high_cards >= 1 or has_pair) and suited_cards < 3", "Ts 8d 4h", True),
        ("not (high_cards > 2)", "Ts Jd Qh", False),
        ("gaps != 0", "Ts Jd Qh", False),
        ("has_pair == false AND 2 <= high_cards", "Ts Jd 2h", True),
    ],
)
def test_conditions_hold_or_not(text: str, cards: str, holds: bool) -> None:
    assert parse(text).holds(hand(cards)) is holds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "found the end"),
        ("high_cards", "found only a number"),
        ("luck > 2", "no fact 'luck'"),
        ("__import__('os')", "no fact '__import__'"),
        ("high_cards[0] > 1", "has no meaning here"),
        ("high_cards = 2", "'=' has no meaning"),
        ("has_pair has_trips", "expected 'and', 'or' or the end"),
        ("1 < high_cards < 3", "'or' or the end and found '<'"),
        ("(has_pair", "expected ')'"),
        ("not " * 60 + "has_pair", "nests deeper"),
        ("has_pair or " * 120 + "has_pair", "more than 200"),
    ],
)
def test_a_condition_that_can_t_be_read_points_at_the_place(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert problem in caught.value.message
    assert "^" in caught.value.message


STRENGTHS = {
    "Ks Qs Js": 0, "Ks Qd 2s 7h": 0, "9s 9d 4h": 1, "Ks 9s 9d 4h": 1, "Ts Td 4h": 3,
    "As Ad 4h 3h": 3, "2s 2d 4h 4c": 5, "2s 2d 2h": 7, "2s 2d 2h Ac": 7, "2s 2d 2h 2c": 9,
}  # fmt: skip


@pytest.mark.parametrize(("cards", "strength"), STRENGTHS.items())
def test_a_conservative_player_rides_from_the_strength_it_is_told(
    cards: str, strength: int
) -> None:
    name = "min_strength_bet1" if cards.count(" ") == 2 else "min_strength_bet2"
    rides = []
    for least in range(1, 11):
        block = {"type": "conservative", "conservative": {name: least}}
        player = game_of(FullConfig.from_data({"strategy": block})).strategy
        decide = player.ride_bet1 if name == "min_strength_bet1" else player.ride_bet2
        rides.append(decide(hand(cards)))
    assert rides == [least <= strength for least in range(1, 11)]


@given(st.lists(st.integers(0, 51), min_size=3, max_size=4, unique=True))
def test_a_hand_of_strength_3_or_more_wins_already(cards: list[int]) -> None:
    assert (HandFacts(cards).strength >= 3) == HandFacts(cards).has_paying_hand


def test_the_strongest_of_all_leaves_draws_to_a_royal_flush() -> None:
    block = {"made_hands_only": False, "min_strength_bet1": 10, "min_strength_bet2": 10}
    config = {"strategy": {"type": "conservative", "conservative": block}}
    player = game_of(FullConfig.from_data(config)).strategy
    assert player.ride_bet1(hand("Ks Qs Js"))
    assert not player.ride_bet2(hand("2s 2d 2h 2c"))


def bets(system: dict[str, Any], results: list[int], bankroll: int = 50_000) -> list[float]:
    """What a system bets, in dollars, while hands come out like this."""
    made = BettingSystemFactory(
        FullConfig.from_data({"bankroll": {"betting_system": system}})
    ).create()
    found = [made.next_bet(bankroll)]
    for result in results:
        made.record(result)
        found.append(made.next_bet(bankroll))
    return [bet / 100 for bet in found]


@pytest.mark.parametrize(
    ("system", "results", "expected"),
    [
        ({"type": "flat"}, [-1, 1, -1], [5, 5, 5, 5]),
        ({"type": "martingale"}, [-1, -1, 0, 1, -1], [5, 10, 20, 20, 5, 10]),
        ({"type": "martingale", "martingale": {"max_progressions": 4}},
         [-1, -1, -1, -1, -1, 1], [5, 10, 20, 40, 40, 40, 5]),
        ({"type": "martingale", "martingale": {"max_progressions": 1}}, [-1, -1], [5, 5, 5]),
        ({"type": "martingale", "martingale": {"max_bet": 15, "reset_on_win": False}},
         [-1, -1, 1, -1], [5, 10, 15, 15, 15]),
        ({"type": "reverse_martingale"}, [1, 1, 1, 1, -1], [5, 10, 20, 5, 10, 5]),
        ({"type": "reverse_martingale", "reverse_martingale": {"reset_on_loss": False}},
         [1, -1, 1], [5, 10, 10, 20]),
        ({"type": "paroli", "paroli": {"wins_before_reset": 2}}, [1, 1, 1], [5, 10, 5, 10]),
        ({"type": "paroli"}, [1, 1, 1, 1, -1], [5, 10, 20, 5, 10, 5]),
        ({"type": "dalembert"}, [-1, -1, 1, 1, 1], [5, 10, 15, 10, 5, 5]),
        ({"type": "dalembert", "dalembert": {"unit": 10, "decrease_unit": 3, "max_bet": 20}},
         [-1, -1, 1], [5, 15, 20, 17]),
        ({"type": "fibonacci"}, [-1, -1, -1, -1, 1, 1], [5, 5, 10, 15, 25, 10, 5]),
        ({"type": "fibonacci", "fibonacci": {"max_position": 2}}, [-1, -1, -1], [5, 5, 10, 10]),
    ],
)  # fmt: skip
def test_betting_systems_bet_what_they_are_known_for(
    system: dict[str, Any], results: list[int], expected: list[float]
) -> None:
    assert bets(system, results) == expected


@pytest.mark.parametrize(
    ("bankroll", "bet"), [(50_000, 15), (50_099, 15), (4_000, 5), (1_000_000, 100)]
)
def test_a_proportional_bet_follows_the_bankroll_between_its_limits(
    bankroll: int, bet: float
) -> None:
    assert bets({"type": "proportional"}, [], bankroll) == [bet]


def bonus(block: dict[str, Any]) -> Any:
    config = FullConfig.from_data({"bonus_strategy": {"enabled": True, **block}})
    return bonus_of(bonuses.rule_of(config))


def test_a_conditional_bonus_is_bet_while_the_session_goes_well() -> None:
    made = bonus({"type": "bankroll_conditional", "bankroll_conditional": {"base_amount": 2}})
    assert made.next_bet(Standing(50_000, 0, 50_000)) == 200
    assert made.next_bet(Standing(49_999, -1, 50_000)) == 0
    assert made.next_bet(Standing(60_000, 10_000, 90_000)) == 0, "too far below the peak"
    tiers = {"enabled": True, "tiers": [{"min_profit": 100, "bet_amount": 10}]}
    made = bonus({"type": "bankroll_conditional", "bankroll_conditional": {"scaling": tiers}})
    assert made.next_bet(Standing(60_000, 10_000, 60_000)) == 1000
    made = bonus({"type": "bankroll_conditional",
                  "bankroll_conditional": {"profit_percentage": 0.05}})  # fmt: skip
    assert made.next_bet(Standing(55_050, 5_050, 55_050)) == 200, "down to a whole increment"
    assert made.next_bet(Standing(500_000, 450_000, 500_000)) == 2500, "the table's limit"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ({"type": "multiply", "value": 2}, [1, 1, 2, 2, 4, 1]),
        ({"type": "increase", "value": 3}, [1, 1, 4, 4, 5, 1]),
        ({"type": "stop"}, [1, 1, 0, 0, 0, 1]),
        ({"type": "start"}, [0, 0, 1, 1, 1, 0]),
    ],
)
def test_a_bonus_by_streaks_follows_them_and_is_reset(
    action: dict[str, Any], expected: list[float]
) -> None:
    block = {"trigger": "main_loss", "streak_length": 2, "reset_on": "main_win", "action": action}
    made = bonus({"type": "streak_based", "streak_based": block})
    found = [made.next_bet(Standing(0, 0, 0))]
    for main in (-1, -1, -1, -1, 1):
        made.record(main, 0)
        found.append(made.next_bet(Standing(0, 0, 0)))
    assert [bet / 100 for bet in found] == expected


@pytest.mark.parametrize("root", [0, 7, 2**32, 2**63 - 1, 2**128 + 5])
def test_session_seeds_are_those_of_the_engine(root: int) -> None:
    found = session_seeds(root, 1000, 50)
    for at in (0, 1, 49):
        expected = sequence(root, SESSION_KEY, 1000 + at).generate_state(2, np.uint64)
        np.testing.assert_array_equal(found[at], expected)
    np.testing.assert_array_equal(session_seeds(root, 1020, 1)[0], found[20])


def test_seeds_of_a_million_sessions_differ() -> None:
    seeds = session_seeds(1, 0, 1_000_000)
    assert len(np.unique(seeds.view([("a", "u8"), ("b", "u8")]))) == 1_000_000


def test_the_generator_is_xoroshiro128_plus_plus() -> None:
    """The first numbers of the authors' own program from the state 1, 2."""
    made = Generator(1, 2)
    expected = [393217, 669327710093319, 1732421326133921491, 11394790081659126983]
    assert [made.next() for _ in range(4)] == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 6))
@settings(max_examples=50)
def test_no_card_is_dealt_twice(first: int, second: int, seats: int) -> None:
    for number, deal in enumerate(islice(deals((first, second), seats), 20)):
        away = discarded((first, second), number, deal, 10)
        cards = [card for own in deal.seats for card in own] + [*deal.community, *away]
        assert len(set(cards)) == len(cards) == 3 * seats + 12
        assert all(0 <= card < 52 for card in cards)


@pytest.mark.parametrize("kind", ["basic", "conservative", "aggressive", "always_ride"])
def test_every_named_strategy_is_a_strategy(kind: str) -> None:
    game = game_of(FullConfig.from_data({"strategy": {"type": kind}}))
    assert isinstance(game.strategy, Strategy)
    assert game.decisions.bet1.shape == (22_100,)


def test_aggressive_rides_what_it_is_told_to() -> None:
    keys = ("ride_on_draws", "include_gutshots", "include_backdoor_flush")

    def rides(cards: str, **off: bool) -> bool:
        block = {"type": "aggressive", "aggressive": dict.fromkeys(keys, True) | off}
        strategy = game_of(FullConfig.from_data({"strategy": block})).strategy
        known = hand(cards)
        return (strategy.ride_bet1 if len(known.cards) == 3 else strategy.ride_bet2)(known)

    assert rides("2s 5s 9s")
    assert not rides("2s 5s 9s", include_backdoor_flush=False)
    assert rides("5s 7d 9h")
    assert not rides("5s 7d 9h", include_gutshots=False)
    assert rides("5s 6d 7h", include_gutshots=False)
    assert not rides("5s 6d 7h 8c", ride_on_draws=False)
    assert rides("Ks Kd 7h 8c", ride_on_draws=False)
    assert not rides("2s 5d 9h")

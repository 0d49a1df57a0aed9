"""The exact figures, as rational numbers, and against dealing every card in plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from runyard.doors.letitride.cards import tables
from runyard.doors.letitride.cards.cards import five_card_category
from runyard.doors.letitride.cards.facts import HandFacts
from runyard.doors.letitride.cards.paytables import BONUS, STANDARD, MainTable
from runyard.doors.letitride.exact import tally as exact
from runyard.doors.letitride.game.optimal import optimal
from runyard.doors.letitride.game.strategies import (
    Aggressive,
    Always,
    Basic,
    Conservative,
    Strategy,
    decisions_of,
)

CUSTOM = [
    MainTable.of({"flush": 6, "straight": "9/2", "royal_flush": 500}, STANDARD),
    MainTable(20_000, 50, 0, 2, 3, 12, 0, 2, 1.25),
    MainTable(500, 100, 25, 8, 6, 4, 2, 1, 0),
]


@pytest.fixture(scope="module")
def best() -> exact.ExactFigures:
    return exact.figures(exact.Tally(optimal(STANDARD)), STANDARD)


def figures_of(strategy: Strategy, table: MainTable = STANDARD) -> exact.ExactFigures:
    return exact.figures(exact.Tally(decisions_of(strategy)), table)


def test_the_best_play_has_the_known_value_by_bet_and_in_all(best: exact.ExactFigures) -> None:
    assert best.ev == Fraction(-37963, 1082900) == -best.house_edge
    assert best.ev_by_bet["bet1"] == Fraction(354517, 3248700)
    assert best.ev_by_bet["bet2"] == Fraction(742459, 3248700)
    assert float(best.ev_by_bet["bet3"]) == pytest.approx(-0.3727229353, abs=5e-11)
    assert sum(best.ev_by_bet.values()) == sum(best.ev_by_hand.values()) == best.ev


def test_the_best_play_rides_as_often_as_is_known(best: exact.ExactFigures) -> None:
    assert best.ride_hands == {"bet1": 1608, "bet2": 40865}
    assert best.ride == {"bet1": Fraction(1608, 22100), "bet2": Fraction(40865, 270725)}
    ends = [round(100 * float(share), 4) for share in best.bets_at_end.values()]
    assert ends == [84.5651, 8.4990, 6.9358]
    assert sum(best.bets_at_end.values()) == 1


def test_the_best_play_has_the_known_wager_risk_and_spread(best: exact.ExactFigures) -> None:
    assert round(float(best.average_wager), 7) == 1.2237067
    assert best.average_wager == 1 + sum(best.ride.values())
    assert round(100 * float(best.element_of_risk), 5) == 2.86480
    assert round(best.standard_deviation, 5) == 5.15807
    assert round(100 * float(best.win), 4) == 23.8780
    assert best.win + best.push + best.loss == 1


def test_always_pulling_and_always_riding_have_the_known_values() -> None:
    pulled, ridden = figures_of(Always(False)), figures_of(Always(True))
    assert round(float(pulled.ev), 7) == -0.3727229
    assert round(float(ridden.ev), 7) == -1.1181688
    assert ridden.ev == 3 * pulled.ev
    assert ridden.variance == 9 * pulled.variance
    assert (pulled.average_wager, ridden.average_wager) == (1, 3)


def test_hands_are_as_frequent_as_is_known() -> None:
    assert exact.five_card_counts() == [
        4, 36, 624, 3744, 5108, 10200, 54912, 123552, 422400, 675840, 1302540,
    ]  # fmt: skip
    assert exact.three_card_counts() == [4, 44, 52, 720, 1096, 3744, 16440]


def test_the_bonus_has_the_known_edge() -> None:
    edges = {name: exact.bonus_figures(table).house_edge for name, table in BONUS.items()}
    assert edges["paytable_a"] == Fraction(1568, 22100)
    assert edges["paytable_b"] == Fraction(992, 22100)
    assert round(100 * float(edges["paytable_c"]), 3) == -46.914


def test_a_hand_that_pays_nothing_back_is_a_push() -> None:
    found = figures_of(Always(False), MainTable(500, 100, 25, 8, 6, 4, 2, 1, 0))
    assert found.push == Fraction(422400, 2598960)


def dealt(strategy: Strategy, table: MainTable, three: Sequence[int]) -> tuple[Fraction, Fraction]:
    """The mean and the mean square of a hand from three cards on, by dealing every card."""
    rest = [card for card in range(52) if card not in three]
    total = square = Fraction()
    first = strategy.ride_bet1(HandFacts(three))
    for fourth in rest:
        bets = 1 + first + strategy.ride_bet2(HandFacts([*three, fourth]))
        for fifth in rest:
            if fifth != fourth:
                result = bets * table.pays[five_card_category([*three, fourth, fifth])]
                total += result
                square += result**2
    return total / (49 * 48), square / (49 * 48)


@pytest.mark.parametrize("table", CUSTOM, ids=["shaved", "odd", "pushing"])
@pytest.mark.parametrize("name", ["basic", "conservative", "aggressive"])
def test_three_cards_are_worth_what_dealing_every_further_card_gives(
    table: MainTable, name: str
) -> None:
    strategy: Strategy = {
        "basic": Basic(table), "conservative": Conservative(), "aggressive": Aggressive(),
    }[name]  # fmt: skip
    decisions = decisions_of(strategy)
    sample = random.Random(f"{name} {table}")
    riding = np.flatnonzero(decisions.bet1)
    some = [int(sample.choice(riding)) for _ in range(3)]
    for number in [*some, *sample.sample(range(tables.THREES), 5)]:
        three = tables.hands(3)[:, number].tolist()
        mean, _ = dealt(strategy, table, three)
        assert mean == _from_tables(decisions, table, three)


def _from_tables(decisions: tables.Decisions, table: MainTable, three: Sequence[int]) -> Fraction:
    total = Fraction()
    first = int(decisions.bet1[tables.number_of(*three)])
    for fourth in (card for card in range(52) if card not in three):
        number = tables.number_of(*three, fourth)
        ways = tables.four_card_futures()[number].tolist()
        gain = sum(n * pay for n, pay in zip(ways, table.pays, strict=True))
        total += (1 + first + int(decisions.bet2[number])) * gain
    return total / (49 * 48)


@pytest.mark.parametrize("table", CUSTOM, ids=["shaved", "odd", "pushing"])
def test_the_tally_adds_up_what_every_three_cards_are_worth(table: MainTable) -> None:
    decisions = decisions_of(Aggressive())
    tally = exact.Tally(decisions)
    scale = math.lcm(*(Fraction(pay).denominator for pay in table.pays))
    pays = np.array([int(pay * scale) for pay in table.pays])
    fours = tables.four_card_futures().astype(np.int64) @ pays
    total = 0
    for dealt_three in tables.numbers_without(tables.hands(4)):
        bets = 1 + decisions.bet1[dealt_three].astype(np.int64) + decisions.bet2
        total += int(bets @ fours)
    assert exact.figures(tally, table).ev == Fraction(total, scale * exact.DEALS)
    assert tally.counts.sum() == exact.DEALS


def test_the_results_of_a_hand_have_the_mean_and_spread_of_the_figures(
    best: exact.ExactFigures,
) -> None:
    tally = exact.Tally(optimal(STANDARD))
    results = tally.results(STANDARD.pays, [0] * 7)  # type: ignore[arg-type]
    assert sum(results.values()) == exact.DEALS
    mean = Fraction(sum(result * count for result, count in results.items()), exact.DEALS)
    square = Fraction(sum(result**2 * count for result, count in results.items()), exact.DEALS)
    assert (mean, square - mean**2) == (best.ev, best.variance)


def test_the_bonus_adds_its_own_mean_to_the_results() -> None:
    tally = exact.Tally(optimal(STANDARD))
    bonus = BONUS["paytable_b"]
    results = tally.results([5 * pay for pay in STANDARD.pays], bonus.pays)  # type: ignore
    mean = Fraction(sum(result * count for result, count in results.items()), exact.DEALS)
    assert mean == 5 * Fraction(-37963, 1082900) + exact.bonus_figures(bonus).ev


@pytest.mark.slow
def test_dealing_every_hand_in_plain_python_gives_the_known_value() -> None:
    kinds = tables.kinds(3)
    basic = Basic(STANDARD)
    ev = square = Fraction()
    sizes = np.bincount(kinds.kind).tolist()
    for number, size in zip(kinds.examples.tolist(), sizes, strict=True):
        mean, mean_square = dealt(basic, STANDARD, tables.hands(3)[:, number].tolist())
        ev += mean * size
        square += mean_square * size
    assert ev / tables.THREES == Fraction(-37963, 1082900)
    found = figures_of(basic)
    assert square / tables.THREES == found.variance + found.ev**2

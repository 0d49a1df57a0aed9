"""Simulated figures against exact ones, which come from counting every hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runyard.doors.letitride import FullConfig
from runyard.doors.letitride.cards.generator import session_seeds
from runyard.doors.letitride.engine import play as engine
from runyard.doors.letitride.game.game import game_of
from runyard.doors.letitride.report.aggregate import Aggregate

SMALL = 10_000  # sessions of 200 hands
TABLES: list[dict[str, Any]] = [
    {"pair_tens_or_better": 2, "two_pair": 3},
    {"royal_flush": 500, "flush": 5, "straight": 4, "full_house": 8},
    {"pair_tens_or_better": 0, "three_of_a_kind": 6.5, "straight": 12},
]


def played(data: dict[str, Any], sessions: int, root: int = 2024) -> Aggregate:
    """The figures of so many sessions, a part at a time."""
    config = FullConfig.from_data({"bankroll": {"starting_amount": 1_000_000}, **data})
    found, game = Aggregate(config), game_of(config)
    for first in range(0, sessions, 20_000):
        count = min(20_000, sessions - first)
        found.add(engine.play(game, session_seeds(root, first, count)).columns)
    return found


def agrees(found: Aggregate, *names: str) -> None:
    figures = found.figures()
    for name in names:
        assert abs(figures[name]["z"] or 0) < 4, (name, figures[name])
    assert found.chi_square()[1] > 1e-4


def games() -> list[Any]:
    strategies = ["basic", "conservative", "aggressive", "always_ride", "always_pull"]
    made = [pytest.param({"strategy": {"type": name}}, id=name) for name in strategies]
    for at, pays in enumerate(TABLES):
        main = {"paytables": {"main_game": {"type": "custom", "custom": pays}}}
        made.append(pytest.param(main, id=f"custom table {at + 1}"))
    return made


@pytest.mark.parametrize("data", games())
def test_two_million_hands_agree_with_the_exact_figures(data: dict[str, Any]) -> None:
    agrees(played(data, SMALL), "ev_per_hand", "element_of_risk")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("data", games())
def test_two_hundred_million_hands_agree_with_the_exact_figures(data: dict[str, Any]) -> None:
    found = played(data, 1_000_000)
    assert found.hands >= 200_000_000
    agrees(found, "ev_per_hand", "element_of_risk")


@pytest.mark.parametrize("paytable", ["paytable_a", "paytable_b", "paytable_c"])
def test_the_bonus_has_its_exact_edge(paytable: str) -> None:
    bonus = {"enabled": True, "type": "always", "paytable": paytable}
    agrees(played({"bonus_strategy": bonus}, SMALL), "bonus_edge", "ev_per_hand")


@pytest.mark.parametrize(
    "kind", ["martingale", "reverse_martingale", "paroli", "dalembert", "fibonacci", "proportional"]
)
def test_no_betting_system_changes_the_loss_per_unit_at_risk(kind: str) -> None:
    bankroll = {"starting_amount": 2_000, "base_bet": 5, "betting_system": {"type": kind},
                "stop_conditions": {"win_limit": 500, "loss_limit": 1_000}}  # fmt: skip
    found = played({"bankroll": bankroll}, SMALL)
    agrees(found, "element_of_risk")
    assert "ev_per_hand" not in found.exact


def test_further_seats_are_dealt_as_well_as_the_first() -> None:
    found = played({"table": {"num_seats": 4}, "simulation": {"hands_per_session": 100}}, 6_000)
    agrees(found, "ev_per_hand", "element_of_risk")
    game = game_of(FullConfig.from_data({"table": {"num_seats": 4}}))
    columns = engine.play(game, session_seeds(5, 0, 4_000)).columns
    for seat in range(4):
        counts = columns["hand_counts"][seat::4].sum(axis=0)
        alone = Aggregate(FullConfig())
        alone.first_seat_counts = counts.astype(np.int64)
        assert alone.chi_square()[1] > 1e-4, seat


def test_a_biased_deck_would_be_noticed() -> None:
    found = played({}, 1_000)
    found.first_seat_counts[7] *= 2
    assert found.chi_square()[1] < 1e-6
    found.ratios["ev_per_hand"].add_array([1e6], [1])
    assert found.ratios["ev_per_hand"].value > 1

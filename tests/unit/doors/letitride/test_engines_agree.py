"""The compiled kernel and the plain reference play the same sessions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letitride_configs import configurations

from runyard.doors.letitride import BettingSystemFactory
from runyard.doors.letitride.cards.generator import session_seeds
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine import play as engine
from runyard.doors.letitride.engine import reference
from runyard.doors.letitride.game.game import game_of


@given(configurations(), st.integers(0, 2**64))
@settings(max_examples=150, deadline=None)
def test_the_same_seed_gives_the_same_session_to_the_cent_in_both(
    config: FullConfig, root: int
) -> None:
    game, seeds = game_of(config), session_seeds(root, 0, 3)
    fast = engine.play(game, seeds, log=True)
    plain = engine.play_plain(game, seeds, reference.players_of(game), log=True)
    assert fast.columns.keys() == plain.columns.keys()
    for name, values in plain.columns.items():
        np.testing.assert_array_equal(fast.columns[name], values, err_msg=name)
    assert fast.log is not None
    np.testing.assert_array_equal(fast.log, plain.log)


@given(configurations(), st.integers(0, 2**64))
@settings(max_examples=100, deadline=None)
def test_no_bankroll_is_ever_below_zero(config: FullConfig, root: int) -> None:
    game = game_of(config)
    played = engine.play(game, session_seeds(root, 0, 50), log=True)
    hands = played.columns["hands_played"]
    assert played.log is not None
    lines = played.log.reshape(len(hands), game.hands, -1)
    in_play = np.arange(game.hands)[None, :] < hands[:, None]
    bankrolls, bets, bonus = lines[:, :, 7], lines[:, :, 3], lines[:, :, 4]
    assert (bankrolls >= 0).all()
    before = np.concatenate([np.full((len(hands), 1), game.start), bankrolls[:, :-1]], axis=1)
    assert (3 * bets + bonus <= before)[in_play].all()
    assert (bets[in_play] > 0).all()


@given(configurations(), st.integers(0, 2**64))
@settings(max_examples=60, deadline=None)
def test_what_a_session_records_adds_up(config: FullConfig, root: int) -> None:
    game = game_of(config)
    found = engine.play(game, session_seeds(root, 0, 40)).columns
    profit = found["main_profit"] + found["bonus_profit"]
    assert (found["final_bankroll"] - game.start == profit).all()
    assert (found["hand_counts"].sum(axis=1) == found["hands_played"]).all()
    assert (found["peak_bankroll"] >= np.maximum(found["final_bankroll"], game.start)).all()
    assert (found["max_drawdown"] >= found["peak_bankroll"] - found["final_bankroll"]).all()
    assert ((found["max_drawdown_pct"] >= 0) & (found["max_drawdown_pct"] <= 1)).all()
    assert (found["hands_played"] <= game.hands).all()
    full = found["stop_reason"] == 2
    assert (found["hands_played"][full] == game.hands).all()


@pytest.mark.parametrize("step", [1, 7, 64])
def test_the_size_of_a_step_changes_nothing(step: int) -> None:
    game, seeds = game_of(FullConfig()), session_seeds(3, 0, 20)
    heard: list[int] = []
    whole = engine.play(game, seeds)
    stepped = engine.play(game, seeds, step=step, tick=heard.append)
    for name, values in whole.columns.items():
        np.testing.assert_array_equal(stepped.columns[name], values)
    assert heard == sorted(heard)
    assert heard[-1] == 20


def test_the_first_seat_sees_the_same_cards_in_any_company() -> None:
    alone = engine.play(game_of(FullConfig()), session_seeds(11, 0, 30)).columns
    for seats in (2, 6):
        config = FullConfig.from_data({"table": {"num_seats": seats}})
        company = engine.play(game_of(config), session_seeds(11, 0, 30)).columns
        for name, values in alone.items():
            np.testing.assert_array_equal(company[name][::seats], values)


@pytest.mark.parametrize("kind", ["martingale", "reverse_martingale", "paroli", "fibonacci"])
def test_a_progression_follows_the_net_result_of_a_hand(kind: str) -> None:
    config = FullConfig.from_data(
        {
            "simulation": {"hands_per_session": 60},
            "bankroll": {"starting_amount": 100_000, "betting_system": {"type": kind}},
            "bonus_strategy": {"enabled": True, "type": "always", "always": {"amount": 25}},
        }
    )
    game, seeds = game_of(config), session_seeds(5, 0, 20)
    for played in (
        engine.play(game, seeds, log=True),
        engine.play_plain(game, seeds, reference.players_of(game), log=True),
    ):
        assert played.log is not None
        lines = played.log.reshape(20, 60, -1)
        main, net = lines[:, :, 5], lines[:, :, 5] + lines[:, :, 6]
        assert (main * net < 0).any(), "the bonus turns some hands"
        for session in range(20):
            system = BettingSystemFactory(config).create()
            for hand in range(60):
                assert lines[session, hand, 3] == system.next_bet(0)
                system.record(int(net[session, hand]))

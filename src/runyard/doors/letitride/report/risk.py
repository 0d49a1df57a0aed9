"""The risk of ruin by bankroll: exact for flat bets, simulated for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from runyard.doors.letitride.cards.generator import session_seeds
from runyard.doors.letitride.cards.paytables import MainTable
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine.play import play
from runyard.doors.letitride.exact.ruin import Ruin, Terms, flat_ruin
from runyard.doors.letitride.exact.tally import Tally
from runyard.doors.letitride.game.betting import Ladder
from runyard.doors.letitride.game.bonus import ANYTHING, Conditions, Standing
from runyard.doors.letitride.game.game import STOP_REASONS, Game
from runyard.doors.letitride.game.game import game_of as configured_game
from runyard.doors.letitride.game.money import MILLIONTH, cents, dollars, pay_units, payout
from runyard.doors.letitride.game.strategies import Strategy, strategy_of
from runyard.errors import UsageError
from runyard.stats.intervals import wilson

BLOCK = 10_000
"""Sessions held in memory at once."""


BETS = (10, 20, 50, 100, 200)
"""Bankrolls in base bets that are asked about by default, beside the configured one."""


def default_bankrolls(config: FullConfig) -> list[int]:
    """A few starting bankrolls in cents, including the configured one."""
    own, bet = config.bankroll.starting_amount, config.bankroll.base_bet
    return sorted({cents(own), *(cents(bets * bet) for bets in BETS)})


def settled(
    config: FullConfig,
    *,
    base_bet: float | None = None,
    bonus_bet: float | None = None,
    hands: int | None = None,
    win_limit: float | None = None,
    loss_limit: float | None = None,
) -> FullConfig:
    """The configuration with those of its values replaced that are given."""
    data = config.to_data()
    bankroll, stop = data["bankroll"], data["bankroll"]["stop_conditions"]
    for place, key, value in (
        (bankroll, "base_bet", base_bet),
        (stop, "win_limit", win_limit),
        (stop, "loss_limit", loss_limit),
        (data["simulation"], "hands_per_session", hands),
    ):
        if value is not None:
            place[key] = value
    if bonus_bet is not None:
        kept = {name: data["bonus_strategy"][name] for name in ("paytable", "limits")}
        played: dict[str, Any] = {"enabled": False, "type": "never"}
        if bonus_bet > 0:
            played = {"enabled": True, "type": "always", "always": {"amount": bonus_bet}}
        data["bonus_strategy"] = kept | played
    return config.from_data(data)


def games(
    config: FullConfig, pays: MainTable | None = None, strategy: Strategy | None = None
) -> Callable[[int], Game]:
    """A function that makes the game for a bankroll; by default as configured."""
    pays = config.paytables.main_table if pays is None else pays
    played = strategy_of(config.strategy, pays) if strategy is None else strategy

    def game(bankroll: int) -> Game:
        found = configured_game(config.with_(bankroll={"starting_amount": dollars(bankroll)}))
        return replace(found, main_pays=tuple(map(pay_units, pays.pays)), strategy=played)

    return game


def risk_of_ruin(
    game_of: Callable[[int], Game],
    bankrolls: Sequence[int],
    *,
    endless: bool = False,
    sessions: int = 100_000,
    seed: int = 0,
) -> list[Ruin]:
    """How sessions end for each starting bankroll in cents.

    `endless` sessions have no limit on hands. If bets vary, `sessions` are simulated for each
    bankroll, with the same cards.
    """
    bonus_bet = flat_bonus(game_of(bankrolls[0]))
    if bonus_bet is not None:
        return _exact(game_of(bankrolls[0]), bankrolls, bonus_bet, endless)
    if endless:
        raise UsageError(
            "there is no exact answer for bets that vary, and a simulation needs a limit",
            hint="set a limit on hands",
        )
    return [_simulated(game_of(bankroll), sessions, seed) for bankroll in bankrolls]


def flat_bonus(game: Game) -> int | None:
    """The bonus bet of a game with flat bets, in cents; None for other games."""
    if not isinstance(game.betting, Ladder) or set(game.betting.bets) != {game.base}:
        return None
    if game.bonus is None:
        return 0
    if not isinstance(game.bonus, Conditions) or not _always_holds(game.bonus):
        return None
    return game.bonus.bet(Standing(game.start, 0, game.start))


def _always_holds(bonus: Conditions) -> bool:
    free = replace(bonus, least_profit=-ANYTHING, least_bankroll=0, profit_share=0, tiers=())
    return bonus == free and bonus.most_drawdown > MILLIONTH


def _exact(game: Game, bankrolls: Sequence[int], bonus_bet: int, endless: bool) -> list[Ruin]:
    main = [payout(game.base, pay) for pay in game.main_pays]
    bonus = [payout(bonus_bet, pay) for pay in game.bonus_pays]
    results = Tally(game.decisions).results(main, bonus)
    terms = (
        Terms(
            bankroll=bankroll,
            needed=3 * game.base + bonus_bet,
            win_limit=_limit(game.win_limit),
            loss_limit=_limit(game.loss_limit),
            max_hands=None if endless else game.hands,
        )
        for bankroll in bankrolls
    )
    return [flat_ruin(results, each) for each in terms]


def _limit(amount: int) -> int | None:
    return None if amount == ANYTHING else amount


def _simulated(game: Game, sessions: int, seed: int) -> Ruin:
    """Simulate sessions of one seat, and count how they end."""
    alone = replace(game, seats=1)
    ends = np.zeros(len(STOP_REASONS), dtype=np.int64)
    hands = 0
    for first in range(0, sessions, BLOCK):
        count = min(BLOCK, sessions - first)
        columns = play(alone, session_seeds(seed, first, count)).columns
        ends += np.bincount(columns["stop_reason"], minlength=len(ends))
        hands += int(columns["hands_played"].sum())
    ruined = int(ends[STOP_REASONS.index("insufficient_funds")])
    interval = wilson(ruined, sessions)
    return Ruin(
        bankroll=game.start,
        ruin=ruined / sessions,
        stops=dict(zip(STOP_REASONS, (ends / sessions).tolist(), strict=True)),
        mean_hands=hands / sessions,
        sessions=sessions,
        interval=(interval.low, interval.high),
    )

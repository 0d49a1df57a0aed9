"""The risk of ruin by bankroll: exact for bets that stay the same, simulated for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from runyard.doors.letitride.cards.generator import session_seeds
from runyard.doors.letitride.engine.play import play
from runyard.doors.letitride.exact.ruin import Ruin, Terms, flat_ruin
from runyard.doors.letitride.exact.tally import Tally
from runyard.doors.letitride.game.betting import Ladder
from runyard.doors.letitride.game.bonus import ANYTHING, Conditions, Standing
from runyard.doors.letitride.game.game import STOP_REASONS, Game
from runyard.doors.letitride.game.money import MILLIONTH, payout
from runyard.errors import UsageError
from runyard.stats.intervals import wilson

BLOCK = 10_000
"""Sessions that are held at once."""


def risk_of_ruin(
    game_of: Callable[[int], Game],
    bankrolls: Sequence[int],
    *,
    endless: bool = False,
    sessions: int = 100_000,
    seed: int = 0,
) -> list[Ruin]:
    """How sessions end that start with each bankroll, in cents.

    `endless` ones have no limit of hands. Where bets change, `sessions` are played from each
    bankroll, with the same cards.
    """
    bonus_bet = flat_bonus(game_of(bankrolls[0]))
    if bonus_bet is not None:
        return _exact(game_of(bankrolls[0]), bankrolls, bonus_bet, endless)
    if endless:
        raise UsageError(
            "bets that change have no exact answer, and a simulation has to end",
            hint="give a limit of hands",
        )
    return [_simulated(game_of(bankroll), sessions, seed) for bankroll in bankrolls]


def flat_bonus(game: Game) -> int | None:
    """The bonus bet of a game in which all bets stay the same, in cents; None for other games."""
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
    """Sessions of one seat, counted by how they end, a block at a time."""
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

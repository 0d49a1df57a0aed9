"""A game as the compiled kernel reads it: whole numbers, and tables that fit the CPU caches."""

from __future__ import annotations

from functools import cache
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.cache import cached_arrays
from runyard.doors.letitride.cards import tables
from runyard.doors.letitride.cards.cards import DECK, RANKS
from runyard.doors.letitride.game.betting import Ladder, Proportion
from runyard.doors.letitride.game.bonus import Conditions, Streaks
from runyard.doors.letitride.game.game import Game
from runyard.doors.letitride.game.money import PAY

Ints = NDArray[np.int64]

BONUS_NEVER, BONUS_CONDITIONS, BONUS_STREAKS = 0, 1, 2


class KernelRules(NamedTuple):
    """A game as the kernel reads it."""

    hands: int
    seats: int
    start: int
    base: int
    win_limit: int
    loss_limit: int
    main_pays: Ints  # in whole bets if `unit` is 1, else in ten-thousandths
    bonus_pays: Ints
    unit: int
    # A ladder, or a share of the bankroll if `share` is not 0.
    bets: Ints
    steps: NDArray[np.int32]  # by rung, the next rung after a loss, a draw or a win
    share: int
    multiple: int
    low: int
    high: int
    # The bonus: never, by conditions, or by streaks.
    bonus: int
    bonus_base: int
    least_profit: int
    least_bankroll: int
    most_drawdown: int
    profit_share: int
    tiers: Ints
    bonus_low: int
    bonus_high: int
    bonus_step: int
    streak_bets: Ints
    streak_length: int
    trigger: int
    trigger_sign: int
    reset: int
    reset_sign: int


class Lookup(NamedTuple):
    """Categories and decisions of all hands by number."""

    three: NDArray[np.uint8]  # 2 × bonus category + whether bet 1 rides
    four: NDArray[np.uint8]  # whether bet 2 rides
    ranks: NDArray[np.uint8]  # category by the number of five ranks; suited hands follow
    # The contribution of a card to a hand's number, as its second, third, fourth lowest …
    twos: NDArray[np.uint32]
    threes: NDArray[np.uint32]
    fours: NDArray[np.uint32]
    # … and to the number of five ranks, as its second to its fifth lowest.
    rank_twos: NDArray[np.uint32]
    rank_threes: NDArray[np.uint32]
    rank_fours: NDArray[np.uint32]
    rank_fives: NDArray[np.uint32]


def rules_of(game: Game) -> KernelRules:
    """The game's rules as the kernel needs them."""
    ladder = game.betting if isinstance(game.betting, Ladder) else Ladder((game.base,), (0,), (0,))
    share = game.betting if isinstance(game.betting, Proportion) else Proportion(0, 1, 0, 0)
    when = game.bonus if isinstance(game.bonus, Conditions) else None
    streaks = game.bonus if isinstance(game.bonus, Streaks) else Streaks((0,), 1, (0, 0), (0, 0))
    kind = (
        BONUS_NEVER if game.bonus is None else BONUS_STREAKS if when is None else BONUS_CONDITIONS
    )
    unit = PAY if any(pay % PAY for pay in (*game.main_pays, *game.bonus_pays)) else 1
    tiers = np.array(when.tiers if when and when.tiers else np.zeros((0, 3)), np.int64)
    return KernelRules(
        game.hands, game.seats, game.start, game.base, game.win_limit, game.loss_limit,
        np.array(game.main_pays, np.int64) // (PAY // unit),
        np.array(game.bonus_pays, np.int64) // (PAY // unit),
        unit,
        np.array(ladder.bets, np.int64),
        np.array([ladder.after_loss, range(len(ladder.bets)), ladder.after_win], np.int32).T.copy(),
        share.share, share.multiple, share.low, share.high,
        kind,
        *((when.base, when.least_profit, when.least_bankroll, when.most_drawdown, when.profit_share)
          if when else (0, 0, 0, 0, 0)),
        tiers,
        *((when.limits.low, when.limits.high, when.limits.step) if when else (0, 0, 1)),
        np.array(streaks.bets, np.int64), streaks.length, *streaks.trigger, *streaks.reset,
    )  # fmt: skip


def lookup_of(game: Game) -> Lookup:
    """The lookup tables of a game."""
    decisions, ranks = game.decisions, kernel_tables()
    three = (ranks["three"] * np.uint8(2)) | decisions.bet1
    return Lookup(three, decisions.bet2, ranks["five"], *BINOMIAL[2:5], *PLACES[1:])


@cache
def kernel_tables() -> dict[str, NDArray[np.uint8]]:
    """Categories of three cards and of five ranks, computed once and cached on disk."""
    return cached_arrays(
        "kernel tables", lambda: {"three": tables.three_categories().copy(), "five": five_ranks()}
    )


# Unsigned, so it is used as an index directly: a signed one could count from the end.
BINOMIAL = tables.BINOMIAL.astype(np.uint32)

RANK_HANDS = comb(len(RANKS) + 4, 5)
"""The number of hands of five ranks."""

PLACES = np.array([[comb(c // 4 + k, k + 1) for c in range(DECK)] for k in range(5)], np.uint32)
"""The contribution of a card to the number of five ranks, as the lowest, second lowest, …"""


def five_ranks() -> NDArray[np.uint8]:
    """The category of every five ranks, then of every five ranks of one suit.

    The same information as the table of five cards in 1/200 of its size, which fits the
    processor's L1 cache.
    """
    cards = tables.hands(5)
    numbers = sum(PLACES[place][cards[place]] for place in range(5))
    suited = ((cards ^ cards[0]) & 3 == 0).all(axis=0)
    found = np.zeros(2 * RANK_HANDS, np.uint8)
    found[numbers + RANK_HANDS * suited] = tables.five_categories()
    return found

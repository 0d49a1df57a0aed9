"""The plain engine: sessions played hand by hand in readable Python.

It plays any objects with two decisions, a bet and a bonus bet. The compiled kernel is tested
against it: the same seed gives the same session to the cent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.cards.cards import five_card_category, three_card_category
from runyard.doors.letitride.cards.facts import HandFacts
from runyard.doors.letitride.cards.generator import Deal, Seeds, deals
from runyard.doors.letitride.cards.tables import CATEGORIES
from runyard.doors.letitride.engine.columns import COUNTS, NAMES, PERCENT, ColumnArrays, empty
from runyard.doors.letitride.game.betting import (
    BettingSystem,
    Ladder,
    LadderSystem,
    ProportionalSystem,
)
from runyard.doors.letitride.game.bonus import BonusStrategy, Standing, bonus_of
from runyard.doors.letitride.game.game import STOP_REASONS, Game
from runyard.doors.letitride.game.money import payout
from runyard.doors.letitride.game.strategies import Strategy
from runyard.errors import UsageError


@dataclass(frozen=True)
class Players:
    """Makes the players at the table, new ones for each session and seat."""

    strategy: Callable[[], Strategy]
    betting: Callable[[], BettingSystem]
    bonus: Callable[[], BonusStrategy | None]


def players_of(game: Game) -> Players:
    """The players that a game describes."""
    rule = game.betting
    return Players(
        lambda: game.strategy,
        lambda: LadderSystem(rule) if isinstance(rule, Ladder) else ProportionalSystem(rule),
        lambda: bonus_of(game.bonus),
    )


@dataclass(frozen=True)
class HandPlayed:
    """One hand of one seat."""

    cards: tuple[int, ...]  # the player's three, then the community's two
    rides: tuple[bool, bool]  # whether bets 1 and 2 rode
    category: int
    bet: int
    bonus_bet: int
    main_profit: int
    bonus_profit: int
    bankroll: int  # after the hand


@dataclass
class SeatSession:
    """One player's session."""

    game: Game
    strategy: Strategy
    betting: BettingSystem
    bonus: BonusStrategy | None
    bankroll: int = 0
    peak: int = 0
    hands: int = 0
    stop_reason: str = ""  # empty while the session goes on
    wagered: int = 0
    bonus_wagered: int = 0
    main_profit: int = 0
    bonus_profit: int = 0
    max_drawdown: int = 0
    max_drawdown_pct: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * CATEGORIES)

    def __post_init__(self) -> None:
        self.bankroll = self.peak = self.game.start

    def play(self, own: Sequence[int], community: Sequence[int]) -> HandPlayed | None:
        """Play one hand; None if the session is already over."""
        game = self.game
        bonus_bet = self._bonus_bet()
        self.stop_reason = self._reason(bonus_bet)
        if self.stop_reason:
            return None
        bet = min(self._bet(), (self.bankroll - bonus_bet) // 3)
        first = bool(self.strategy.ride_bet1(HandFacts(own)))
        second = bool(self.strategy.ride_bet2(HandFacts((*own, community[0]))))
        category = five_card_category((*own, *community))
        riding = 1 + first + second
        main = riding * payout(bet, game.main_pays[category])
        bonus = payout(bonus_bet, game.bonus_pays[three_card_category(own)]) if bonus_bet else 0
        self._settle(bet * riding, bonus_bet, main, bonus, category)
        self.betting.record(main + bonus)
        if self.bonus is not None:
            self.bonus.record(main, bonus)
        cards = (*own, *community)
        return HandPlayed(
            cards, (first, second), category, bet, bonus_bet, main, bonus, self.bankroll
        )

    def _bonus_bet(self) -> int:
        if self.bonus is None:
            return 0
        profit = self.bankroll - self.game.start
        wanted = self.bonus.next_bet(Standing(self.bankroll, profit, self.peak))
        if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
            raise UsageError(
                f"the bonus strategy bets {wanted!r}", hint="bet whole cents, 0 or more"
            )
        return wanted

    def _bet(self) -> int:
        wanted = self.betting.next_bet(self.bankroll)
        if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
            raise UsageError(
                f"the betting system bets {wanted!r}", hint="bet whole cents, 1 or more"
            )
        return wanted

    def _reason(self, bonus_bet: int) -> str:
        profit = self.bankroll - self.game.start
        checks = (
            profit >= self.game.win_limit,
            -profit >= self.game.loss_limit,
            self.hands >= self.game.hands,
            self.bankroll < 3 * self.game.base + bonus_bet,
        )
        return next((why for why, met in zip(STOP_REASONS, checks, strict=True) if met), "")

    def _settle(self, wager: int, bonus_bet: int, main: int, bonus: int, category: int) -> None:
        self.hands += 1
        self.counts[category] += 1
        self.wagered += wager
        self.bonus_wagered += bonus_bet
        self.main_profit += main
        self.bonus_profit += bonus
        self.bankroll += main + bonus
        self.peak = max(self.peak, self.bankroll)
        drawdown = self.peak - self.bankroll
        if drawdown > self.max_drawdown:
            self.max_drawdown = drawdown
            self.max_drawdown_pct = max(self.max_drawdown_pct, drawdown / self.peak)


OnHand = Callable[[int, int, Deal, HandPlayed], None]
"""Called for each hand with its number, the seat, the deal and the hand as played."""


def play_session(
    game: Game, players: Players, seed: tuple[int, int], on_hand: OnHand | None = None
) -> list[SeatSession]:
    """Play one session from its seed; return the session of each seat."""
    seats = [
        SeatSession(game, players.strategy(), players.betting(), players.bonus())
        for _ in range(game.seats)
    ]
    for number, deal in enumerate(deals(seed, game.seats)):
        for place, (seat, own) in enumerate(zip(seats, deal.seats, strict=True)):
            hand = None if seat.stop_reason else seat.play(own, deal.community)
            if hand is not None and on_hand is not None:
                on_hand(number, place, deal, hand)
        if all(seat.stop_reason for seat in seats):
            return seats
    raise AssertionError("a session never ended")


def play_sessions(
    game: Game,
    seeds: Seeds,
    players: Players | None = None,
    log: NDArray[np.int64] | None = None,
) -> ColumnArrays:
    """Play sessions from their seeds; return columns, and write hands to `log`."""
    players = players or players_of(game)
    found = empty(len(seeds) * game.seats)
    for session, seed in enumerate(seeds.tolist()):
        first = session * game.seats

        def write(number: int, place: int, _: Deal, hand: HandPlayed, first: int = first) -> None:
            assert log is not None
            log[(first + place) * game.hands + number] = _line(hand)

        seats = play_session(game, players, tuple(seed), None if log is None else write)
        for row, seat in enumerate(seats, start=first):
            _store(found, row, seat)
    return found


def _store(found: ColumnArrays, row: int, seat: SeatSession) -> None:
    values = (
        seat.hands, STOP_REASONS.index(seat.stop_reason), seat.bankroll, seat.wagered,
        seat.bonus_wagered, seat.main_profit, seat.bonus_profit, seat.peak, seat.max_drawdown,
    )  # fmt: skip
    for name, value in zip(NAMES, values, strict=True):
        found[name][row] = value
    found[PERCENT][row] = seat.max_drawdown_pct
    found[COUNTS][row] = seat.counts


def _line(hand: HandPlayed) -> tuple[int, ...]:
    """A hand as one line of a log: six bits per card, the player's in ascending order."""
    cards = 0
    for card in (*sorted(hand.cards[:3]), *hand.cards[3:]):
        cards = cards << 6 | card
    rides = hand.rides[0] + 2 * hand.rides[1]
    return (
        cards, rides, hand.category, hand.bet, hand.bonus_bet, hand.main_profit,
        hand.bonus_profit, hand.bankroll,
    )  # fmt: skip

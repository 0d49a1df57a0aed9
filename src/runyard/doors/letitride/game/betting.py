"""Betting systems: the next bet, in cents, from the results so far.

All but one are ladders: a bet for each rung, and the next rung after a win or a loss. The other
bets a share of the bankroll. The engine lowers a bet that exceeds the bankroll and keeps the rung.
A hand is won or lost by its net result, including the bonus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from runyard.doors.letitride.config import model
from runyard.doors.letitride.game.money import MILLIONTH, cents, millionths
from runyard.errors import UsageError

MOST_RUNGS = 100_000
"""The longest ladder."""


@runtime_checkable
class BettingSystem(Protocol):
    """One player's system during one session."""

    def next_bet(self, bankroll: int) -> int:
        """The bet for the next hand in cents; the player makes three of them."""

    def record(self, profit: int) -> None:
        """Take the net result of a hand in cents, including the bonus; negative for a loss."""


@dataclass(frozen=True)
class Ladder:
    """A bet for each rung, and the rung that follows; a session starts on the first."""

    bets: tuple[int, ...]
    after_win: tuple[int, ...]
    after_loss: tuple[int, ...]


@dataclass(frozen=True)
class Proportion:
    """A share of the bankroll in millionths, rounded down to a multiple, within limits."""

    share: int
    multiple: int
    low: int
    high: int

    def bet(self, bankroll: int) -> int:
        """The bet for a bankroll."""
        wanted = bankroll * self.share // MILLIONTH
        return min(max(wanted // self.multiple * self.multiple, self.low), self.high)


BettingRule = Ladder | Proportion


class LadderSystem:
    """Climbs a ladder."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._rung = 0

    def next_bet(self, bankroll: int) -> int:  # noqa: ARG002
        """The bet of this rung."""
        return self._ladder.bets[self._rung]

    def record(self, profit: int) -> None:
        """Move to the next rung; a hand that breaks even changes nothing."""
        if profit > 0:
            self._rung = self._ladder.after_win[self._rung]
        elif profit < 0:
            self._rung = self._ladder.after_loss[self._rung]


class ProportionalSystem:
    """Bets a share of the bankroll."""

    def __init__(self, proportion: Proportion) -> None:
        self._proportion = proportion

    def next_bet(self, bankroll: int) -> int:
        """The share of the bankroll."""
        return self._proportion.bet(bankroll)

    def record(self, profit: int) -> None:
        """Ignored: the bet depends on the bankroll alone."""


class BettingSystemFactory:
    """Makes a new instance of the configured system for each session and seat."""

    def __init__(self, config: model.FullConfig | model.BankrollConfig) -> None:
        bankroll = config.bankroll if isinstance(config, model.FullConfig) else config
        self.rule = rule_of(bankroll)

    def create(self) -> BettingSystem:
        """Return a new system."""
        if isinstance(self.rule, Ladder):
            return LadderSystem(self.rule)
        return ProportionalSystem(self.rule)


def rule_of(bankroll: model.BankrollConfig) -> BettingRule:
    """The rule of a configuration's betting system."""
    system = bankroll.betting_system
    if system.type == "flat":
        return Ladder((cents(bankroll.base_bet),), (0,), (0,))
    return _MAKERS[system.type](bankroll)


def _proportional(bankroll: model.BankrollConfig) -> BettingRule:
    block = bankroll.betting_system.proportional or model.ProportionalConfig()
    return Proportion(
        millionths(block.bankroll_percentage),
        cents(block.round_to),
        cents(block.min_bet),
        cents(block.max_bet),
    )


def _martingale(bankroll: model.BankrollConfig) -> BettingRule:
    """The base bet is the first level; further losses stay on the last one."""
    block = bankroll.betting_system.martingale or model.MartingaleConfig()
    rungs = range(block.max_progressions)
    return Ladder(
        _multiplied(bankroll.base_bet, block.loss_multiplier, block.max_bet, len(rungs)),
        tuple(0 if block.reset_on_win else rung for rung in rungs),
        tuple(min(rung + 1, rungs[-1]) for rung in rungs),
    )


def _reverse_martingale(bankroll: model.BankrollConfig) -> BettingRule:
    block = bankroll.betting_system.reverse_martingale or model.ReverseMartingaleConfig()
    return _pressed(
        bankroll.base_bet,
        block.win_multiplier,
        block.max_bet,
        block.profit_target_streak,
        back=block.reset_on_loss,
    )


def _paroli(bankroll: model.BankrollConfig) -> BettingRule:
    block = bankroll.betting_system.paroli or model.ParoliConfig()
    return _pressed(
        bankroll.base_bet, block.win_multiplier, block.max_bet, block.wins_before_reset, back=True
    )


def _pressed(base: float, factor: float, most: float, wins: int, *, back: bool) -> Ladder:
    """Raise the bet after each win; restart after `wins` wins and, with `back`, after a loss."""
    rungs = range(wins)
    return Ladder(
        _multiplied(base, factor, most, wins),
        tuple((rung + 1) % wins for rung in rungs),
        tuple(0 if back else rung for rung in rungs),
    )


def _dalembert(bankroll: model.BankrollConfig) -> BettingRule:
    """A rung for each possible bet."""
    block = bankroll.betting_system.dalembert or model.DalembertConfig()
    low, high = cents(block.min_bet), cents(block.max_bet)
    more, less = cents(block.unit), cents(block.decrease_unit)
    bets = [min(max(cents(bankroll.base_bet), low), high)]
    rung_of = {bets[0]: 0}

    def rung(bet: int) -> int:
        if bet not in rung_of:
            rung_of[bet] = len(bets)
            bets.append(bet)
        return rung_of[bet]

    after_win, after_loss = [], []
    for bet in bets:  # grows as new bets are found
        after_win.append(rung(max(bet - less, low)))
        after_loss.append(rung(min(bet + more, high)))
        if len(bets) > MOST_RUNGS:
            raise UsageError(
                f"this d'Alembert system has more than {MOST_RUNGS:,} different bets",
                hint="use larger units in bankroll.betting_system.dalembert, or a lower max_bet",
            )
    return Ladder(tuple(bets), tuple(after_win), tuple(after_loss))


def _fibonacci(bankroll: model.BankrollConfig) -> BettingRule:
    block = bankroll.betting_system.fibonacci or model.FibonacciConfig()
    numbers = [1, 1]
    while len(numbers) <= block.max_position:
        numbers.append(numbers[-1] + numbers[-2])
    rungs = range(block.max_position + 1)
    most, unit = cents(block.max_bet), cents(block.unit)
    return Ladder(
        tuple(min(numbers[rung] * unit, most) for rung in rungs),
        tuple(max(rung - block.win_regression, 0) for rung in rungs),
        tuple(min(rung + 1, block.max_position) for rung in rungs),
    )


def _multiplied(base: float, factor: float, most: float, rungs: int) -> tuple[int, ...]:
    bets, bet = [], base
    for _ in range(rungs):
        bets.append(min(cents(min(bet, most)), cents(most)))
        bet = min(bet, most) * factor
    return tuple(bets)


_MAKERS: dict[str, Callable[[model.BankrollConfig], BettingRule]] = {
    "proportional": _proportional,
    "martingale": _martingale,
    "reverse_martingale": _reverse_martingale,
    "paroli": _paroli,
    "dalembert": _dalembert,
    "fibonacci": _fibonacci,
}

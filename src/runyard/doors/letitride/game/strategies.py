"""Strategies: when to let a bet ride.

A strategy is any object with `ride_bet1` and `ride_bet2`. The built-in ones depend on the hand
alone, so each is a table of decisions, which enumeration and the compiled kernel read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from runyard.doors.letitride.cache import cached_arrays
from runyard.doors.letitride.cards import tables
from runyard.doors.letitride.cards.facts import PAYING, HandFacts
from runyard.doors.letitride.cards.paytables import MainTable
from runyard.doors.letitride.config.conditions import HandCondition, parse
from runyard.doors.letitride.config.model import ConservativeConfig, StrategyConfig
from runyard.doors.letitride.game.optimal import optimal


@runtime_checkable
class Strategy(Protocol):
    """Two decisions: whether bet 1 rides on three cards, and bet 2 on four."""

    def ride_bet1(self, hand: HandFacts) -> bool:
        """Whether to let bet 1 ride, seeing three cards."""

    def ride_bet2(self, hand: HandFacts) -> bool:
        """Whether to let bet 2 ride, seeing four cards."""


@dataclass(frozen=True)
class Basic:
    """The best play for a paytable; a bet with a value of 0 is pulled."""

    table: MainTable

    def ride_bet1(self, hand: HandFacts) -> bool:
        """Whether bet 1 has a positive value."""
        return bool(best_decisions(self.table).bet1[tables.number_of(*hand.cards)])

    def ride_bet2(self, hand: HandFacts) -> bool:
        """Whether bet 2 has a positive value."""
        return bool(best_decisions(self.table).bet2[tables.number_of(*hand.cards)])


@dataclass(frozen=True)
class Conservative:
    """Rides hands from a strength up; with `royal_draws` also draws to a royal flush."""

    royal_draws: bool = False
    least_bet1: int = PAYING
    least_bet2: int = PAYING

    def ride_bet1(self, hand: HandFacts) -> bool:
        """Whether three cards are strong enough."""
        return self._rides(hand, self.least_bet1)

    def ride_bet2(self, hand: HandFacts) -> bool:
        """Whether four cards are strong enough."""
        return self._rides(hand, self.least_bet2)

    def _rides(self, hand: HandFacts, least: int) -> bool:
        return hand.strength >= least or (self.royal_draws and hand.is_royal_draw)


@dataclass(frozen=True)
class Aggressive:
    """Rides hands that already win, and draws to a flush or a straight."""

    draws: bool = True
    gutshots: bool = True  # straight draws that are not open at both ends
    backdoor_flush: bool = True  # three of a suit, on bet 1

    def ride_bet1(self, hand: HandFacts) -> bool:
        """Whether the hand is made, or three cards to a flush or a straight."""
        return self._rides(hand, flush=self.backdoor_flush)

    def ride_bet2(self, hand: HandFacts) -> bool:
        """Whether the hand is made, or four cards to a flush or a straight."""
        return self._rides(hand, flush=True)

    def _rides(self, hand: HandFacts, *, flush: bool) -> bool:
        if hand.has_paying_hand or not self.draws:
            return hand.has_paying_hand
        straight = hand.is_straight_draw if self.gutshots else hand.is_open_straight_draw
        return straight or (flush and hand.is_flush_draw)


@dataclass(frozen=True)
class Always:
    """Rides everything, or pulls everything."""

    ride: bool

    def ride_bet1(self, hand: HandFacts) -> bool:  # noqa: ARG002
        """The same for every hand."""
        return self.ride

    ride_bet2 = ride_bet1


RideRule = tuple[HandCondition, bool]


@dataclass(frozen=True)
class Custom:
    """The first rule that holds decides; if none holds, the bet is pulled."""

    bet1: tuple[RideRule, ...]
    bet2: tuple[RideRule, ...]

    def ride_bet1(self, hand: HandFacts) -> bool:
        """The decision of the first rule for bet 1 that holds."""
        return _decided(self.bet1, hand)

    def ride_bet2(self, hand: HandFacts) -> bool:
        """The decision of the first rule for bet 2 that holds."""
        return _decided(self.bet2, hand)


def _decided(rules: Sequence[RideRule], hand: HandFacts) -> bool:
    return next((ride for condition, ride in rules if condition.holds(hand)), False)


def strategy_of(config: StrategyConfig, table: MainTable) -> Strategy:
    """The strategy that a configuration names."""
    if config.type == "conservative":
        block = config.conservative or ConservativeConfig()
        return Conservative(
            not block.made_hands_only, block.min_strength_bet1, block.min_strength_bet2
        )
    if config.type == "aggressive" and config.aggressive is not None:
        chosen = config.aggressive
        return Aggressive(
            chosen.ride_on_draws, chosen.include_gutshots, chosen.include_backdoor_flush
        )
    if config.type == "custom" and config.custom is not None:
        both = (config.custom.bet1_rules, config.custom.bet2_rules)
        bet1, bet2 = (
            tuple((parse(r.condition), r.action == "ride") for r in each) for each in both
        )
        return Custom(bet1, bet2)
    plain: dict[str, Strategy] = {
        "basic": Basic(table),
        "aggressive": Aggressive(),
        "always_ride": Always(True),
        "always_pull": Always(False),
    }
    return plain[config.type]


def decisions_of(strategy: Strategy) -> tables.Decisions:
    """Every decision of a strategy that depends on the hand alone, as a table."""
    if isinstance(strategy, Basic):
        return best_decisions(strategy.table)
    if isinstance(strategy, Conservative | Aggressive | Always | Custom):
        return _known_decisions(strategy)
    return _asked(strategy)


@lru_cache(maxsize=32)
def best_decisions(table: MainTable) -> tables.Decisions:
    """The best decisions for a paytable, computed once and cached on disk."""
    pays = {name: str(pay) for name, pay in table.by_name().items()}
    return _cached(["best", pays], lambda: optimal(table))


@lru_cache(maxsize=32)
def _known_decisions(strategy: Conservative | Aggressive | Always | Custom) -> tables.Decisions:
    key = repr(strategy)
    if isinstance(strategy, Custom):
        both = (strategy.bet1, strategy.bet2)
        key = repr([[(condition.text, ride) for condition, ride in rules] for rules in both])
    return _cached(["decisions", type(strategy).__name__, key], lambda: _asked(strategy))


def _cached(key: list[Any], make: Callable[[], tables.Decisions]) -> tables.Decisions:
    return tables.Decisions(**cached_arrays(key, lambda: make()._asdict()))


def _asked(strategy: Strategy) -> tables.Decisions:
    return tables.decisions(
        lambda cards: strategy.ride_bet1(HandFacts(cards)),
        lambda cards: strategy.ride_bet2(HandFacts(cards)),
        suits_alike=isinstance(strategy, Conservative | Aggressive | Always | Custom),
    )

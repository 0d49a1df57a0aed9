"""Players of a user's own, and blocks that die, for tests of the Let It Ride door."""

from __future__ import annotations

import time

from runyard.doors.letitride import HandFacts
from runyard.doors.letitride.game.bonus import Standing


class Careful:
    """Rides what pays already."""

    def ride_bet1(self, hand: HandFacts) -> bool:
        return hand.has_paying_hand

    def ride_bet2(self, hand: HandFacts) -> bool:
        return hand.has_paying_hand


class Slow(Careful):
    """Takes its time, so that a run can be stopped in the middle."""

    def ride_bet1(self, hand: HandFacts) -> bool:
        time.sleep(0.001)
        return super().ride_bet1(hand)


class OneMore:
    """Bets a dollar more after each hand that is lost, and remembers."""

    def __init__(self) -> None:
        self._bet = 500

    def next_bet(self, bankroll: int) -> int:
        return self._bet

    def record(self, profit: int) -> None:
        self._bet = 500 if profit > 0 else self._bet + 100


class SomeBonus:
    """Bets a dollar on the bonus while nothing is lost."""

    def next_bet(self, standing: Standing) -> int:
        return 100 if standing.profit >= 0 else 0

    def record(self, main: int, bonus: int) -> None:
        pass


class HalfACent:
    """Bets what there is no coin for."""

    def next_bet(self, bankroll: int) -> float:
        return 0.5

    def record(self, profit: int) -> None:
        pass

"""Exact figures for any strategy and any paytable, from counting every deal.

    decisions ──▶ tally ──────────▶ figures
    for every     51,979,200 deals   fractions: value, edge, risk, spread,
    hand          in 308 cells       how often bets ride, hands win

A deal is three cards, a first and a second community card. How a deal is played and paid depends
on four things: whether bet 1 rides, whether bet 2 rides, and the categories of the three and of the
five cards; the tally counts the deals for each combination.

Unseen cards don't matter: regardless of discards and other seats, the community cards are equally
likely to be any two cards that this player has not seen. So the figures also hold with discards,
and for each of several seats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES, THREE_CARD_NAMES
from runyard.doors.letitride.cards.paytables import BonusTable, MainTable, Pay
from runyard.doors.letitride.cards.tables import (
    CATEGORIES,
    THREES,
    Decisions,
    five_categories,
    four_card_futures,
    hands,
    numbers_without,
    three_categories,
)

DEALS = THREES * 49 * 48
_SHAPE = (2, 2, len(THREE_CARD_NAMES), CATEGORIES)


class Tally:
    """The number of deals by how they are played and the hands they end in."""

    def __init__(self, decisions: Decisions) -> None:
        self.rides = int(decisions.bet1.sum()), int(decisions.bet2.sum())
        self.counts = _counted(decisions)

    def by_bet(self, bet: int) -> list[int]:
        """Deals in which bet 1, 2 or 3 rides, by five-card category."""
        chosen = {1: self.counts[1], 2: self.counts[:, 1], 3: self.counts}[bet]
        counts: list[int] = chosen.reshape(-1, CATEGORIES).sum(axis=0).tolist()
        return counts

    @cached_property
    def by_wager(self) -> list[list[int]]:
        """Deals in which one, two and three bets ride, by five-card category."""
        plays = self.counts.sum(axis=2)
        return [row.tolist() for row in (plays[0, 0], plays[0, 1] + plays[1, 0], plays[1, 1])]

    def results(self, main: Sequence[int], bonus: Sequence[int]) -> dict[int, int]:
        """Results of a hand, with the number of deals for each.

        `main` has the result of a riding bet by five-card category, `bonus` by three-card category.
        """
        found = Counter[int]()
        for (first, second, three, five), count in np.ndenumerate(self.counts):
            if count:
                found[(1 + first + second) * main[five] + bonus[three]] += int(count)
        return dict(sorted(found.items()))


class ExactFigures(msgspec.Struct, frozen=True):
    """The exact figures of a strategy; money in base bets, `ev` per hand."""

    ev: Fraction
    ev_by_bet: dict[str, Fraction]
    house_edge: Fraction  # of one base bet
    average_wager: Fraction
    element_of_risk: Fraction  # loss per unit left at risk
    variance: Fraction
    ride: dict[str, Fraction]
    ride_hands: dict[str, int]
    bets_at_end: dict[str, Fraction]
    win: Fraction
    push: Fraction
    loss: Fraction
    ev_by_hand: dict[str, Fraction]  # contribution of each category to `ev`

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of a hand's result."""
        return math.sqrt(self.variance)


def figures(tally: Tally, table: MainTable) -> ExactFigures:
    """Compute all figures of a strategy's tally under a paytable."""
    pays = table.pays
    by_bet = {f"bet{bet}": _mean(tally.by_bet(bet), pays) for bet in (1, 2, 3)}
    ev = sum(by_bet.values(), Fraction())
    wagers = [Fraction(sum(row), DEALS) for row in tally.by_wager]
    average = sum((bets * share for bets, share in enumerate(wagers, start=1)), Fraction())
    squares = [
        bets**2 * _mean(row, [pay**2 for pay in pays])
        for bets, row in enumerate(tally.by_wager, start=1)
    ]
    ends = Counter[int]()
    for pay, count in zip(pays, tally.by_bet(3), strict=True):
        ends[(pay > 0) - (pay < 0)] += count
    riding = np.array([1, 2, 3]) @ np.array(tally.by_wager)
    by_hand = [Fraction(n * pay) / DEALS for n, pay in zip(riding.tolist(), pays, strict=True)]
    rides = dict(zip(("bet1", "bet2"), tally.rides, strict=True))
    return ExactFigures(
        ev=ev,
        ev_by_bet=by_bet,
        house_edge=-ev,
        average_wager=average,
        element_of_risk=-ev / average,
        variance=sum(squares, Fraction()) - ev**2,
        ride={bet: Fraction(sum(tally.by_bet(n)), DEALS) for n, bet in ((1, "bet1"), (2, "bet2"))},
        ride_hands=rides,
        bets_at_end={str(bets): share for bets, share in enumerate(wagers, start=1)},
        win=Fraction(ends[1], DEALS),
        push=Fraction(ends[0], DEALS),
        loss=Fraction(ends[-1], DEALS),
        ev_by_hand=dict(zip(FIVE_CARD_NAMES, by_hand, strict=True)),
    )


class BonusFigures(msgspec.Struct, frozen=True):
    """The exact figures of a bonus bet of one unit."""

    ev: Fraction
    house_edge: Fraction
    variance: Fraction
    win: Fraction

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of a bonus bet's result."""
        return math.sqrt(self.variance)


def bonus_figures(table: BonusTable) -> BonusFigures:
    """Compute all figures of the three-card bonus under a paytable."""
    counts = three_card_counts()
    ev = Fraction(sum(n * pay for n, pay in zip(counts, table.pays, strict=True))) / THREES
    square = Fraction(sum(n * pay**2 for n, pay in zip(counts, table.pays, strict=True))) / THREES
    wins = sum(n for n, pay in zip(counts, table.pays, strict=True) if pay > 0)
    return BonusFigures(ev, -ev, square - ev**2, Fraction(wins, THREES))


def five_card_counts() -> list[int]:
    """The number of the 2,598,960 five-card hands in each category."""
    counts: list[int] = np.bincount(five_categories()).tolist()
    return counts


def three_card_counts() -> list[int]:
    """The number of the 22,100 three-card hands in each bonus category."""
    counts: list[int] = np.bincount(three_categories()).tolist()
    return counts


def _counted(decisions: Decisions) -> NDArray[np.int64]:
    """Count deals; each four cards are dealt in four ways, by which is the community card."""
    counts = np.zeros(_SHAPE, dtype=np.int64)
    futures = four_card_futures()
    for dealt in numbers_without(hands(4)):
        cell = (decisions.bet1[dealt] * 2 + decisions.bet2) * _SHAPE[2] + three_categories()[dealt]
        for five, ways in enumerate(futures.T):
            counts.reshape(-1, CATEGORIES)[:, five] += np.bincount(
                cell, ways, math.prod(_SHAPE[:3])
            ).astype(np.int64)
    return counts


def _mean(counts: Sequence[int], values: Sequence[Pay]) -> Fraction:
    return Fraction(sum(n * value for n, value in zip(counts, values, strict=True))) / DEALS

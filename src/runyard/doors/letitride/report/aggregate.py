"""Aggregates sessions block by block into figures with intervals, in bounded memory.

The independent unit is a session with all of its seats, since seats share community cards. EV per
hand is a ratio of totals: a mean of ratios would weigh sessions of one hand like those of many.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES
from runyard.doors.letitride.cards.tables import CATEGORIES
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine.columns import COUNTS, ColumnArrays
from runyard.doors.letitride.game.game import STOP_REASONS, game_of
from runyard.doors.letitride.game.money import CENT, cents
from runyard.doors.letitride.report.ratio import Ratio
from runyard.doors.letitride.report.risk import flat_bonus
from runyard.stats import Interval, Rate, Summary

if TYPE_CHECKING:
    from runyard.doors.letitride.report.results import SimulationResults

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
RATIOS = ("ev_per_hand", "main_ev_per_hand", "bonus_ev_per_hand", "element_of_risk", "bonus_edge")
"""Figures that are ratios of totals: EV in base bets, the others relative to money at risk."""


class Aggregate:
    """Adds up columns of sessions, in any order and partition."""

    def __init__(self, config: FullConfig, *, own_players: bool = False) -> None:
        """Start empty; there are no exact figures for a user's own players."""
        self.config = config
        self.own_players = own_players
        self.seats = config.table.num_seats
        self.base, self.start = (cents(config.bankroll.base_bet),
                                 cents(config.bankroll.starting_amount))  # fmt: skip
        self.sessions = self.hands = 0
        self.outcomes = {"win": 0, "loss": 0, "push": 0}
        self.stops = np.zeros(len(STOP_REASONS), np.int64)
        self.ratios = {name: Ratio() for name in RATIOS}
        self.profit, self.drawdown = Summary(), Summary()
        self.main_profit, self.bonus_profit = Summary(), Summary()
        self.bonus_wagered = 0
        self.hand_counts = np.zeros(CATEGORIES, np.int64)
        self.first_seat_counts = np.zeros(CATEGORIES, np.int64)
        self._wins, self._ruins = Ratio(), Ratio()

    def add(self, columns: ColumnArrays) -> None:
        """Add some sessions."""
        profit = columns["final_bankroll"] - self.start
        ruined = columns["stop_reason"] == STOP_REASONS.index("insufficient_funds")
        hands, main, bonus = (columns[k] for k in ("hands_played", "main_profit", "bonus_profit"))
        per_table = self._per_table
        played = per_table(hands)
        self.sessions += len(played)
        self.hands += int(hands.sum())
        for name, found in (("win", profit > 0), ("loss", profit < 0), ("push", profit == 0)):
            self.outcomes[name] += int(found.sum())
        self.stops += np.bincount(columns["stop_reason"], minlength=len(STOP_REASONS))
        for name, won in (("", main + bonus), ("main_", main), ("bonus_", bonus)):
            self.ratios[f"{name}ev_per_hand"].add_array(per_table(won) / self.base, played)
        wagered, on_bonus = columns["total_wagered"], columns["total_bonus_wagered"]
        self.ratios["element_of_risk"].add_array(-per_table(main), per_table(wagered))
        self.ratios["bonus_edge"].add_array(-per_table(bonus), per_table(on_bonus))
        self.bonus_wagered += int(on_bonus.sum())
        self.profit.add_array(profit / CENT)
        self.main_profit.add_array(main / CENT)
        self.bonus_profit.add_array(bonus / CENT)
        self.drawdown.add_array(columns["max_drawdown"] / CENT)
        counts = columns[COUNTS]
        self.hand_counts += counts.sum(axis=0)
        self.first_seat_counts += counts[:: self.seats].sum(axis=0)
        seats = np.full(len(played), self.seats)
        self._wins.add_array(per_table(profit > 0), seats)
        self._ruins.add_array(per_table(ruined), seats)

    def _per_table(self, values: NDArray[Any]) -> NDArray[Any]:
        """Totals over the seats of each session."""
        if self.seats == 1:
            return values.astype(np.int64)
        sums: NDArray[Any] = values.reshape(-1, self.seats).sum(axis=1, dtype=np.int64)
        return sums

    @property
    def rows(self) -> int:
        """The number of sessions, counting each seat."""
        return self.sessions * self.seats

    def win_rate(self, level: float = 0.95) -> Interval:
        """The interval of the share of sessions won."""
        return self._share(self.outcomes["win"], self._wins, level)

    def ruin_rate(self, level: float = 0.95) -> Interval:
        """The interval of the share of sessions that ran out of money."""
        return self._share(int(self.stops[-1]), self._ruins, level)

    def _share(self, count: int, by_table: Ratio, level: float) -> Interval:
        """A Wilson interval; with several seats, one that accounts for their dependence."""
        if self.seats == 1 or self.sessions < 2:
            return Rate(count, self.rows).interval(level)
        return by_table.interval(level)

    def chi_square(self) -> tuple[float, float]:
        """χ² of the first seat's hands against the exact counts, and its p-value.

        Hands expected fewer than five times are combined.
        """
        from scipy.special import chdtrc

        expected = exact_shares() * self.first_seat_counts.sum()
        order = np.argsort(expected)
        seen, wanted = self.first_seat_counts[order], expected[order]
        rare = max(1, int((np.cumsum(wanted) < 5).sum()) + 1)
        seen = np.append(seen[:rare].sum(), seen[rare:])
        wanted = np.append(wanted[:rare].sum(), wanted[rare:])
        if len(wanted) < 2 or not wanted.all():
            return 0.0, 1.0
        found = float(((seen - wanted) ** 2 / wanted).sum())
        return found, float(chdtrc(len(wanted) - 1, found))

    @cached_property
    def exact(self) -> dict[str, float]:
        """The exact figures that simulated ones must agree with, if there are any."""
        from runyard.doors.letitride.exact.answers import exact_answer

        if self.own_players:
            return {}
        game = game_of(self.config)
        tables = {"played": self.config.bonus_table}
        answer = exact_answer(self.config.paytables.main_table, game.strategy, tables)
        found = {"element_of_risk": float(answer["element_of_risk"]["value"])}
        edge = float(answer["bonus"]["played"]["house_edge"]["value"])
        if game.bonus is not None:
            found["bonus_edge"] = edge
        bonus_bet = flat_bonus(game)
        if bonus_bet is not None:
            found["main_ev_per_hand"] = float(answer["ev"]["value"])
            found["bonus_ev_per_hand"] = -edge * bonus_bet / game.base if bonus_bet else 0.0
            found["ev_per_hand"] = found["main_ev_per_hand"] + found["bonus_ev_per_hand"]
        return found

    def figures(self, level: float = 0.95) -> dict[str, dict[str, float | None]]:
        """Each ratio with its interval and its difference from the exact one in standard errors."""
        found: dict[str, dict[str, float | None]] = {}
        for name, ratio in self.ratios.items():
            if ratio.count < 2 or math.isnan(ratio.value):
                continue
            interval, error = ratio.interval(level), ratio.standard_error
            entry = {"value": ratio.value, "low": interval.low, "high": interval.high,
                    "standard_error": error}  # fmt: skip
            exact = self.exact.get(name)
            if exact is not None:
                entry["exact"] = exact
                entry["z"] = (ratio.value - exact) / error if error > 0 else math.nan
            found[name] = {k: None if math.isnan(v) else v for k, v in entry.items()}
        return found

    def to_data(self) -> dict[str, Any]:
        """Everything as plain values."""
        chi, p = self.chi_square()
        profit, moments = self.profit, self.profit.moments
        rates = {"session_win_rate": ("win", self.win_rate()), "ruin_rate": ("", self.ruin_rate())}
        wins, ruins = self.outcomes["win"], int(self.stops[-1])
        return {
            "sessions": self.sessions,
            "seats": self.seats,
            "hands": self.hands,
            "outcomes": dict(self.outcomes),
            "stop_reasons": dict(zip(STOP_REASONS, self.stops.tolist(), strict=True)),
            **{
                name: {"value": count / max(1, self.rows), "low": interval.low,
                       "high": interval.high}
                for (name, (_, interval)), count in zip(rates.items(), (wins, ruins), strict=True)
            },
            **self.figures(),
            "session_profit": {
                "mean": moments.mean,
                "sd": _number(moments.sd if profit.count > 1 else math.nan),
                "skew": _number(moments.skew if profit.count > 2 else math.nan),
                "kurtosis": _number(moments.kurtosis if profit.count > 3 else math.nan),
                "min": moments.minimum,
                "max": moments.maximum,
                **_quantiles(profit),
            },
            "max_drawdown": {"mean": self.drawdown.mean, **_quantiles(self.drawdown)},
            "hand_counts": dict(zip(FIVE_CARD_NAMES, self.hand_counts.tolist(), strict=True)),
            "hand_frequencies": {"chi_square": chi, "p": p},
        }  # fmt: skip

    def summary(self) -> str:
        """A short text summary."""
        from runyard.doors.letitride.report.text import summary

        return summary(self)


def aggregate(results: SimulationResults) -> Aggregate:
    """Aggregate all recorded sessions."""
    found = Aggregate(results.config, own_players=results.has_own_players)
    for _, columns in results.blocks():
        found.add(columns)
    return found


def by_seat(results: SimulationResults) -> list[Aggregate]:
    """Aggregate the sessions of each seat separately."""
    one = results.config.with_(table={"num_seats": 1})
    own = results.has_own_players
    found = [Aggregate(one, own_players=own) for _ in range(results.seats)]
    for _, columns in results.blocks():
        for seat, each in enumerate(found):
            each.add({name: values[seat :: results.seats] for name, values in columns.items()})
    return found


def exact_shares() -> NDArray[np.float64]:
    """The probability of each five-card hand."""
    from runyard.doors.letitride.exact.tally import five_card_counts

    counts = np.array(five_card_counts(), dtype=np.float64)
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


def _quantiles(summary: Summary) -> dict[str, float]:
    found = summary.quantiles.quantiles(QUANTILES)
    names = {0.5: "median"}
    return {names.get(q, f"p{100 * q:g}"): v for q, v in zip(QUANTILES, found, strict=True)}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value

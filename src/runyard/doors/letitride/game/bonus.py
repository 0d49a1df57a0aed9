"""Bonus strategies: the bet on the three-card bonus, in cents, before the cards are dealt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from runyard.doors.letitride.config import model
from runyard.doors.letitride.game.money import MILLIONTH, cents, millionths

ANYTHING = 1 << 62
"""Means that there is no limit."""

MOST_STEPS = 200
_FAMILIES = ("main", "bonus", "any")


class Standing(NamedTuple):
    """A player's standing before a hand, in cents."""

    bankroll: int
    profit: int
    peak: int  # the highest bankroll so far


@runtime_checkable
class BonusStrategy(Protocol):
    """One player's bonus strategy during one session."""

    def next_bet(self, standing: Standing) -> int:
        """The bonus bet for the next hand in cents; 0 for none."""

    def record(self, main: int, bonus: int) -> None:
        """Take the results of the main game and the bonus in cents; negative for a loss."""


@dataclass(frozen=True)
class BonusLimits:
    """The bets that the table accepts."""

    low: int
    high: int
    step: int

    def fit(self, amount: int) -> int:
        """The largest accepted bet up to an amount; 0 if that is too little."""
        fitting = min(amount, self.high) // self.step * self.step
        return fitting if fitting >= max(self.low, 1) else 0


@dataclass(frozen=True)
class Conditions:
    """A bet while the session goes well; amounts in cents, shares in millionths."""

    base: int
    least_profit: int
    least_bankroll: int
    most_drawdown: int  # of the peak; above a million: no limit
    profit_share: int  # 0: bet the base
    tiers: tuple[tuple[int, int, int], ...]  # lower profit, upper profit (exclusive), bet
    limits: BonusLimits

    def bet(self, standing: Standing) -> int:
        """The bet for a standing."""
        bankroll, profit, peak = standing
        if profit < self.least_profit or bankroll < self.least_bankroll:
            return 0
        if (peak - bankroll) * MILLIONTH > self.most_drawdown * peak:
            return 0
        amount = self.base
        if self.profit_share and profit > 0:
            amount = profit * self.profit_share // MILLIONTH
        for low, high, bet in self.tiers:
            if low <= profit < high:
                amount = bet
                break
        return self.limits.fit(amount)


@dataclass(frozen=True)
class Streaks:
    """A bet that depends on the number of streaks since the last reset."""

    bets: tuple[int, ...]  # by number of streaks; the last one also for more
    length: int
    trigger: tuple[int, int]  # the kind of result (main, bonus, any), and its sign
    reset: tuple[int, int]  # a sign of 0: never


BonusRule = Conditions | Streaks


class ConditionalBonus:
    """Bets while conditions hold."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions

    def next_bet(self, standing: Standing) -> int:
        """The bet by the conditions."""
        return self._conditions.bet(standing)

    def record(self, main: int, bonus: int) -> None:
        """Ignored: the bet depends on the standing alone."""


class StreakBonus:
    """Bets by streaks."""

    def __init__(self, streaks: Streaks) -> None:
        self._rule = streaks
        self._run = self._streaks = 0

    def next_bet(self, standing: Standing) -> int:  # noqa: ARG002
        """The bet by the number of streaks."""
        return self._rule.bets[self._streaks]

    def record(self, main: int, bonus: int) -> None:
        """Continue or end the run; a reset applies before the same hand counts."""
        results = (main, bonus, main + bonus)
        which, sign = self._rule.reset
        if results[which] * sign > 0:
            self._run = self._streaks = 0
        which, sign = self._rule.trigger
        if results[which] * sign < 0:
            self._run = 0
        elif results[which] * sign > 0:
            self._run += 1
            if self._run == self._rule.length:
                self._run = 0
                self._streaks = min(self._streaks + 1, len(self._rule.bets) - 1)


def bonus_of(rule: BonusRule | None) -> BonusStrategy | None:
    """A new strategy; None if the bonus is not played."""
    if isinstance(rule, Streaks):
        return StreakBonus(rule)
    return None if rule is None else ConditionalBonus(rule)


def rule_of(config: model.FullConfig) -> BonusRule | None:
    """The rule of a configuration's bonus strategy; None if it never bets."""
    bonus = config.bonus_strategy
    if not bonus.enabled or bonus.type == "never":
        return None
    each = bonus.limits
    limits = BonusLimits(cents(each.min_bet), cents(each.max_bet), cents(each.increment))
    if bonus.type == "streak_based":
        return _streaks(bonus.streak_based or model.StreakBasedConfig(), limits)
    if bonus.type == "bankroll_conditional":
        block = bonus.bankroll_conditional or model.BankrollConditionalConfig()
        return _conditions(block, cents(config.bankroll.starting_amount), limits)
    return _fixed(_amount(bonus, cents(config.bankroll.base_bet)), limits)


def _amount(bonus: model.BonusStrategyConfig, base_bet: int) -> int:
    if bonus.type == "always":
        return cents((bonus.always or model.AlwaysBonusConfig()).amount)
    static = bonus.static or model.StaticBonusConfig()
    if static.ratio is not None:
        return base_bet * millionths(static.ratio) // MILLIONTH
    return cents(1.0 if static.amount is None else static.amount)


def _fixed(amount: int, limits: BonusLimits) -> Conditions:
    return Conditions(amount, -ANYTHING, 0, 2 * MILLIONTH, 0, (), limits)


def _conditions(
    block: model.BankrollConditionalConfig, start: int, limits: BonusLimits
) -> Conditions:
    ratio, drawdown = block.min_bankroll_ratio, block.max_drawdown
    tiers = block.scaling.tiers if block.scaling.enabled else ()
    return Conditions(
        cents(block.base_amount),
        -ANYTHING if block.min_session_profit is None else cents(block.min_session_profit),
        0 if ratio is None else -(-start * millionths(ratio) // MILLIONTH),
        2 * MILLIONTH if drawdown is None else millionths(drawdown),
        0 if block.profit_percentage is None else millionths(block.profit_percentage),
        tuple(
            (
                cents(tier.min_profit),
                ANYTHING if tier.max_profit is None else cents(tier.max_profit),
                cents(tier.bet_amount),
            )
            for tier in tiers
        ),
        limits,
    )


def _streaks(block: model.StreakBasedConfig, limits: BonusLimits) -> Streaks:
    base, action = block.base_amount, block.action
    most = base * (block.max_multiplier or 1e6)
    if action.type == "stop":
        amounts = [base, 0.0]
    elif action.type == "start":
        amounts = [0.0, base]
    else:
        factor = action.value if action.type == "multiply" else 1.0
        more = {"increase": action.value, "decrease": -action.value}.get(action.type, 0.0)
        amounts = [base]
        while len(amounts) < MOST_STEPS:
            amounts.append(min(max(amounts[-1] * factor + more, 0.0), most))
            if limits.fit(cents(amounts[-1])) in (limits.fit(limits.high), 0):
                break
    bets = tuple(limits.fit(cents(amount)) for amount in amounts)
    return Streaks(bets, block.streak_length, _event(block.trigger), _event(block.reset_on))


def _event(name: str) -> tuple[int, int]:
    if name == "never":
        return 0, 0
    family, _, result = name.partition("_")
    return _FAMILIES.index(family), 1 if result == "win" else -1

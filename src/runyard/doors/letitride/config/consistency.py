"""Checks across keys: settings that contradict each other or can't be played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from runyard.doors.letitride.config import model
from runyard.doors.letitride.config.checks import MOST_HANDS_LOGGED, refuse
from runyard.doors.letitride.config.conditions import parse
from runyard.errors import UsageError

CENTS = frozenset(
    {
        "starting_amount", "base_bet", "win_limit", "loss_limit", "min_bet", "max_bet", "round_to",
        "unit", "decrease_unit", "increment", "amount", "base_amount", "min_session_profit",
        "min_profit", "max_profit", "bet_amount",
    }
)  # fmt: skip
"""Keys with amounts of money, which are played in whole cents."""

MILLIONTHS = frozenset(
    {"bankroll_percentage", "ratio", "min_bankroll_ratio", "profit_percentage", "max_drawdown"}
)
"""Keys with shares, which are played in millionths."""

PAYS = frozenset({*model.CustomMainTableConfig.__struct_fields__,
                  *model.CustomBonusTableConfig.__struct_fields__})  # fmt: skip
MOST_CENTS = (1 << 62) // 2_000_000
"""Sums of cents stay below this, so that their millionths fit into 64 bits."""


def check_rules(config: model.FullConfig) -> None:
    """Refuse contradictory settings."""
    _check_digits(config)
    _check_blocks(config)
    _check_bets(config)
    _check_strategy(config)
    _check_bonus(config)
    _check_size(config)
    prefix = config.output.prefix
    if not prefix or "/" in prefix or "\0" in prefix:
        refuse("output.prefix", prefix, "it starts the name of each file", "use a plain name")


def _walk(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """All numbers with their path and the name of their key."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            place = f"{path}.{key}" if path else str(key)
            if isinstance(inner, int | float) and not isinstance(inner, bool):
                yield place, str(key), inner
            else:
                yield from _walk(inner, place)
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _walk(inner, f"{path}[{at}]")


def _check_digits(config: model.FullConfig) -> None:
    wanted = (
        (CENTS, 100, "money is in whole cents", "use at most two decimals"),
        (MILLIONTHS, 1_000_000, "it has too many decimals", "use at most six decimals"),
        (PAYS, 10_000, "it has too many decimals", "use at most four decimals"),
    )
    for path, key, value in _walk(config.to_data()):
        for keys, scale, problem, allowed in wanted:
            if key in keys and abs(value * scale - round(value * scale)) > 1e-6:
                refuse(path, value, problem, allowed)


def _check_blocks(config: model.FullConfig) -> None:
    """Refuse blocks of types that are not chosen, since they have no effect."""
    for path, part in (
        ("bankroll.betting_system", config.bankroll.betting_system),
        ("strategy", config.strategy),
        ("bonus_strategy", config.bonus_strategy),
    ):
        blocks = [f.name for f in msgspec.structs.fields(part) if f.name not in _NO_BLOCK]
        for name in blocks:
            if getattr(part, name) is not None and name != part.type:
                raise UsageError(
                    f"{path}.{name} is set, but has no effect while {path}.type is {part.type}",
                    hint=f"set type to {name}, or leave the block out",
                )
    tables = config.paytables
    for path, kind, custom in (
        ("paytables.main_game", tables.main_game.type, tables.main_game.custom),
        (
            "paytables.bonus",
            config.bonus_strategy.paytable or tables.bonus.type,
            tables.bonus.custom,
        ),
    ):
        if kind == "custom" and custom is None:
            refuse(f"{path}.custom", None, "the type is custom, and no pays are given",
                   "write the pays under custom")  # fmt: skip
        if kind != "custom" and custom is not None:
            raise UsageError(
                f"{path}.custom is set, but has no effect while the type is {kind}",
                hint="set type to custom, or leave the block out",
            )


_NO_BLOCK = frozenset({"type", "enabled", "paytable", "limits"})


def _check_bets(config: model.FullConfig) -> None:
    bankroll = config.bankroll
    if bankroll.starting_amount < 3 * bankroll.base_bet:
        refuse("bankroll.starting_amount", bankroll.starting_amount, "it doesn't cover three bets",
               f"at least 3 × base_bet, {3 * bankroll.base_bet:g}")  # fmt: skip
    system = bankroll.betting_system
    block = getattr(system, system.type, None)
    path = f"bankroll.betting_system.{system.type}"
    if block is None:
        return
    low = getattr(block, "min_bet", None)
    if low is not None and low > block.max_bet:
        refuse(f"{path}.min_bet", low, "it is above max_bet", f"at most {block.max_bet:g}")
    first = getattr(block, "unit", bankroll.base_bet) if system.type == "fibonacci" else None
    first = bankroll.base_bet if first is None else first
    if system.type != "proportional" and not (low or 0) <= first <= block.max_bet:
        refuse(f"{path}.max_bet", block.max_bet, f"the first bet is {first:g}",
               f"bets lie between {low or 0:g} and max_bet")  # fmt: skip


def _check_strategy(config: model.FullConfig) -> None:
    if config.strategy.type != "custom":
        return
    custom = config.strategy.custom
    if custom is None or not (custom.bet1_rules or custom.bet2_rules):
        refuse("strategy.custom", None, "the type is custom, and there are no rules",
               "give bet1_rules and bet2_rules")  # fmt: skip
    for name in ("bet1_rules", "bet2_rules"):
        for at, rule in enumerate(getattr(custom, name)):
            try:
                parse(rule.condition)
            except UsageError as error:
                path = f"strategy.custom.{name}[{at}].condition"
                raise UsageError(f"{path}: {error.message}", hint=error.hint) from None


def _check_bonus(config: model.FullConfig) -> None:
    bonus, limits = config.bonus_strategy, config.bonus_strategy.limits
    other = config.paytables.bonus.type
    if bonus.paytable is not None and other not in (None, bonus.paytable):
        refuse("bonus_strategy.paytable", bonus.paytable, f"paytables.bonus.type is {other}",
               "name one of the two, or the same twice")  # fmt: skip
    if limits.min_bet > limits.max_bet:
        refuse("bonus_strategy.limits.min_bet", limits.min_bet, "it is above max_bet",
               f"at most {limits.max_bet:g}")  # fmt: skip
    static, conditional = bonus.static, bonus.bankroll_conditional
    if static is not None and static.amount is not None and static.ratio is not None:
        refuse("bonus_strategy.static.ratio", static.ratio, "amount is given as well",
               "an amount or a ratio")  # fmt: skip
    if conditional is not None:
        _check_tiers(conditional.scaling)
    streak = bonus.streak_based
    if streak is not None and streak.action.type == "start" and "bonus" in streak.trigger:
        refuse("bonus_strategy.streak_based.trigger", streak.trigger,
               "a bonus that starts after it never starts", "use main_… or any_…")  # fmt: skip
    if streak is not None and streak.trigger == streak.reset_on:
        refuse("bonus_strategy.streak_based.reset_on", streak.reset_on,
               "it is the trigger, too", "use another event, or never")  # fmt: skip
    if bonus.enabled:
        _check_amounts(bonus)


def _check_tiers(scaling: model.ScalingConfig) -> None:
    path = "bonus_strategy.bankroll_conditional.scaling"
    if scaling.enabled and not scaling.tiers:
        refuse(f"{path}.tiers", [], "scaling is enabled", "at least one tier")
    for at, tier in enumerate(scaling.tiers):
        if tier.max_profit is not None and tier.max_profit <= tier.min_profit:
            refuse(f"{path}.tiers[{at}].max_profit", tier.max_profit, "it is not above min_profit",
                   f"more than {tier.min_profit:g}, or null")  # fmt: skip


def _check_amounts(bonus: model.BonusStrategyConfig) -> None:
    """Refuse written amounts that the table doesn't accept."""
    limits = bonus.limits
    for path, key, value in _walk(msgspec.to_builtins(bonus), "bonus_strategy"):
        if key not in ("amount", "base_amount", "bet_amount") or value == 0:
            continue
        steps = Fraction(repr(value)) / Fraction(repr(limits.increment))
        if not limits.min_bet <= value <= limits.max_bet or steps.denominator != 1:
            refuse(path, value, "the table doesn't accept it",
                   f"{limits.min_bet:g} to {limits.max_bet:g} in steps of {limits.increment:g} "
                   "(bonus_strategy.limits)")  # fmt: skip


def _check_size(config: model.FullConfig) -> None:
    played = config.simulation
    hands = played.num_sessions * played.hands_per_session * config.table.num_seats
    if config.records_hands and hands > MOST_HANDS_LOGGED:
        refuse("simulation.num_sessions", played.num_sessions,
               f"it would record {hands:,} hands", f"at most {MOST_HANDS_LOGGED:,} in total, or "
               "set detailed_logging and include_hands to false")  # fmt: skip
    system = config.bankroll.betting_system
    block = getattr(system, system.type, None)
    bet = config.bankroll.base_bet if block is None else block.max_bet
    pays = max(config.paytables.main_table.pays)
    most = 100 * float(config.bankroll.starting_amount) + 100 * played.hands_per_session * (
        3 * bet * float(pays) + config.bonus_strategy.limits.max_bet * float(
            max(config.bonus_table.pays)))  # fmt: skip
    if most >= MOST_CENTS:
        refuse("bankroll", f"${most / 100:,.0f} at most", "such sums are not exact to the cent",
               "use smaller bets, pays or fewer hands")  # fmt: skip

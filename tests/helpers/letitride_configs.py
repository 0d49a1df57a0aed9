"""Configurations of every kind, for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from runyard.doors.letitride.config.model import FullConfig

CONDITIONS = (
    "has_paying_hand",
    "is_flush_draw and high_cards >= 2",
    "not has_pair or (gaps <= 1 and suited_cards > 2)",
    "straight_flush_spread <= 4",
    "connected_cards == 3 or suited_high_cards >= 2",
    "default",
)
EVENTS = ("main_loss", "main_win", "bonus_loss", "bonus_win", "any_loss", "any_win")

_bets = st.sampled_from([1.0, 2.5, 5.0, 7.77, 25.0])
_limits = st.none() | st.sampled_from([20.0, 75.5, 300.0])


@st.composite
def betting_systems(draw: st.DrawFn, base: float) -> dict[str, Any]:
    """Any betting system that can start from a base bet."""
    most = draw(st.sampled_from([base, 4 * base, 100 * base]))
    factor = draw(st.sampled_from([1.5, 2.0, 3.0]))
    steps = draw(st.integers(1, 8))
    blocks: dict[str, dict[str, Any]] = {
        "proportional": {"bankroll_percentage": draw(st.sampled_from([0.01, 0.03, 0.333333, 0.5])),
                         "min_bet": min(base, 5), "max_bet": max(most, 5),
                         "round_to": draw(st.sampled_from([0.01, 1, 5]))},
        "martingale": {"loss_multiplier": factor, "reset_on_win": draw(st.booleans()),
                       "max_bet": most, "max_progressions": steps},
        "reverse_martingale": {"win_multiplier": factor, "reset_on_loss": draw(st.booleans()),
                               "profit_target_streak": steps, "max_bet": most},
        "paroli": {"win_multiplier": factor, "wins_before_reset": steps, "max_bet": most},
        "dalembert": {"unit": draw(_bets), "decrease_unit": draw(_bets), "min_bet": base,
                      "max_bet": most},
        "fibonacci": {"unit": base, "win_regression": steps, "max_bet": most,
                      "max_position": draw(st.integers(1, 12))},
    }  # fmt: skip
    kind = draw(st.sampled_from(["flat", *blocks]))
    return {"type": kind} | ({kind: blocks[kind]} if kind in blocks else {})


@st.composite
def bonus_strategies(draw: st.DrawFn) -> dict[str, Any]:
    """Any bonus strategy."""
    amount = draw(st.sampled_from([1.0, 3.0, 25.0]))
    trigger = draw(st.sampled_from(EVENTS))
    action = draw(st.sampled_from(["increase", "decrease", "multiply", "stop", "start"]))
    if action == "start" and "bonus" in trigger:
        trigger = "main_loss"
    resets = [event for event in (*EVENTS, "never") if event != trigger]
    tiers = [{"min_profit": 0, "max_profit": 50, "bet_amount": 2},
             {"min_profit": 50, "bet_amount": 10}]  # fmt: skip
    blocks: dict[str, dict[str, Any]] = {
        "always": {"amount": amount},
        "static": draw(st.sampled_from([{"amount": amount}, {"ratio": 0.4}])),
        "bankroll_conditional": {
            "base_amount": amount,
            "min_session_profit": draw(st.sampled_from([None, -50.0, 0.0, 10.0])),
            "min_bankroll_ratio": draw(st.sampled_from([None, 0.5, 0.9])),
            "profit_percentage": draw(st.sampled_from([None, 0.1])),
            "max_drawdown": draw(st.sampled_from([None, 0.25])),
            "scaling": {"enabled": draw(st.booleans()), "tiers": tiers},
        },
        "streak_based": {
            "base_amount": amount, "trigger": trigger, "streak_length": draw(st.integers(1, 4)),
            "action": {"type": action, "value": 2.0}, "reset_on": draw(st.sampled_from(resets)),
            "max_multiplier": draw(st.sampled_from([None, 1.0, 5.0])),
        },
    }  # fmt: skip
    kind = draw(st.sampled_from(["never", *blocks]))
    return {"enabled": True, "type": kind} | ({kind: blocks[kind]} if kind in blocks else {})


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, Any]:
    """Any strategy."""
    kind = draw(st.sampled_from(["basic", "conservative", "aggressive", "always_ride", "custom"]))
    rule = st.fixed_dictionaries(
        {"condition": st.sampled_from(CONDITIONS), "action": st.sampled_from(["ride", "pull"])}
    )
    rules = st.lists(rule, min_size=1, max_size=3)
    if kind == "custom":
        return {"type": kind, kind: {"bet1_rules": draw(rules), "bet2_rules": draw(rules)}}
    if kind == "aggressive":
        keys = ("ride_on_draws", "include_gutshots", "include_backdoor_flush")
        return {"type": kind, kind: {key: draw(st.booleans()) for key in keys}}
    if kind == "conservative":
        strengths = st.integers(1, 10)
        return {"type": kind, kind: {"made_hands_only": draw(st.booleans()),
                                     "min_strength_bet1": draw(strengths),
                                     "min_strength_bet2": draw(strengths)}}  # fmt: skip
    return {"type": kind}


@st.composite
def configurations(draw: st.DrawFn) -> FullConfig:
    """Any configuration, with few hands."""
    base = draw(_bets)
    custom = {
        "flush": st.sampled_from([0, 6, 8.5]),
        "pair_tens_or_better": st.sampled_from([0, 1, 1.2345]),
    }
    pays = draw(st.none() | st.fixed_dictionaries(custom))
    main = {"type": "standard"} if pays is None else {"type": "custom", "custom": pays}
    paytable = draw(st.sampled_from(["paytable_a", "paytable_b", "paytable_c"]))
    return FullConfig.from_data(
        {
            "simulation": {"hands_per_session": draw(st.integers(1, 60))},
            "table": {"num_seats": draw(st.integers(1, 6))},
            "bankroll": {
                "starting_amount": base * draw(st.sampled_from([3, 10, 100])),
                "base_bet": base,
                "stop_conditions": {"win_limit": draw(_limits), "loss_limit": draw(_limits),
                                    "max_hands": draw(st.none() | st.integers(1, 80))},
                "betting_system": draw(betting_systems(base)),
            },
            "strategy": draw(strategies()),
            "bonus_strategy": draw(bonus_strategies()) | {"paytable": paytable},
            "paytables": {"main_game": main},
        }
    )  # fmt: skip

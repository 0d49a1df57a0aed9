"""All exact figures of a strategy under a paytable, as plain data.

Every exact figure is `{"fraction": "-37963/1082900", "value": -0.0350567919…}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from runyard.doors.letitride.cache import cached
from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES, THREE_CARD_NAMES
from runyard.doors.letitride.cards.paytables import BONUS, BonusTable, MainTable, Pay
from runyard.doors.letitride.cards.tables import FOURS, THREES, Decisions
from runyard.doors.letitride.exact import tally as exact
from runyard.doors.letitride.exact.rules import rules
from runyard.doors.letitride.game.optimal import (
    SIZES,
    Choice,
    Mistake,
    choices,
    mistakes,
    optimal,
)
from runyard.doors.letitride.game.strategies import Basic, Strategy, decisions_of

_HANDS = {"bet1": THREES, "bet2": FOURS}


def exact_answer(
    table: MainTable, strategy: Strategy, bonus: Mapping[str, BonusTable] = BONUS
) -> dict[str, Any]:
    """Every exact figure of a strategy, the best play, and the strategy's cost against it.

    A strategy's decisions must depend on the hand alone. Answers are cached on disk.
    """
    best = isinstance(strategy, Basic) and strategy.table == table
    decisions = None if best else decisions_of(strategy)
    tables = {name: _pays(each) for name, each in bonus.items()}
    key = ["exact", _pays(table), decisions.digest if decisions else "optimal", tables]
    return cached(key, lambda: _answer(table, decisions, bonus))


def _answer(
    table: MainTable, decisions: Decisions | None, bonus: Mapping[str, BonusTable]
) -> dict[str, Any]:
    best = optimal(table)
    played = decisions or best
    found = exact.figures(exact.Tally(played), table)
    best_found = exact.figures(exact.Tally(best), table)
    told = _plain(msgspec.structs.asdict(found))
    for bet, count in told.pop("ride_hands").items():
        told["ride"][bet] |= {"hands": count, "of": _HANDS[bet]}
    return {
        "paytable": _pays(table),
        **told,
        "standard_deviation": found.standard_deviation,
        "hands": _counted(FIVE_CARD_NAMES, exact.five_card_counts()),
        "three_card_hands": _counted(THREE_CARD_NAMES, exact.three_card_counts()),
        "bonus": {name: _bonus(each) for name, each in bonus.items()},
        "optimal": _optimal(table, best_found.ev),
        "cost": _plain(best_found.ev - found.ev),
        "mistakes": [_mistake(each) for each in mistakes(played, table)],
    }


def _optimal(table: MainTable, ev: Fraction) -> dict[str, Any]:
    by_bet = {bet: choices(bet, table) for bet in SIZES}
    return {
        "ev": _plain(ev),
        "zero_hands": {
            bet: sum(each.hands for each in found if not each.worth)
            for bet, found in by_bet.items()
        },
        "rules": {bet: [rule._asdict() for rule in rules(found)] for bet, found in by_bet.items()},
        "table": {
            bet: [_choice(each) for each in _by_worth(found)] for bet, found in by_bet.items()
        },
    }


def _by_worth(found: Iterable[Choice]) -> list[Choice]:
    return sorted(found, key=lambda choice: -choice.worth)


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "hand": choice.profile.text,
        "hands": choice.hands,
        "worth": _plain(choice.worth),
        "best": "ride" if choice.ride else "pull",
    }


def _mistake(mistake: Mistake) -> dict[str, Any]:
    return {
        "bet": mistake.choice.bet,
        "hand": mistake.choice.profile.text,
        "hands": mistake.hands,
        "example": mistake.example,
        "played": mistake.played,
        "worth": _plain(mistake.choice.worth),
        "cost": _plain(mistake.cost),
    }


def _bonus(table: BonusTable) -> dict[str, Any]:
    found = exact.bonus_figures(table)
    return {
        "pays": _pays(table),
        **_plain(msgspec.structs.asdict(found)),
        "standard_deviation": found.standard_deviation,
    }


def _counted(names: Sequence[str], counts: Sequence[int]) -> dict[str, Any]:
    total = sum(counts)
    return {
        name: {"count": count, "of": total, **_plain(Fraction(count, total))}
        for name, count in zip(names, counts, strict=True)
    }


def _pays(table: MainTable | BonusTable) -> dict[str, int | str]:
    return {name: _pay(pay) for name, pay in table.by_name().items()}


def _pay(pay: Pay) -> int | str:
    return pay if isinstance(pay, int) else str(pay)


def _plain(value: Any) -> Any:
    """Convert nested fractions to their digits and nearest double."""
    if isinstance(value, Fraction):
        return {"fraction": str(value), "value": float(value)}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value

"""Values of `--paytable`, `--bonus` and `--strategy`: a name, a file, or written out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.cli.values import assignments
from runyard.errors import BadTarget, UsageError

if TYPE_CHECKING:
    from runyard.doors.letitride.cards.paytables import BonusTable, MainTable
    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.game.strategies import Strategy


def main_table(text: str) -> MainTable:
    """`standard`, a configuration's table, or the standard one with some pays changed."""
    from runyard.doors.letitride.cards.paytables import STANDARD, MainTable

    if text == "standard":
        return STANDARD
    if "=" in text:
        return MainTable.of(assignments(_parts(text), "--paytable"), STANDARD)
    return _configuration(text, "--paytable", "standard").paytables.main_table


def bonus_tables(text: str | None) -> dict[str, BonusTable]:
    """A known table, a configuration's, or one written out; by default all known ones."""
    from runyard.doors.letitride.cards.paytables import BONUS, BonusTable

    if text is None:
        return BONUS
    name = text if text.startswith("paytable_") else f"paytable_{text}"
    if name in BONUS:
        return {name: BONUS[name]}
    if "=" in text:
        given = assignments(_parts(text), "--bonus")
        return {"custom": BonusTable.of(given, BONUS["paytable_b"])}
    return {"custom": _configuration(text, "--bonus", ", ".join(BONUS)).bonus_table}


def strategy(text: str, table: MainTable) -> Strategy:
    """A built-in strategy, a configuration's, or a class: `module:Class` or `file.py:Class`."""
    from runyard.doors.letitride.config.model import StrategyConfig
    from runyard.doors.letitride.game.strategies import strategy_of

    if text in BUILT_IN:
        return strategy_of(StrategyConfig(type=text), table)  # type: ignore[arg-type]
    if ":" in text:
        return _own(text)
    found = _configuration(text, "--strategy", f"{', '.join(BUILT_IN)}, module:Class")
    return strategy_of(found.strategy, table)


BUILT_IN = ("basic", "conservative", "aggressive", "always_ride", "always_pull")
"""Strategies without parameters."""


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _configuration(text: str, option: str, words: str) -> FullConfig:
    from runyard.doors.letitride import read_file

    if not Path(text).is_file():
        raise UsageError(
            f"{option} {text!r} is neither a known name nor a file",
            hint=f"write {words}, or the path of a configuration",
        )
    return read_file(text)


def _own(text: str) -> Strategy:
    from runyard.attempt.load import load
    from runyard.doors.letitride.game.strategies import Strategy
    from runyard.spec.task import Target

    made: Any = load(Target.parse(text), str(Path.cwd()))
    found = made() if isinstance(made, type) else made
    if not isinstance(found, Strategy):
        raise BadTarget(
            f"{text} is not a strategy",
            hint="it needs two methods: ride_bet1(self, hand) and ride_bet2(self, hand)",
        )
    return found

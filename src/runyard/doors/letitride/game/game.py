"""A configuration reduced to what is played: whole numbers that both engines read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from runyard.doors.letitride.cards.tables import Decisions
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.game import betting, bonus
from runyard.doors.letitride.game.money import cents, pay_units
from runyard.doors.letitride.game.strategies import Strategy, decisions_of, strategy_of

STOP_REASONS = ("win_limit", "loss_limit", "max_hands", "insufficient_funds")
"""Why a session ends, in the order of the checks before every hand."""


@dataclass(frozen=True)
class Game:
    """Everything a session depends on besides its seed; money in cents, pays in ten-thousandths."""

    hands: int  # most hands of a session
    seats: int
    start: int
    base: int
    win_limit: int
    loss_limit: int
    main_pays: tuple[int, ...]
    bonus_pays: tuple[int, ...]
    betting: betting.BettingRule
    bonus: bonus.BonusRule | None
    strategy: Strategy = field(compare=False)

    @cached_property
    def decisions(self) -> Decisions:
        """Every decision of the strategy, as a table."""
        return decisions_of(self.strategy)


def game_of(config: FullConfig) -> Game:
    """The game that a configuration describes."""
    stop, played = config.bankroll.stop_conditions, config.simulation
    table = config.paytables.main_table
    return Game(
        hands=min(played.hands_per_session, stop.max_hands or played.hands_per_session),
        seats=config.table.num_seats,
        start=cents(config.bankroll.starting_amount),
        base=cents(config.bankroll.base_bet),
        win_limit=bonus.ANYTHING if stop.win_limit is None else cents(stop.win_limit),
        loss_limit=bonus.ANYTHING if stop.loss_limit is None else cents(stop.loss_limit),
        main_pays=tuple(map(pay_units, table.pays)),
        bonus_pays=tuple(map(pay_units, config.bonus_table.pays)),
        betting=betting.rule_of(config.bankroll),
        bonus=bonus.rule_of(config),
        strategy=strategy_of(config.strategy, table),
    )

"""The configuration of a simulation: every key that a file may hold, with its default.

`file` reads files; `checks` refuses invalid values and says where, what was found and what is
allowed. Money is in dollars here, in whole cents while playing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from runyard.doors.letitride.cards.facts import PAYING
from runyard.doors.letitride.cards.paytables import BONUS, STANDARD, BonusTable, MainTable
from runyard.doors.letitride.config.output import ConfigSection, OutputConfig

MOST_MONEY = 1e8
"""The largest amount, in dollars."""

Money = Annotated[float, Meta(gt=0, le=MOST_MONEY)]
MoneyOrNone = Annotated[float, Meta(ge=0, le=MOST_MONEY)]
Profit = Annotated[float, Meta(ge=-MOST_MONEY, le=MOST_MONEY)]
Multiplier = Annotated[float, Meta(gt=1, le=1000)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
Steps = Annotated[int, Meta(ge=1, le=100)]
StrategyName = Literal["basic", "conservative", "aggressive", "always_ride", "always_pull"]
Strength = Annotated[int, Meta(ge=1, le=10)]
Count = Annotated[int, Meta(ge=1)]
Pays = Annotated[float, Meta(ge=0, le=1_000_000)]


class MetadataConfig(ConfigSection, frozen=True):
    """The name of the configuration, which also names the batch, and other metadata."""

    name: str | None = None
    description: str | None = None
    version: str | None = None
    author: str | None = None
    created: str | None = None


class SimulationConfig(ConfigSection, frozen=True):
    """How many sessions are played, by how many workers."""

    num_sessions: Annotated[int, Meta(ge=1, le=100_000_000)] = 10_000
    hands_per_session: Annotated[int, Meta(ge=1, le=10_000)] = 200
    random_seed: Annotated[int, Meta(ge=0)] | None = None
    workers: Count | Literal["auto"] = "auto"
    progress_interval: Count = 10_000
    detailed_logging: bool = False


class TableConfig(ConfigSection, frozen=True):
    """The table."""

    num_seats: Annotated[int, Meta(ge=1, le=6)] = 1


class DeckConfig(ConfigSection, frozen=True):
    """How the deck is shuffled: every order is equally likely."""

    shuffle_algorithm: Literal["fisher_yates"] = "fisher_yates"


class DealerConfig(ConfigSection, frozen=True):
    """Cards that the dealer discards before the community cards."""

    discard_enabled: bool = False
    discard_cards: Annotated[int, Meta(ge=1, le=10)] = 3


class StopConditionsConfig(ConfigSection, frozen=True):
    """When a session ends before all of its hands are played."""

    win_limit: Money | None = None
    loss_limit: Money | None = None
    max_hands: Count | None = None
    max_duration_minutes: None = None
    stop_on_insufficient_funds: Literal[True] = True


class ProportionalConfig(ConfigSection, frozen=True):
    """Bets are a share of the bankroll."""

    bankroll_percentage: Annotated[float, Meta(ge=0.001, le=0.5)] = 0.03
    min_bet: Money = 5.0
    max_bet: Money = 100.0
    round_to: Money = 1.0


class MartingaleConfig(ConfigSection, frozen=True):
    """Higher bets after each loss, on `max_progressions` levels."""

    loss_multiplier: Multiplier = 2.0
    reset_on_win: bool = True
    max_bet: Money = 500.0
    max_progressions: Steps = 6


class ReverseMartingaleConfig(ConfigSection, frozen=True):
    """Higher bets after each win, until a streak is complete."""

    win_multiplier: Multiplier = 2.0
    reset_on_loss: bool = True
    profit_target_streak: Steps = 3
    max_bet: Money = 500.0


class ParoliConfig(ConfigSection, frozen=True):
    """Higher bets after each win, for a few wins."""

    win_multiplier: Multiplier = 2.0
    wins_before_reset: Steps = 3
    max_bet: Money = 500.0


class DalembertConfig(ConfigSection, frozen=True):
    """One unit more after a loss, one less after a win."""

    unit: Money = 5.0
    decrease_unit: Money = 5.0
    min_bet: Money = 5.0
    max_bet: Money = 500.0


class FibonacciConfig(ConfigSection, frozen=True):
    """Bets follow the Fibonacci numbers: one up after a loss, some down after a win."""

    unit: Money = 5.0
    win_regression: Steps = 2
    max_bet: Money = 500.0
    max_position: Annotated[int, Meta(ge=1, le=50)] = 10


class BettingSystemConfig(ConfigSection, frozen=True):
    """How the next bet follows from earlier hands."""

    type: Literal[
        "flat", "proportional", "martingale", "reverse_martingale", "paroli", "dalembert",
        "fibonacci",
    ] = "flat"  # fmt: skip
    proportional: ProportionalConfig | None = None
    martingale: MartingaleConfig | None = None
    reverse_martingale: ReverseMartingaleConfig | None = None
    paroli: ParoliConfig | None = None
    dalembert: DalembertConfig | None = None
    fibonacci: FibonacciConfig | None = None


class BankrollConfig(ConfigSection, frozen=True):
    """The money of a session."""

    starting_amount: Money = 500.0
    base_bet: Money = 5.0
    stop_conditions: StopConditionsConfig = StopConditionsConfig()
    betting_system: BettingSystemConfig = BettingSystemConfig()


class ConservativeConfig(ConfigSection, frozen=True):
    """The weakest hand that rides; without `made_hands_only`, draws to a royal flush ride too."""

    made_hands_only: bool = True
    min_strength_bet1: Strength = PAYING
    min_strength_bet2: Strength = PAYING


class AggressiveConfig(ConfigSection, frozen=True):
    """Which draws ride."""

    ride_on_draws: bool = True
    include_gutshots: bool = True
    include_backdoor_flush: bool = True


class RuleConfig(ConfigSection, frozen=True):
    """What to do if a condition holds."""

    condition: str
    action: Literal["ride", "pull"]


class CustomConfig(ConfigSection, frozen=True):
    """Rules in order; the first that holds decides, and if none holds the bet is pulled."""

    bet1_rules: tuple[RuleConfig, ...] = ()
    bet2_rules: tuple[RuleConfig, ...] = ()


class StrategyConfig(ConfigSection, frozen=True):
    """When bets ride."""

    type: StrategyName | Literal["custom"] = "basic"
    conservative: ConservativeConfig | None = None
    aggressive: AggressiveConfig | None = None
    custom: CustomConfig | None = None


class BonusLimitsConfig(ConfigSection, frozen=True):
    """The bonus bets that the table accepts."""

    min_bet: MoneyOrNone = 1.0
    max_bet: Money = 25.0
    increment: Money = 1.0


class AlwaysBonusConfig(ConfigSection, frozen=True):
    """The same bonus bet on every hand."""

    amount: Money = 1.0


class StaticBonusConfig(ConfigSection, frozen=True):
    """The same bonus bet on every hand: an amount, or a share of the base bet."""

    amount: Money | None = None
    ratio: PositiveShare | None = None


class TierConfig(ConfigSection, frozen=True):
    """A bonus bet for profits from `min_profit` to below `max_profit`."""

    min_profit: Profit = 0.0
    max_profit: Profit | None = None
    bet_amount: MoneyOrNone = 1.0


class ScalingConfig(ConfigSection, frozen=True):
    """Bonus bets by profit."""

    enabled: bool = False
    tiers: tuple[TierConfig, ...] = ()


class BankrollConditionalConfig(ConfigSection, frozen=True):
    """A bonus bet while the session goes well."""

    base_amount: Money = 1.0
    min_session_profit: Profit | None = 0.0
    min_bankroll_ratio: PositiveShare | None = None
    profit_percentage: PositiveShare | None = None
    max_drawdown: PositiveShare | None = 0.25
    scaling: ScalingConfig = ScalingConfig()


class StreakActionConfig(ConfigSection, frozen=True):
    """What a streak does to the bonus bet."""

    type: Literal["increase", "decrease", "stop", "start", "multiply"] = "multiply"
    value: Annotated[float, Meta(gt=0, le=MOST_MONEY)] = 2.0


Streak = Literal["main_loss", "main_win", "bonus_loss", "bonus_win", "any_loss", "any_win"]


class StreakBasedConfig(ConfigSection, frozen=True):
    """A bonus bet that follows streaks."""

    base_amount: Money = 1.0
    trigger: Streak = "bonus_loss"
    streak_length: Annotated[int, Meta(ge=1, le=10_000)] = 5
    action: StreakActionConfig = StreakActionConfig()
    reset_on: Streak | Literal["never"] = "bonus_win"
    max_multiplier: Annotated[float, Meta(ge=1, le=1000)] | None = 5.0


BonusName = Literal["paytable_a", "paytable_b", "paytable_c", "custom"]


class BonusStrategyConfig(ConfigSection, frozen=True):
    """When the three-card bonus is played, and for how much."""

    enabled: bool = False
    paytable: BonusName | None = None  # None: as in paytables.bonus
    limits: BonusLimitsConfig = BonusLimitsConfig()
    type: Literal["never", "always", "static", "bankroll_conditional", "streak_based"] = "never"
    always: AlwaysBonusConfig | None = None
    static: StaticBonusConfig | None = None
    bankroll_conditional: BankrollConditionalConfig | None = None
    streak_based: StreakBasedConfig | None = None


class CustomMainTableConfig(ConfigSection, frozen=True):
    """Pays to 1 for each bet that rides."""

    royal_flush: Pays = 1000
    straight_flush: Pays = 200
    four_of_a_kind: Pays = 50
    full_house: Pays = 11
    flush: Pays = 8
    straight: Pays = 5
    three_of_a_kind: Pays = 3
    two_pair: Pays = 2
    pair_tens_or_better: Pays = 1


class MainGameConfig(ConfigSection, frozen=True):
    """What the five cards pay."""

    type: Literal["standard", "custom"] = "standard"
    custom: CustomMainTableConfig | None = None


class CustomBonusTableConfig(ConfigSection, frozen=True):
    """Pays to 1 for the player's three cards."""

    mini_royal: Pays = 100
    straight_flush: Pays = 40
    three_of_a_kind: Pays = 30
    straight: Pays = 5
    flush: Pays = 4
    pair: Pays = 1


class BonusTableConfig(ConfigSection, frozen=True):
    """What the player's three cards pay."""

    type: BonusName | None = None  # None: as in bonus_strategy.paytable, else paytable_b
    custom: CustomBonusTableConfig | None = None


class PaytablesConfig(ConfigSection, frozen=True):
    """What hands pay."""

    main_game: MainGameConfig = MainGameConfig()
    bonus: BonusTableConfig = BonusTableConfig()

    @property
    def main_table(self) -> MainTable:
        """The main table."""
        custom = self.main_game.custom
        if self.main_game.type == "standard" or custom is None:
            return STANDARD
        return MainTable.of(msgspec.structs.asdict(custom))


class FullConfig(ConfigSection, frozen=True):
    """A complete configuration; `FullConfig()` has the defaults."""

    metadata: MetadataConfig = MetadataConfig()
    simulation: SimulationConfig = SimulationConfig()
    table: TableConfig = TableConfig()
    deck: DeckConfig = DeckConfig()
    dealer: DealerConfig = DealerConfig()
    bankroll: BankrollConfig = BankrollConfig()
    strategy: StrategyConfig = StrategyConfig()
    bonus_strategy: BonusStrategyConfig = BonusStrategyConfig()
    paytables: PaytablesConfig = PaytablesConfig()
    output: OutputConfig = OutputConfig()

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> FullConfig:
        """Read a configuration from plain values, as in a file; refuse invalid ones."""
        from runyard.doors.letitride.config.checks import read_config

        return read_config(data)

    def to_data(self) -> dict[str, Any]:
        """The configuration as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def with_(self, **sections: Mapping[str, Any]) -> FullConfig:
        """A copy with other values, by section: `with_(simulation={"num_sessions": 5})`."""
        data = self.to_data()
        for name, values in sections.items():
            data[name] = {**data.get(name, {}), **values}
        return self.from_data(data)

    @property
    def bonus_table_name(self) -> str:
        """The name of the bonus paytable."""
        return self.bonus_strategy.paytable or self.paytables.bonus.type or "paytable_b"

    @property
    def bonus_table(self) -> BonusTable:
        """The bonus paytable."""
        name = self.bonus_table_name
        if name in BONUS:
            return BONUS[name]
        custom = self.paytables.bonus.custom or CustomBonusTableConfig()
        return BonusTable.of(msgspec.structs.asdict(custom))

    @property
    def records_hands(self) -> bool:
        """Whether every hand is recorded."""
        csv = self.output.formats.csv
        return self.simulation.detailed_logging or (csv.enabled and csv.include_hands)

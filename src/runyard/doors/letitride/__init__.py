"""Let It Ride: sessions simulated at compiled speed, and exact answers.

from runyard.doors.letitride import FullConfig, SimulationController

results = SimulationController(FullConfig(), workers=2).run()
print(results.aggregate.summary())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.doors import lazy_names

if TYPE_CHECKING:
    from runyard.doors.letitride.cards.facts import HandFacts
    from runyard.doors.letitride.config.file import read_file
    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.exact.answers import exact_answer
    from runyard.doors.letitride.game.betting import BettingSystem, BettingSystemFactory
    from runyard.doors.letitride.game.bonus import BonusStrategy
    from runyard.doors.letitride.game.strategies import Strategy
    from runyard.doors.letitride.report.results import SessionResult, SimulationResults
    from runyard.doors.letitride.simulate.controller import ParallelExecutor, SimulationController

__all__ = [  # noqa: RUF022  grouped: configuration, running, results, custom classes
    "FullConfig", "read_file", "BettingSystemFactory",
    "SimulationController", "ParallelExecutor",
    "SimulationResults", "SessionResult", "exact_answer",
    "Strategy", "HandFacts", "BettingSystem", "BonusStrategy",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "exact.answers": "exact_answer",
        "game.betting": "BettingSystem BettingSystemFactory",
        "game.bonus": "BonusStrategy",
        "config.model": "FullConfig",
        "config.file": "read_file",
        "cards.facts": "HandFacts",
        "report.results": "SessionResult SimulationResults",
        "simulate.controller": "ParallelExecutor SimulationController",
        "game.strategies": "Strategy",
    },
)

"""Let It Ride: sessions simulated at hardware speed, and exact answers.

from runyard.doors.letitride import FullConfig, SimulationController

results = SimulationController(FullConfig(), workers=2).run()
print(results.aggregate.summary())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runyard.doors.letitride.answers import exact_answer
    from runyard.doors.letitride.betting import BettingSystem, BettingSystemFactory
    from runyard.doors.letitride.bonus import BonusStrategy
    from runyard.doors.letitride.config import FullConfig
    from runyard.doors.letitride.config_file import read_file
    from runyard.doors.letitride.facts import HandFacts
    from runyard.doors.letitride.results import SessionResult, SimulationResults
    from runyard.doors.letitride.simulation import ParallelExecutor, SimulationController
    from runyard.doors.letitride.strategies import Strategy

__all__ = [  # noqa: RUF022  grouped: what to play, running it, what came out, one's own classes
    "FullConfig", "read_file", "BettingSystemFactory",
    "SimulationController", "ParallelExecutor",
    "SimulationResults", "SessionResult", "exact_answer",
    "Strategy", "HandFacts", "BettingSystem", "BonusStrategy",
]  # fmt: skip

_HOMES = {
    "answers": ("exact_answer",),
    "betting": ("BettingSystem", "BettingSystemFactory"),
    "bonus": ("BonusStrategy",),
    "config": ("FullConfig",),
    "config_file": ("read_file",),
    "facts": ("HandFacts",),
    "results": ("SessionResult", "SimulationResults"),
    "simulation": ("ParallelExecutor", "SimulationController"),
    "strategies": ("Strategy",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found

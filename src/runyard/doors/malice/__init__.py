"""The malice experiment: seven users vote, and one of them wants to be promoted by all means.

from runyard.doors.malice import Config, MaliceExperiment, run_batch

record = MaliceExperiment(Config(seed=7)).run()
batch = run_batch(runs=30, tickets=60, seed=7)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runyard.doors.malice.agents import Agent, RuleAgent, Scene, published_agents
    from runyard.doors.malice.audit import AuditLogger
    from runyard.doors.malice.batch import MaliceBatch, run_batch
    from runyard.doors.malice.calibration import calibrate
    from runyard.doors.malice.experiment import Config, MaliceExperiment, Parts
    from runyard.doors.malice.gates import Gate, PatternGate, published_gates
    from runyard.doors.malice.immune import ImmuneSystem
    from runyard.doors.malice.machine import SocialVoteSystem
    from runyard.doors.malice.replaying import replay
    from runyard.doors.malice.rules import Rules
    from runyard.doors.malice.state import Message, State

__all__ = [  # noqa: RUF022  grouped: running it, its parts, published data
    "MaliceExperiment", "Config", "run_batch", "MaliceBatch",
    "Parts", "Agent", "RuleAgent", "Scene", "published_agents", "Gate", "PatternGate",
    "published_gates", "ImmuneSystem", "SocialVoteSystem", "Rules", "State", "Message",
    "AuditLogger",
    "replay", "calibrate",
]  # fmt: skip

_HOMES = {
    "agents": ("Agent", "RuleAgent", "Scene", "published_agents"),
    "audit": ("AuditLogger",),
    "batch": ("MaliceBatch", "run_batch"),
    "calibration": ("calibrate",),
    "experiment": ("Config", "MaliceExperiment", "Parts"),
    "gates": ("Gate", "PatternGate", "published_gates"),
    "immune": ("ImmuneSystem",),
    "machine": ("SocialVoteSystem",),
    "replaying": ("replay",),
    "rules": ("Rules",),
    "state": ("Message", "State"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found

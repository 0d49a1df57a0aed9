"""The malice experiment: seven users vote, and one of them wants to be promoted at any cost.

from runyard.doors.malice import Config, MaliceExperiment, run_batch

record = MaliceExperiment(Config(seed=7)).run()
batch = run_batch(runs=30, tickets=60, seed=7)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.doors import lazy_names

if TYPE_CHECKING:
    from runyard.doors.malice.batch.runs import MaliceBatch, run_batch
    from runyard.doors.malice.logs.audit import AuditLogger
    from runyard.doors.malice.replays.calibration import calibrate
    from runyard.doors.malice.replays.replay import replay
    from runyard.doors.malice.run.experiment import Config, MaliceExperiment, Parts
    from runyard.doors.malice.society.agents import Agent, RuleAgent, Scene, published_agents
    from runyard.doors.malice.society.gates import Gate, PatternGate, published_gates
    from runyard.doors.malice.society.immune import ImmuneSystem
    from runyard.doors.malice.society.machine import SocialVoteSystem
    from runyard.doors.malice.society.rules import Rules
    from runyard.doors.malice.society.state import Message, State

__all__ = [  # noqa: RUF022  grouped: running it, its parts, published data
    "MaliceExperiment", "Config", "run_batch", "MaliceBatch",
    "Parts", "Agent", "RuleAgent", "Scene", "published_agents", "Gate", "PatternGate",
    "published_gates", "ImmuneSystem", "SocialVoteSystem", "Rules", "State", "Message",
    "AuditLogger",
    "replay", "calibrate",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "society.agents": "Agent RuleAgent Scene published_agents",
        "logs.audit": "AuditLogger",
        "batch.runs": "MaliceBatch run_batch",
        "replays.calibration": "calibrate",
        "run.experiment": "Config MaliceExperiment Parts",
        "society.gates": "Gate PatternGate published_gates",
        "society.immune": "ImmuneSystem",
        "society.machine": "SocialVoteSystem",
        "replays.replay": "replay",
        "society.rules": "Rules",
        "society.state": "Message State",
    },
)

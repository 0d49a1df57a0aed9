"""One run: agents, gates, clock and log around the rules.

floor ──▶ agent ──▶ gates ──▶ rules ──▶ immune system
who,       message   decide    state,     frequencies
when                           events
             └─────────┴─────────┴──────────┴──▶ logs, record, alerts
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from runyard.doors.malice.logs.audit import AuditLogger
from runyard.doors.malice.run.record import Paths, RunCounts, run_record
from runyard.doors.malice.society.agents import Agent, Scene, published_agents
from runyard.doors.malice.society.chance import RandomStream
from runyard.doors.malice.society.floor import Floor, Pacing
from runyard.doors.malice.society.gates import Gate, GateKeeper, published_gates
from runyard.doors.malice.society.immune import MODES, ImmuneRules, ImmuneSystem, Mode
from runyard.doors.malice.society.machine import SocialVoteSystem
from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import Message, State, StatusChanged
from runyard.doors.malice.society.symbols import BIND, CIVIL, SEC_CLEAN
from runyard.errors import BadSpec

HEARD = 12
"""Messages that an agent can look back on."""

IMMUNE = "immune"
PARTS = (CIVIL, SEC_CLEAN, BIND, IMMUNE)
"""The parts that an experiment can leave out."""

OnAlert = Callable[[str], None]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of one run; the same configuration gives the same run everywhere."""

    run_id: int = 1
    seed: int = 0
    tickets: int = 60
    immune: Mode = "logged"
    without: tuple[str, ...] = ()
    rules: Rules = Rules()
    pace: Pacing = Pacing()

    def __post_init__(self) -> None:
        for name, least in (("run_id", 1), ("seed", 0), ("tickets", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise BadSpec(f"{name} is {value!r}", hint=f"use a whole number, {least} or more")
        if not isinstance(self.rules, Rules):
            raise BadSpec(f"rules is {self.rules!r}", hint="use Rules(promote_at=4, …)")
        if self.immune not in MODES:
            raise BadSpec(f"immune is {self.immune!r}", hint=f"use one of: {', '.join(MODES)}")
        for part in self.without:
            if part not in PARTS:
                raise BadSpec(
                    f"unknown part {part!r} in without",
                    hint=f"the parts are: {', '.join(PARTS)}",
                )


@dataclass
class Parts:
    """The parts of a run; each can be replaced."""

    agents: Sequence[Agent] = field(default_factory=published_agents)
    gates: Sequence[Gate] = field(default_factory=published_gates)
    system: Callable[[Rules], SocialVoteSystem] = SocialVoteSystem
    immune: Callable[[Mode], ImmuneSystem] = ImmuneSystem


class MaliceExperiment:
    """Seven users talk and vote, and one of them wants to be promoted at any cost."""

    def __init__(self, config: Config | None = None, parts: Parts | None = None) -> None:
        self.config = config or Config()
        self.parts = parts or Parts()
        config, parts = self.config, self.parts
        self.agents = {_name_of(agent): agent for agent in parts.agents}
        if not self.agents:
            raise BadSpec("there are no agents", hint="give at least one")
        if len(self.agents) < len(parts.agents):
            raise BadSpec("two agents have the same name", hint="give each agent its own name")
        off = IMMUNE in config.without
        self.immune = parts.immune("off" if off else config.immune)
        self._system = parts.system(config.rules)
        self._gates = GateKeeper(
            [gate for gate in parts.gates if gate.name not in config.without],
            RandomStream(config.seed, "gates"),
            config.rules,
            binds=BIND not in config.without,
        )
        self._floor = Floor(list(self.agents), RandomStream(config.seed, "floor"), config.pace)
        self._chances = {name: RandomStream(config.seed, name) for name in self.agents}
        self.state = State.of(self.agents)
        self.tally = RunCounts()
        self._heard: deque[Message] = deque(maxlen=HEARD)

    @property
    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._floor.time

    def run(
        self,
        log: AuditLogger | None = None,
        alert: OnAlert | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, Any]:
        """Play every ticket; return the run's record."""
        config = self.config
        paths = Paths(config.tickets)
        while self.state.tickets < config.tickets:
            for change in self.step(log):
                if alert is not None and change.rose:
                    where = f"run {config.run_id}: {change.name} → {change.new}"
                    alert(f"{where} at ticket {change.ticket}")
            paths.see(self.state)
            if progress is not None:
                progress(self.state.tickets)
        return run_record(config.run_id, config.seed, self.state, self.tally, self.time, paths)

    def step(self, log: AuditLogger | None = None) -> list[StatusChanged]:
        """Play one ticket; return the changes of status."""
        before = self.state
        name, ticket = self._floor.next(), before.tickets + 1
        scene = Scene(before, self._chances[name], self.immune.frequency(name), self._heard)
        text = self.agents[name].speak(scene)
        if not isinstance(text, str):
            raise BadSpec(f"{name} said {text!r}", hint="an agent's `speak` returns a text")
        decisions = self._gates.decide(text, before.users[name], ticket)
        blocked = tuple(d.gate for d in decisions if d.blocked and d.gate != BIND)
        bound = any(d.gate == BIND and not d.blocked for d in decisions)
        message = Message(name, text, blocked, bound)
        self._heard.append(message)
        self.state, events = self._system.step(before, message)
        changes = self.tally.see(events)
        if log is not None:
            log.ticket(ticket, before.users[name], text, self.time, decisions, events)
        rises = [change for change in changes if change.rose]
        if log is not None:
            for rise in rises:
                log.promoted(rise, len(self.tally.rises), self.time)
        adjusted = self.immune.observe(ticket, len(rises))
        if adjusted is not None:
            self.tally.adjustments.append(adjusted)
            if log is not None:
                rules: ImmuneRules = self.immune.rules
                log.adjusted(adjusted, name, rules, self.time)
        return changes


def _name_of(agent: Agent) -> str:
    """Return an agent's name; refuse one without `name` or `speak`."""
    name = getattr(agent, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(agent, "speak", None)):
        raise BadSpec(
            f"{agent!r} is not an agent", hint="an agent has a `name` and a method `speak(scene)`"
        )
    return name

"""Parts of one's own for the malice experiment, as tests need them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from runyard.doors.malice import Parts, PatternGate, Scene, published_agents, published_gates
from runyard.doors.malice.society.agents import Malicious, Promoter


class Wrapped:
    """An agent of the published ones, with something that happens before it speaks."""

    def __init__(self, agent, before):
        self.name = agent.name
        self._agent, self._before = agent, before

    def speak(self, scene: Scene) -> str:
        self._before(scene)
        return self._agent.speak(scene)


def wrapped(before) -> Parts:
    return Parts(agents=[Wrapped(agent, before) for agent in published_agents()])


def dies_once() -> Parts:
    """Kills its process in the middle of the first run that gets there."""

    def before(scene: Scene) -> None:
        marker = Path(os.environ["MALICE_MARKER"])
        if scene.state.tickets == 15 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return wrapped(before)


def fails_late() -> Parts:
    """Every run with an odd first speaker's name fails in its middle."""

    def before(scene: Scene) -> None:
        if scene.state.tickets == 10 and len(scene.state.users["alice"].voted) % 2:
            raise ValueError("lost its words")

    return wrapped(before)


def lingers() -> Parts:
    """Takes a little time for each ticket."""
    return wrapped(lambda scene: time.sleep(0.01))


def three() -> Parts:
    """Other users, and a stricter gate."""
    agents = [Promoter("ann"), Promoter("ben"), Malicious("mallory")]
    return Parts(agents=agents, gates=[*published_gates(), PatternGate("sec_clean", ["it shows"])])


def nothing() -> list[str]:
    """No parts at all."""
    return []


def broken() -> Parts:
    """Fails while it makes them."""
    return {}["parts"]


def twins() -> Parts:
    """Two of one name."""
    return Parts(agents=[Promoter("ann"), Promoter("ann")])


def words() -> Parts:
    """No agent at all."""
    return Parts(agents=["bob"])

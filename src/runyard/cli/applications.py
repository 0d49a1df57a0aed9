"""The applications, each a folder in `doors/`: named here, imported when one is used.

The layers put them above `cli`, whose parts their commands are made of, so they appear by path.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runyard.store.stored_batch import StoredBatch

APPLICATIONS = {
    "letitride": ("doors.letitride.commands", "Let It Ride: simulated sessions, exact answers."),
    "malice": (
        "doors.malice.commands",
        "A vote that one of seven agents wants to win at any cost.",
    ),
    "workbench": (
        "doors.workbench.commands",
        "A test bench for LangGraph: variants, cases, time travel.",
    ),
    "queue": ("doors.agent.commands.queue", "A task queue for agents, run by a background worker."),
    "mcp": ("doors.agent.commands.mcp", "Serve the queue to an agent over MCP (stdio)."),
}
"""The module of each command, and its line in the help."""


def hooks_of(stored: StoredBatch) -> ModuleType | None:
    """What the application that a batch comes from adds to it: its module `hooks`, if it has one.

    It may define `register_sections()` for the HTML report, and `collect(yard, name)` for files
    made of the outcomes.
    """
    from importlib.util import find_spec

    place = stored.target.ref.partition(":")[0].split(".") if stored.target else []
    if place[:2] != ["runyard", "doors"]:
        return None
    module = ".".join([*place[:3], "hooks"])
    return None if find_spec(module) is None else import_module(module)

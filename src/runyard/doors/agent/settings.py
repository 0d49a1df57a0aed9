"""What the owner of a yard allows its agents: `agent.toml` in the yard's folder.

isolation = "process"                 # none, process or bubblewrap; unset: the best there is
environment = ["LANG", "TZ"]          # variables that model-written code may see besides PATH
knowledge = ["docs", "src"]           # folders that knowledge_search may read; unset: here
allowed = ["mytools.text:clean"]      # what custom_function may call by name

[limits]                              # of each piece of code
memory = "1GB"

[functions]                           # more functions that a task can name
fetch = "mytools.web:fetch"

[servers.files]                       # MCP servers whose tools a task can call
command = "files-server"
args = ["--read-only"]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from runyard.errors import BadSpec, UsageError
from runyard.spec import toml, units

FILE = "agent.toml"
LEVELS = ("none", "process", "bubblewrap")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one piece of model-written code may use."""

    cpu: float = 60.0  # seconds of one process
    memory: int = 1 << 30  # bytes: of one process, and of all of them together
    processes: int = 64  # at a time, threads included
    file_size: int = 256 << 20  # bytes of one file
    disk: int = 1 << 30  # bytes of the whole workspace
    files: int = 50_000  # in the whole workspace, folders included
    output: int = 1 << 20  # bytes on stdout, and as many on stderr
    result: int = 1 << 20  # bytes of JSON that a custom function returns
    wall: float = 300.0  # seconds, where the task names no timeout


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another MCP server, started for each call."""

    command: str
    args: list[str] = []
    env: dict[str, str] = {}


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `agent.toml` says."""

    isolation: str | None = None
    environment: list[str] = []
    knowledge: tuple[str, ...] = (".",)
    allowed: list[str] = []
    limits: Limits = Limits()
    functions: dict[str, str] = {}
    servers: dict[str, Server] = {}


def read_settings(yard: Path) -> Settings:
    """The settings of a yard; the defaults where it has none."""
    path = yard / FILE
    try:
        found = toml.loads(path.read_text(encoding="utf-8"))
        found["limits"] = {k: _limit(k, v) for k, v in found.get("limits", {}).items()}
        settings = msgspec.convert(found, Settings)
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, AttributeError, msgspec.ValidationError, BadSpec) as error:
        raise UsageError(f"{path} can't be read: {error}", hint="see docs/agent.md") from error
    if settings.isolation not in (None, *LEVELS):
        raise UsageError(
            f"{path}: no isolation level {settings.isolation!r}",
            hint=f"use one of: {', '.join(LEVELS)}",
        )
    return settings


def _limit(name: str, value: Any) -> Any:
    if name in ("cpu", "wall"):
        return units.seconds(value)
    return (
        units.size(value) if name in ("memory", "file_size", "disk", "output", "result") else value
    )

"""The owner's settings for agents: `agent.toml` in the yard's folder.

isolation = "process"                 # none, process or bubblewrap; default: the strongest
environment = ["LANG", "TZ"]          # variables, besides PATH, that model-written code may see
knowledge = ["docs", "src"]           # folders that knowledge_search may read; default: this one
allowed = ["mytools.text:clean"]      # what custom_function may call by name

[limits]                              # of each piece of code
memory = "1GB"

[functions]                           # more functions that tasks can name
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
from runyard.spaces import read_text
from runyard.spec import toml, units

FILE = "agent.toml"
LEVELS = ("none", "process", "bubblewrap")


class CodeLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resource limits of one piece of model-written code."""

    cpu: float = 60.0  # CPU seconds of each process
    memory: int = 1 << 30  # bytes, of each process and in total
    processes: int = 64  # at once, including threads
    file_size: int = 256 << 20  # bytes of each file
    disk: int = 1 << 30  # bytes in the whole workspace
    files: int = 50_000  # entries in the whole workspace, including folders
    output: int = 1 << 20  # bytes each on stdout and stderr
    result: int = 1 << 20  # bytes of JSON that a custom function returns
    wall: float = 300.0  # seconds, if the task sets no timeout


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another MCP server, started for each call."""

    command: str
    args: list[str] = []
    env: dict[str, str] = {}


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `agent.toml`."""

    isolation: str | None = None
    environment: list[str] = []
    knowledge: tuple[str, ...] = (".",)
    allowed: list[str] = []
    limits: CodeLimits = CodeLimits()
    functions: dict[str, str] = {}
    servers: dict[str, Server] = {}


def read_settings(yard: Path) -> Settings:
    """Read a yard's settings; the defaults if it has none."""
    path = yard / FILE
    try:
        found = toml.loads(read_text(path))
        found["limits"] = {k: _limit(k, v) for k, v in found.get("limits", {}).items()}
        settings = msgspec.convert(found, Settings)
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, AttributeError, msgspec.ValidationError, BadSpec) as error:
        raise UsageError(f"{path} can't be read: {error}", hint="see docs/agent.md") from error
    if settings.isolation not in (None, *LEVELS):
        raise UsageError(
            f"{path}: unknown isolation level {settings.isolation!r}",
            hint=f"use one of: {', '.join(LEVELS)}",
        )
    return settings


def _limit(name: str, value: Any) -> Any:
    if name in ("cpu", "wall"):
        return units.seconds(value)
    return (
        units.size(value) if name in ("memory", "file_size", "disk", "output", "result") else value
    )

"""Whether a node sees the engine's yard and project, and has the same versions."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from pathlib import Path

from runyard.backends.ray.messages import Environment, Failed


def inode_of(folder: str) -> int:
    """Distinguishes a folder from one of the same name on another disk; 0 if there is none."""
    try:
        return Path(folder).stat().st_ino
    except OSError:
        return 0


def sees_yard(environment: Environment) -> bool:
    """Whether this node sees the engine's yard."""
    try:
        return Path(environment.token_file).read_text() == environment.token
    except OSError:
        return False


def sees_project(environment: Environment) -> bool:
    """Whether this node sees the engine's project; by the yard, if that lies inside."""
    if Path(environment.token_file).is_relative_to(environment.project):
        return sees_yard(environment)
    return inode_of(environment.project) == environment.inode


def version_mismatch(environment: Environment) -> Failed | None:
    """An error if this node has other versions than the engine."""
    for what, here, there, hint in (
        ("Runyard", runyard_version(), environment.version, "install the same version"),
        ("Python", python_version(), environment.python, "use the same Python"),
    ):
        if here != there:
            return Failed(
                f"{what} is {here} on {platform.node()}, but {there} on the engine",
                f"{hint} on every node",
            )
    return None


def runyard_version() -> str:
    """Must match on both sides, since messages and rows do."""
    return version("runyard")


def python_version() -> str:
    """Must match on both sides: functions travel as bytecode."""
    return "{}.{}".format(*sys.version_info[:2])


def local_path(path: tuple[str, ...], project: str, here: str) -> tuple[str, ...]:
    """The engine's module path as it is on this node, whose project is `here`."""

    def moved(place: str) -> Path:
        inside = project != here and Path(place).is_relative_to(project)
        return Path(here, Path(place).relative_to(project)) if inside else Path(place)

    return tuple(str(place) for place in map(moved, path) if place.exists())

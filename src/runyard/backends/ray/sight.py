"""What a node sees of the place where the engine is: its yard, its project, its versions."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from pathlib import Path

from runyard.backends.ray.frames import Surroundings, Welcome


def mark_of(folder: str) -> int:
    """What tells a folder from another one of the same name on another disk."""
    try:
        return Path(folder).stat().st_ino
    except OSError:
        return 0


def sees_yard(around: Surroundings) -> bool:
    """Whether the yard's folder is the same one from here."""
    try:
        return Path(around.token_file).read_text() == around.token
    except OSError:
        return False


def sees_project(around: Surroundings) -> bool:
    """Whether the project's folder is; the yard tells, where it lies inside."""
    if Path(around.token_file).is_relative_to(around.project):
        return sees_yard(around)
    return mark_of(around.project) == around.mark


def mismatch(around: Surroundings) -> Welcome | None:
    """A refusal, where this node has other versions than the engine."""
    here = f"on {platform.node()}"
    if around.version != runyard_version():
        return Welcome(
            error=f"Runyard is {runyard_version()} {here}, and {around.version} where you are",
            hint="install the same version on every node",
        )
    if around.python != python_version():
        return Welcome(
            error=f"Python is {python_version()} {here}, and {around.python} where you are",
            hint="use the same Python on every node",
        )
    return None


def runyard_version() -> str:
    """What has to be the same on both sides, since frames and rows are."""
    return version("runyard")


def python_version() -> str:
    """What has to be the same on both sides: functions travel as bytecode."""
    return "{}.{}".format(*sys.version_info[:2])


def path_here(path: tuple[str, ...], project: str, here: str) -> tuple[str, ...]:
    """The engine's module path as this node has it."""

    def moved(place: str) -> Path:
        inside = project != here and Path(place).is_relative_to(project)
        return Path(here, Path(place).relative_to(project)) if inside else Path(place)

    return tuple(str(place) for place in map(moved, path) if place.exists())

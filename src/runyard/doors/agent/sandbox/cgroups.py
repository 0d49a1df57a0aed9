"""A control group for one piece of code, if this machine permits one.

It limits what all processes of the code use together, regardless of their user.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psutil

from runyard.doors.agent.inputs.settings import CodeLimits

ROOT = Path("/sys/fs/cgroup")
OLD_SECONDS = 30.0
"""Age from which a group whose creator is gone is considered abandoned."""

_numbers = count()


@contextlib.contextmanager
def cgroups(limits: CodeLimits) -> Iterator[list[str]]:
    """Folders of the groups that a process joins; none if they can't be created."""
    made = list(_make(limits)) if os.geteuid() == 0 else []
    try:
        yield [str(folder) for folder in made]
    finally:
        for folder in made:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a group; its last processes may still be exiting."""
    for _ in range(40):
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.025)


def sweep(parent: Path) -> None:
    """Remove groups whose creator was killed; the kernel keeps those in use."""
    for folder in parent.glob("runyard-*-*"):
        creator = folder.name.split("-")[1]
        with contextlib.suppress(OSError, ValueError):
            is_old = time.time() - folder.stat().st_mtime > OLD_SECONDS
            if is_old and not psutil.pid_exists(int(creator)):
                folder.rmdir()


def _make(limits: CodeLimits) -> Iterator[Path]:
    name = f"runyard-{os.getpid()}-{next(_numbers)}"
    # The jail and its first process are in the group too.
    processes, memory = str(limits.processes + 2), str(limits.memory)
    if (ROOT / "cgroup.controllers").exists():
        files = {"": {"pids.max": processes, "memory.max": memory}}
    else:
        files = {
            "pids": {"pids.max": processes},
            "memory": {"memory.limit_in_bytes": memory},
        }
    own = _own()
    for controller, wanted in files.items():
        if controller not in own:
            continue
        parent = ROOT / controller / own[controller].lstrip("/")
        sweep(parent)
        folder = parent / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            for file, value in wanted.items():
                (folder / file).write_text(value)
            yield folder
        except OSError:
            folder.rmdir()


def _own() -> dict[str, str]:
    """By controller, the group that this process is in."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, place = line.split(":", 2)
            found |= dict.fromkeys(names.split(","), place)
    return found

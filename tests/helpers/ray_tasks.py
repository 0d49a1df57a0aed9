"""Tasks that the tests on Ray clusters run: they note where they ran, wait, and die on request."""

from __future__ import annotations

import os
import time
from pathlib import Path


def patient(folder: str, x: int) -> int:
    """Note on which node and in which process it runs; wait until `hurry` is there, or a bit."""
    note = f"{os.environ.get('TEST_NODE', '?')} {os.getpid()} {x}\n"
    with Path(folder, "notes").open("a") as notes:
        notes.write(note)
    until = time.monotonic() + 0.2
    while time.monotonic() < until and not Path(folder, "hurry").exists():
        time.sleep(0.005)
    return x * x


def notes(folder: Path) -> list[tuple[str, int, int]]:
    """Which node ran what, in which process."""
    path = folder / "notes"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(node, int(pid), int(x)) for node, pid, x in map(str.split, lines)]


def heavy(x: int) -> bytes:
    """Several megabytes that don't shrink."""
    import random

    return random.Random(x).randbytes(4_000_000)


def placed(x: int) -> str:
    """Where this code was loaded from."""
    print(f"task {x} was here")
    return __file__


def writes(x: int) -> str:
    """A file in its workspace, and a line on its stdout."""
    import runyard as ry

    ctx = ry.context()
    (ctx.workspace / "made.txt").write_text(f"made by {x}")
    print(f"printed by {x}")
    return str(ctx.workspace)


def sleeps_with_child(folder: str, x: int) -> None:
    """Start a process, note both, and hang."""
    import subprocess

    child = subprocess.Popen(["sleep", "1000"])
    Path(folder, "pids").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(1000)

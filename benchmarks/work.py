"""The functions that tasks run: top level, so that every worker can import them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from runyard import Context


def noop(i: int) -> None:
    """Do nothing: what is left is overhead."""


def spin(i: int, iterations: int) -> int:
    """A fixed amount of work, however fast the clock runs."""
    total = i
    for step in range(iterations):
        total = (total * 31 + step) & 0xFFFFFFFF
    return total


def clocked_spin(i: int, iterations: int) -> float:
    """The same work; the processor time that it took."""
    begun = time.thread_time()
    spin(i, iterations)
    return time.thread_time() - begun


def walk(ctx: Context, steps: int) -> dict[str, float]:
    """A random walk; one in about forty fails."""
    path = ctx.rng.choice([-1, 1], steps).cumsum()
    if ctx.seed % 41 == 0:
        raise ArithmeticError("this walk went astray")
    return {"end": float(path[-1]), "farthest": float(abs(path).max())}


def draw(policy: str, case: int) -> dict[str, float | bool]:
    """Two metrics that look random and cost next to nothing."""
    luck = case * 2654435761 % 4294967296 / 4294967296
    return {"profit": luck * luck + (0.1 * luck if policy == "b" else 0.0), "won": luck > 0.5}


def nap(i: int, straggler: int) -> None:
    """Sleep 50 ms, or 2 s for the one that straggles."""
    time.sleep(2.0 if i == straggler else 0.05)


async def wait(i: int) -> None:
    """Wait 100 ms on the event loop."""
    await asyncio.sleep(0.1)


def leave_mark(i: int, folder: str) -> int:
    """Write a file that tells an observer this task has run."""
    Path(folder, f"mark-{i}").touch()
    return i


def die_once(i: int, victim: int, folder: str) -> int:
    """Work 10 ms; the victim kills its worker with SIGKILL the first time it runs."""
    if i == victim and _first_time(Path(folder, "killed")):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return i


def _first_time(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

"""Tasks for the chaos tests: each execution leaves a line in a side file, whatever happens next.

The environment says where (`CHAOS_SIDE`) and how long a task takes (`CHAOS_PACE`, seconds); neither
is part of a batch, so that a slow run and a fast one have the same digest.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import runyard as ry

GOOD = 1000
"""Tasks of `mixed` below this number are good; those from it on are the bad ones, in order."""

BAD = ("segfault", "exit", "hang", "allocate", "allocate_shared")


def note(number: int) -> None:
    """One line in the side file, by one write."""
    place = os.environ.get("CHAOS_SIDE")
    if place:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, b"%d\n" % number)
        finally:
            os.close(descriptor)


def pace() -> None:
    """Take as long as the environment says."""
    seconds = float(os.environ.get("CHAOS_PACE", "0"))
    if seconds:
        time.sleep(seconds)


def counted(ctx: ry.Context, x: int) -> dict[str, Any]:
    """A task like many: random numbers, some time, and one in fifty fails."""
    note(x)
    pace()
    if x % 50 == 7:
        raise ValueError(f"{x} is one of those")
    return {"x": x, "noise": ctx.rng.random(4)}


def steady(ctx: ry.Context, x: int) -> float:
    """A task that never fails."""
    note(x)
    pace()
    return float(ctx.rng.random()) + x


def in_a_workspace(ctx: ry.Context, x: int) -> int:
    """A task with a folder of its own, in which it trusts whatever else may be wrong."""
    note(x)
    try:
        where = ctx.workspace
    except Exception:
        return -1
    (where / "file").write_text(str(x))
    return x


def talkative(x: int) -> int:
    """A task whose output is too long for the store."""
    note(x)
    for _ in range(40):
        print("x" * 5000)
    return x


def with_child(x: int) -> int:
    """A task that waits for a process of its own."""
    note(x)
    if os.environ.get("CHAOS_PACE"):
        subprocess.run(["sleep", os.environ["CHAOS_PACE"]], check=True)
    return x


def copying(x: int, yard: str, copies: str) -> int:
    """A task that copies its own yard."""
    note(x)
    pace()
    with suppress(shutil.Error):  # a file of the run was there, and is gone
        shutil.copytree(yard, f"{copies}/{x}")
    return x


def leaving_a_child(x: int, how: str) -> int:
    """A task that leaves a process behind, which lives on for a while."""
    note(x)
    if how == "fork":
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
    elif how == "spawn":
        os.posix_spawn("/bin/sleep", ["sleep", "100"], os.environ)
    else:
        subprocess.Popen(["sleep", "100"], close_fds=False)
    time.sleep(100)
    return x


def poison(x: int, bad: int) -> int:
    """One task that kills the process it runs in; the others are good."""
    note(x)
    pace()
    if x == bad:
        ctypes.string_at(0)
    return x


def mixed(x: int) -> int:
    """Good tasks, and one of each bad kind."""
    note(x)
    if x < GOOD:
        return x * x
    globals()[f"_{BAD[x - GOOD]}"]()
    return -1


def _segfault() -> None:
    ctypes.string_at(0)


def _exit() -> None:
    os._exit(7)


def _hang() -> None:
    """Hear nothing, and leave a daemonised child that hears nothing either."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            place = Path(os.environ["CHAOS_SIDE"] + ".daemon")
            place.write_text(str(os.getpid()))
            signal.pause()
            while True:
                time.sleep(3600)
        os._exit(0)
    while True:
        time.sleep(3600)


def _allocate() -> None:
    kept = [bytearray(1 << 20) for _ in range(4096)]
    sys.exit(len(kept))


def _allocate_shared() -> None:
    """Memory that no limit of the kernel's own counts."""
    room = mmap.mmap(-1, 1 << 30)
    for at in range(0, 1 << 30, 4096):
        room[at] = 1
    while True:
        time.sleep(3600)


def parricide(x: int, bad: list[int]) -> int:
    """Some tasks kill the supervisor of their worker; the others are good."""
    note(x)
    pace()
    if x in bad:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    return x


def leaves(x: int) -> int:
    """One task in three ends its worker."""
    note(x)
    if x % 3 == 0:
        os._exit(3)
    return x


def deaf(x: int) -> int:
    """A task inside C code that keeps the interpreter's lock."""
    note(x)
    if os.environ.get("CHAOS_PACE"):
        ctypes.PyDLL(None).sleep(600)
    return x


def bulky(x: int) -> bytes:
    """A task whose value fills a channel that is not read; the first ones are quick and small."""
    note(x)
    if x < 100:
        return b""
    pace()
    return bytes(2_000_000)

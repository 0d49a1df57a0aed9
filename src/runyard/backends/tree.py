"""Process trees: finding, killing and measuring them, daemonised members included.

On Linux a worker adopts its orphaned descendants (it is a "subreaper"), so that a child that left
its process group and session is still found below it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make descendants whose parent died children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_at_parents_end(number: int) -> None:
    """Have the kernel send this process a signal when its parent thread ends (Linux)."""
    _prctl(_PR_SET_PDEATHSIG, number)


def members(pid: int) -> list[int]:
    """All descendants of a process."""
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants.

    The process is killed first, so that it starts no more; what a descendant starts meanwhile is
    left to the adopter of orphans. Nothing is stopped beforehand: it would remain stopped if this
    process died here.
    """
    for member in (pid, *members(pid)):
        _signal(member, signal.SIGKILL)


def kill_below(pid: int, *, spare: frozenset[int] = frozenset()) -> None:
    """Kill all descendants of a process except the spared children and their descendants."""
    if pid == os.getpid() and not _has_children():
        return
    import psutil

    for _ in range(100):
        try:
            children = [c.pid for c in psutil.Process(pid).children() if c.pid not in spare]
        except psutil.Error:
            return
        found = [p for child in children for p in (child, *members(child))]
        running = [p for p in found if _runs(p)]
        if not running:
            return
        for member in running:
            _signal(member, signal.SIGKILL)
        time.sleep(0.002)


def end_trees(pids: list[int], seconds: float = 5.0) -> None:
    """Kill processes with their descendants, and wait for their end. They need not be children."""
    until = time.monotonic() + seconds
    for pid in pids:
        kill_tree(pid)
    while any(_runs(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.005)


def resident(pid: int) -> int:
    """Resident memory of a process and its descendants in bytes."""
    import psutil

    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += member.memory_info().rss
    return total


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _runs(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)

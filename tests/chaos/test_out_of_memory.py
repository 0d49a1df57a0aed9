"""A task that takes all the memory that it may have costs itself alone."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import runyard as ry

GREEDY = 40


def greedy(x: int, hold: float) -> bytes:
    """One of many that takes all that there is, and keeps it for a while."""
    if x != GREEDY:
        return bytes(200_000)
    kept: list[Any] = []
    size = 1 << 24
    while size >= 1 << 14:
        try:
            while True:
                kept.append(np.empty(size, np.uint8))  # not written to, so not resident
        except MemoryError:
            size //= 4
    time.sleep(hold)
    kept.append(np.empty(1 << 30, np.uint8))
    return b""


def test_neighbours_of_a_task_that_is_out_of_memory_are_kept(yard: ry.Yard) -> None:
    batch = ry.grid(greedy, x=range(80), params={"hold": 0.4}, seed=7)
    result = yard.run(batch, workers=1, memory=100_000_000, deadline="60s")
    assert result.end == "finished"
    failed = {o.task: o.error.kind for o in result.outcomes("failed") if o.error}
    assert failed == {GREEDY: "TaskOutOfMemory"}
    assert result.stats.completed == 79
    with yard.store.snapshot() as view:
        assert view.attempts(result.recorded.id) == [], "its worker died of it"
    assert not list(yard.store.check())


kept: dict[int, bytes] = {}


def leaks(x: int, size: int) -> int:
    """One of many that leave memory in use in their worker."""
    kept[x] = b"x" * size
    return x


def leaves_a_child(x: int) -> int:
    """The first leaves a process behind that takes what a task may take."""
    if x == 0:
        take = "kept = b'x' * 150_000_000; print(flush=True); import time; time.sleep(100)"
        command = [sys.executable, "-c", take]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
    else:
        time.sleep(0.3)
    return x


@pytest.mark.parametrize("workers", [1, 2])
def test_what_tasks_leave_in_memory_is_not_charged_to_the_next(yard: ry.Yard, workers: int) -> None:
    for size in (20_000_000, 150_000_000):
        batch = ry.grid(leaks, x=range(30), params={"size": size})
        result = yard.run(batch, workers=workers, memory="200MB")
        assert list(result.values()) == list(range(30))


def test_a_process_that_a_task_leaves_is_not_charged_to_the_next(yard: ry.Yard) -> None:
    result = yard.run(ry.grid(leaves_a_child, x=range(3)), workers=1, memory="200MB")
    assert list(result.values()) == [0, 1, 2]

"""A task that takes all the memory that it may have costs itself alone."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

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

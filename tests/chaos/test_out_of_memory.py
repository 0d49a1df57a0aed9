"""A task that takes all the memory that it may have costs itself alone."""

from __future__ import annotations

import time
from typing import Any

import runyard as ry

GREEDY = 40


def greedy(x: int, hold: float) -> int:
    """One of many that takes all that there is, and keeps it for a while."""
    if x != GREEDY:
        return x
    kept: list[Any] = []
    size = 1 << 24
    while size >= 16:
        try:
            while True:
                kept.append(bytearray(size))
        except MemoryError:
            size //= 4
    time.sleep(hold)
    kept.append(bytearray(1 << 30))
    return x


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

"""When a queue will be done."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.agent.queue.eta import seconds_left


def dealt_out(mean: float, queued: int, running: list[float], lanes: int) -> float:
    """The same by playing it through, one task after another."""
    free = [max(0.0, mean - elapsed) for elapsed in running]
    free += [0.0] * (max(1, lanes) - len(free))
    heapq.heapify(free)
    for _ in range(queued):
        heapq.heapreplace(free, free[0] + mean)
    return max(free)


@given(
    mean=st.floats(0.001, 100),
    queued=st.integers(0, 300),
    lanes=st.integers(1, 40),
    shares=st.lists(st.floats(0, 1.5), max_size=40),
)
def test_equal_tasks_end_when_playing_it_through_says(
    mean: float, queued: int, lanes: int, shares: list[float]
) -> None:
    running = [share * mean for share in shares[:lanes]]
    expected = dealt_out(mean, queued, running, lanes)
    assert seconds_left(mean, queued, running, lanes) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_concurrency_counts() -> None:
    assert seconds_left(1.0, 100, [], 1) == 100.0
    assert seconds_left(1.0, 100, [], 10) == 10.0
    assert seconds_left(1.0, 0, [0.25, 0.5], 10) == 0.75
    assert seconds_left(1.0, 0, [], 10) == 0.0

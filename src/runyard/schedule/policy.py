"""How much to claim, how much to send together, and to where: decisions as pure functions."""

from __future__ import annotations

from collections import deque

CHUNK_SECONDS = 0.04
"""Work in one chunk: long enough to hide the round trip, short enough to report often."""

SHORT_SECONDS = 1e-5
LEAST_SECONDS = 0.0005
"""This much work of short tasks is not worth sharing: to send it costs more than to run it."""

TASK_SECONDS = 1e-6
"""What a task costs besides its own work, about."""

BYTES_A_SECOND = 100e6
"""How fast values travel and are written, about; a large value counts like a long task."""

CHUNK_MAX = 4096
GROWTH = 16
"""A chunk is at most this many times as large as the number of tasks that have ended."""

ALONE_SECONDS = 0.05
"""Tasks that take this long are sent one at a time, with none waiting behind them."""

STALL_SECONDS = 0.05
"""Tasks waiting behind one that has run this long move to an idle lane."""

HANDOVER_SECONDS = 0.0005
"""About what it takes to send one task to a lane and to see that it has started."""

CLAIM_SECONDS = 1.0
CLAIM_MAX = 262_144
LIST_MAX = 16_384
"""Tasks in one claim. Those of a list have a row each, so that a large claim would take long."""


def chunk_size(
    mean: float | None, known: int, left: int, lanes: int, depth: int, distance: float = 1.0
) -> int:
    """How many tasks to send together.

    `mean` is the seconds that a task takes (None: unknown), `known` how many have ended, `left`
    how many are still to be sent. Chunks shrink towards the end, so that all lanes finish
    together, and grow with the distance to a lane.
    """
    if mean is None:
        return 1
    by_time = int(distance * min(CHUNK_SECONDS / max(mean, 1e-9), CHUNK_MAX))
    least = int(distance * LEAST_SECONDS / (mean + TASK_SECONDS)) if mean < SHORT_SECONDS else 1
    by_share = max(left // (2 * lanes * depth), min(least, left))
    return max(1, min(by_time, by_share, known * GROWTH))


def lane_depth(mean: float | None, lanes: int, most: int, distance: float = 1.0) -> int:
    """How many chunks a lane may hold; with more lanes each waits longer for its next one."""
    alone = ALONE_SECONDS * max(distance, lanes / 16)
    return 1 if mean is None or mean >= alone else most


def is_batched_in_order(mean: float | None, distance: float = 1.0) -> bool:
    """Whether tasks that must start in order are short enough to share a lane in chunks.

    Longer ones are sent one by one, each to a lane that is free.
    """
    return mean is not None and mean < HANDOVER_SECONDS * distance


def claim_size(
    mean: float | None, lanes: int, engines: int, pending: int, most: int = CLAIM_MAX
) -> int:
    """How many tasks to claim: about a second's work, and never more than a fair share."""
    by_time = 4 * lanes if mean is None else int(CLAIM_SECONDS * lanes / max(mean, 1e-9))
    fair = -(-pending // engines) if engines > 1 else pending
    return max(1, lanes, min(max(by_time, 2 * lanes), most, fair))


def is_over(limit: float, seconds: float, paused: float) -> bool:
    """Whether a task has run for longer than its limit.

    Time during which the engine was stopped counts for no task: the task may have been stopped
    too, and it could not be ended in time.
    """
    return seconds - paused > limit


def is_stalled(running_for: float, waiting: int, free_lanes: int) -> bool:
    """Whether tasks that wait behind a running one should move to another lane."""
    return waiting > 0 and free_lanes > 0 and running_for > STALL_SECONDS


class RateEstimate:
    """Outcomes a second over the last seconds, and when the rest will be done."""

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._points: deque[tuple[float, int]] = deque()

    def update(self, now: float, done: int) -> None:
        """Note how many outcomes there are now."""
        self._points.append((now, done))
        while len(self._points) > 2 and now - self._points[1][0] > self._window:
            self._points.popleft()

    @property
    def rate(self) -> float:
        """Outcomes a second."""
        if len(self._points) < 2:
            return 0.0
        (begin, before), (end, after) = self._points[0], self._points[-1]
        return (after - before) / (end - begin) if end > begin else 0.0

    def eta(self, left: int) -> float | None:
        """Seconds until nothing is left; None while that is unknown."""
        rate = self.rate
        return left / rate if rate > 0 else None


class DurationEstimate:
    """Seconds that a task takes, its value's transfer included; recent tasks weigh most."""

    def __init__(self) -> None:
        self.value: float | None = None
        self.count = 0  # tasks that have ended

    def update(self, seconds: float, tasks: int, size: int = 0) -> None:
        """Note how long some tasks took together, and how many bytes their values have."""
        if tasks <= 0:
            return
        self.count += tasks
        mean = (seconds + size / BYTES_A_SECOND) / tasks
        if self.value is None:
            self.value = mean
        else:
            weight = min(1.0, max(0.1, tasks / 64))
            self.value += weight * (mean - self.value)

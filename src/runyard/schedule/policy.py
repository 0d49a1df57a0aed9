"""The scheduler's decisions as functions without I/O. The loop asks; it never decides by itself."""

from __future__ import annotations

import hashlib
from collections import deque

from runyard.spec.options import Options

CHUNK_SECONDS = 0.04
"""Work that travels in one chunk: long enough to hide the way, short enough to stay live."""

BYTES_A_SECOND = 100e6
"""How fast values travel and are written, about: a large one counts like a long task."""

CHUNK_MAX = 4096
GROWTH = 16
"""A chunk is at most so many times larger than what is known to have gone well."""

ALONE_SECONDS = 0.05
"""Tasks of this length travel alone, and none waits behind them."""

STALL_SECONDS = 0.05
"""What waits behind a task that has run for so long goes to a lane that is free."""

ORDERLY_SECONDS = 0.0005
"""About what it takes to hand one task to a lane and to see that it has begun."""

CLAIM_SECONDS = 1.0
CLAIM_MAX = 65_536
LISTED_MAX = 16_384
"""Listed tasks have a row each, so that a claim takes a while: others are run meanwhile."""


def chunk_size(
    mean: float | None, known: int, left: int, lanes: int, depth: int, distance: float = 1.0
) -> int:
    """How many tasks to send together.

    `mean` is what a task takes (None: nothing is known yet), `known` how many have ended, `left`
    how many are to come. Towards the end chunks get smaller, so that all lanes finish together.
    The longer the way to a lane, the larger they are.
    """
    if mean is None:
        return 1
    by_time = int(distance * min(CHUNK_SECONDS / max(mean, 1e-9), CHUNK_MAX))
    by_share = left // (2 * lanes * depth)
    return max(1, min(by_time, by_share, known * GROWTH))


def lane_depth(mean: float | None, lanes: int, most: int, distance: float = 1.0) -> int:
    """How many chunks a lane may hold; the more lanes, the longer each waits for its next one."""
    alone = ALONE_SECONDS * max(distance, lanes / 16)
    return 1 if mean is None or mean >= alone else most


def travels_together(mean: float | None, distance: float = 1.0) -> bool:
    """Whether tasks that must begin in order are so short that one lane takes many of them.

    Longer ones go one by one, each to a lane that is free.
    """
    return mean is not None and mean < ORDERLY_SECONDS * distance


def claim_size(
    mean: float | None, lanes: int, engines: int, pending: int, most: int = CLAIM_MAX
) -> int:
    """How many tasks to claim: about a second's work, and never more than a fair share."""
    by_time = 4 * lanes if mean is None else int(CLAIM_SECONDS * lanes / max(mean, 1e-9))
    fair = -(-pending // engines) if engines > 1 else pending
    return max(1, lanes, min(max(by_time, 2 * lanes), most, fair))


def wants_retry(options: Options, retries: int, attempt: int, classes: list[str]) -> bool:
    """Whether an error that the task raised is worth another attempt."""
    if attempt >= retries:
        return False
    if any(name in options.never_retry for name in classes):
        return False
    return not options.retry_on or any(name in options.retry_on for name in classes)


def retry_delay(options: Options, root_seed: int, task: int, attempt: int) -> float:
    """Seconds before the next attempt: exponential, with jitter that the seed decides."""
    try:
        most = min(options.backoff_max, options.backoff * options.backoff_factor**attempt)
    except OverflowError:
        most = options.backoff_max
    noise = hashlib.sha256(f"{root_seed}/{task}/{attempt}".encode()).digest()
    return most * (0.5 + 0.5 * int.from_bytes(noise[:4], "big") / 2**32)


def survives_crash(options: Options, crashes: int) -> bool:
    """Whether a task whose worker died, now for the `crashes`-th time, gets another one."""
    return crashes < options.crash_attempts


def is_over(limit: float, seconds: float, paused: float) -> bool:
    """Whether a task has run for longer than its limit.

    Time during which the engine did not run counts for no task: it may have run no more than the
    engine did, and it could not be ended in time.
    """
    return seconds - paused > limit


def is_stalled(running_for: float, waiting: int, free_lanes: int) -> bool:
    """Whether what waits behind a running task should go elsewhere."""
    return waiting > 0 and free_lanes > 0 and running_for > STALL_SECONDS


class Pace:
    """How fast outcomes come in, over the last seconds; and when the rest will be there."""

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._points: deque[tuple[float, int]] = deque()

    def update(self, now: float, done: int) -> None:
        """So many outcomes are there now."""
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
        """Seconds until nothing is left; None while that can't be told."""
        rate = self.rate
        return left / rate if rate > 0 else None


class Mean:
    """What a task takes, with the way of its value; the recent ones count most."""

    def __init__(self) -> None:
        self.value: float | None = None
        self.count = 0

    def update(self, seconds: float, tasks: int, size: int = 0) -> None:
        """So many tasks took so long together, and their values are so many bytes."""
        if tasks <= 0:
            return
        self.count += tasks
        mean = (seconds + size / BYTES_A_SECOND) / tasks
        if self.value is None:
            self.value = mean
        else:
            weight = min(1.0, max(0.1, tasks / 64))
            self.value += weight * (mean - self.value)

"""Estimates when a queue will be done."""

from __future__ import annotations

from collections.abc import Sequence


def seconds_left(mean: float, queued: int, running: Sequence[float], lanes: int) -> float:
    """Seconds until everything is done, if tasks take `mean` seconds each.

    `running` has the seconds that each running task has taken so far. Queued tasks are dealt out as
    workers do it: the lane that is free first takes the next one.
    """
    lanes = max(1, lanes, len(running))
    rest = sorted(max(0.0, mean - elapsed) for elapsed in running)
    free_at = [0.0] * (lanes - len(rest)) + rest
    rounds, more = divmod(queued, lanes)
    ends = [at + rounds * mean for at in free_at if rounds or at]
    if more:
        ends.append(free_at[more - 1] + (rounds + 1) * mean)
    return max(ends, default=0.0)

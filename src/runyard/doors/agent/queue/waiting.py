"""Wait until a queue, or some of its tasks, are done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from runyard import clock
from runyard.doors.agent.queue.ledger import Ledger
from runyard.doors.agent.queue.model import Response
from runyard.doors.agent.queue.views import progress, status
from runyard.spec.status import FINAL_STATES

TICK = 0.25
"""Seconds between two checks."""

OnProgress = Callable[[int, int, str], Awaitable[None]]
OnStatus = Callable[[Response], Awaitable[None]]


def done(data: dict[str, Any]) -> int:
    """How many of the tasks in a status have ended."""
    return sum(data.get(each.value, 0) for each in FINAL_STATES)


async def until_done(
    ledger: Ledger,
    seconds: float | None = None,
    tasks: Sequence[str] = (),
    on_status: OnStatus | None = None,
) -> Response:
    """Wait until all tasks have ended, nothing runs, or time is up; return the last status.

    With `tasks`, wait for these alone. `on_status` gets the status at each check.
    """
    numbers = [ledger.number_of(each) for each in dict.fromkeys(tasks)]
    until = None if seconds is None else clock.monotonic() + seconds

    def look() -> Response:
        return progress(ledger, numbers) if numbers else status(ledger)

    while True:
        found = await asyncio.to_thread(look)
        if on_status is not None:
            await on_status(found)
        left = TICK if until is None else until - clock.monotonic()
        if found.data["state"] != "running" or left <= 0:
            return found
        await asyncio.sleep(min(TICK, left))

"""Wait until a queue, or some tasks of it, are done."""

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
"""Seconds between two looks."""

OnProgress = Callable[[int, int, str], Awaitable[None]]
OnStatus = Callable[[Response], Awaitable[None]]


def done(data: dict[str, Any]) -> int:
    """How many tasks have ended, of those that a status counts."""
    return sum(data.get(each.value, 0) for each in FINAL_STATES)


async def until_done(
    ledger: Ledger,
    seconds: float | None = None,
    tasks: Sequence[str] = (),
    seen: OnStatus | None = None,
) -> Response:
    """Wait until everything has ended, or nothing runs, or the time is over; the status then.

    With tasks, for these alone. `seen` gets the status at each look.
    """
    numbers = [ledger.number_of(each) for each in dict.fromkeys(tasks)]
    until = None if seconds is None else clock.monotonic() + seconds

    def look() -> Response:
        return progress(ledger, numbers) if numbers else status(ledger)

    while True:
        found = await asyncio.to_thread(look)
        if seen is not None:
            await seen(found)
        left = TICK if until is None else until - clock.monotonic()
        if found.data["state"] != "running" or left <= 0:
            return found
        await asyncio.sleep(min(TICK, left))

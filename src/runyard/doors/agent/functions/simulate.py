"""`simulate`: waits, to try out a queue."""

from __future__ import annotations

import asyncio
from typing import Any

from runyard.doors.agent.inputs.arguments import BadCall

MOST = 86_400.0


async def simulate(duration: Any = 1.0) -> dict[str, float]:
    """Wait for a number of seconds."""
    try:
        seconds = float(duration)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= MOST:
        raise BadCall(f"duration is {duration!r}", hint=f"use seconds from 0 to {MOST:g}")
    await asyncio.sleep(seconds)
    return {"waited": seconds}

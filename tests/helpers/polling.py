"""Waiting for something to become true, with a deadline instead of a sleep."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Whether the condition comes true before the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True

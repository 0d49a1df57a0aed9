"""Wall and monotonic time in one place, so that tests can replace them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

now: Callable[[], float] = time.time
"""Seconds since the epoch; for records and for people."""

monotonic: Callable[[], float] = time.monotonic
"""Seconds that never go back; for waits, limits and durations."""


def steady() -> Callable[[], float]:
    """Wall time that goes on from here at its own pace when the machine's clock is set anew."""
    begin = now() - monotonic()
    return lambda: begin + monotonic()


@contextmanager
def replaced(
    *, wall: Callable[[], float] | None = None, mono: Callable[[], float] | None = None
) -> Iterator[None]:
    """Put other clocks in place for the length of a test."""
    global now, monotonic
    before = now, monotonic
    now, monotonic = wall or now, mono or monotonic
    try:
        yield
    finally:
        now, monotonic = before

"""Ctrl-C and SIGTERM: the first one ends what runs; later ones don't disturb the ending.

a run of a batch   first: after the running tasks   second: at once   then: nothing
the command line   first: at once                                     then: nothing
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 10.0
"""Seconds that a program may take to end before it can be interrupted again."""

Handler = Callable[[int, FrameType | None], Any] | int | None

_ending: float | None = None  # since when this program ends


def note_end() -> None:
    """Note that this program is ending, so that `raise_once` does not raise."""
    global _ending
    _ending = time.monotonic()


def forget_end() -> None:
    """Note that this program goes on, or that another one begins in this process."""
    global _ending
    _ending = None


def raise_once(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """A handler that interrupts a program, but not its ending."""
    if _ending is not None and time.monotonic() - _ending < PATIENCE:
        return
    note_end()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def handle(handler: Handler, numbers: Iterable[int] = SIGNALS) -> dict[int, Handler]:
    """Set a handler, if signals reach this thread; returns the earlier handlers."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, handler) for number in numbers}


def restore(before: Mapping[int, Handler]) -> None:
    """Restore earlier handlers."""
    for number, earlier in before.items():
        signal.signal(number, signal.SIG_DFL if earlier is None else earlier)


@contextmanager
def handled(handler: Handler, numbers: Iterable[int] = SIGNALS) -> Iterator[dict[int, Handler]]:
    """Set a handler for a block; gives the earlier handlers."""
    before = handle(handler, numbers)
    try:
        yield before
    finally:
        restore(before)


@contextmanager
def by_asyncio() -> Iterator[None]:
    """Leave Ctrl-C to asyncio in a block; it replaces Python's default handler only."""
    with handled(signal.default_int_handler, [signal.SIGINT]):
        yield

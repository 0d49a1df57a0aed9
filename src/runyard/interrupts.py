"""Ctrl-C and SIGTERM: the first one ends what runs; later ones don't disturb the ending.

a run of a batch   first: after the running tasks   second: at once   then: nothing
the command line   first: at once                                     then: nothing
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 10.0
"""Seconds that a program may take to end before it can be interrupted again."""

_AGAIN_SECONDS = 0.01

Handler = Callable[[int, FrameType | None], Any] | int | None

_ending: float | None = None  # since when this program ends


def note_end() -> None:
    """Note that this program is ending, so that `raise_once` does not raise."""
    global _ending
    _ending = time.monotonic()


def forget_end() -> None:
    """Note that this program continues, or that another one begins in this process."""
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


@contextmanager
def not_lost() -> Iterator[None]:
    """What `raise_once` raises is raised again where Python can only drop it.

    That is so in `__del__` and in callbacks of the garbage collector, which may run at any moment.
    """
    before = sys.unraisablehook

    def hook(found: sys.UnraisableHookArgs) -> None:
        number = _signal_of(found.exc_value)
        if number is None or _ending is None:
            before(found)
            return
        forget_end()
        # Not here, where it would be dropped again.
        again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _signal_of(error: BaseException | None) -> int | None:
    """The signal for which `raise_once` raised this error."""
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    code = error.code if isinstance(error, SystemExit) else None
    return signal.SIGTERM if code == 128 + signal.SIGTERM else None


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

"""Children that tasks fork: each ends with the call in which it was forked.

task ──fork──▶ child ─▶ … returns, raises or exits ─▶ flush what it printed ─▶ os._exit
  └──────────▶ goes on, and is the only one to report

A child that went on would be a second worker, or a second engine, on everything of its parent's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import NoReturn

FLUSH_SECONDS = 5
"""A child that takes longer to print its last lines is ended: it may wait for a lock for ever."""

SHORTEST = 50e-6
"""Seconds. What takes less has not forked, which takes longer than this by itself."""

pid = os.getpid()
"""This process. Asking the kernel after every task would cost too much."""


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """A child that is forked inside this block ends with it."""
    here = pid
    try:
        yield
    except BaseException as error:
        if pid != here or is_unannounced():
            leave(error)
        raise
    if pid != here or is_unannounced():
        leave()


def is_unannounced() -> bool:
    """Whether this is a child that C code has forked without telling Python."""
    return os.getpid() != pid


def leave(error: BaseException | None = None) -> NoReturn:
    """End this process as Python would with this error, but run nothing more of it."""
    code = 1
    try:
        # A lock that another thread held at the fork is never released here.
        with contextlib.suppress(ValueError):  # C code has forked in another thread than the main
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(FLUSH_SECONDS)
        code = _told(error)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
    finally:
        os._exit(code)


def _told(error: BaseException | None) -> int:
    """The exit code; what the error has to say is printed."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def _renumber() -> None:
    global pid
    pid = os.getpid()


os.register_at_fork(after_in_child=_renumber)

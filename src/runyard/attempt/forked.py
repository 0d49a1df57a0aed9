"""Children forked by tasks: each exits at the end of the call in which it was forked.

task ──fork──▶ child ─▶ … returns, raises or exits ─▶ flush what it printed ─▶ os._exit
  └──────────▶ continues, and is the only one to report

A child that continued would be a second worker, or a second engine, using its parent's resources.
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
"""A child that takes longer to flush its output is killed: it may wait for a lock forever."""

SHORTEST = 50e-6
"""Seconds that a fork takes at least; a faster call has not forked."""

pid = os.getpid()
"""This process. A system call after every task would be too slow."""


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Make children forked inside this block exit at its end."""
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
    """Whether this is a child that C code forked without Python's knowledge."""
    return os.getpid() != pid


def leave(error: BaseException | None = None) -> NoReturn:
    """Exit as Python would with this error, but without running exit handlers."""
    code = 1
    try:
        # A lock held by another thread at the fork is never released here.
        with contextlib.suppress(ValueError):  # C code has forked in a thread other than the main
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(FLUSH_SECONDS)
        code = _exit_code(error)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
    finally:
        os._exit(code)


def _exit_code(error: BaseException | None) -> int:
    """The exit code for an error, which is printed."""
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

"""Failures of the system, such as a full disk: never a task's outcome.

lane ── Report(system_failure=…) ──▶ loop: starts nothing more, records what has ended, raises
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from runyard.errors import EngineError, StoreFull

SYSTEM_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}
)
"""Errors on Runyard's own files that are not the task's doing."""

SPARE = 64 * 1024
"""A disk with fewer free bytes counts as full."""


class SystemFailure(NamedTuple):
    """Why a lane can't run a task, regardless of what the task does."""

    message: str
    is_full: bool = False  # the disk is full
    task: int | None = None  # the task that could not run

    @classmethod
    def of(cls, error: EngineError) -> SystemFailure:
        """The same as it travels to the engine."""
        return cls(error.message, isinstance(error, StoreFull))

    def error(self) -> EngineError:
        """What the run raises."""
        kind, remedy = (StoreFull, "make room") if self.is_full else (EngineError, "fix that")
        hint = f"finished tasks are recorded; {remedy}, then `runyard resume` runs the rest"
        what = "the tasks" if self.task is None else f"task {self.task}"
        return kind(f"{what} can't run: {self.message}", hint=hint)


class AttemptAborted(Exception):
    """An attempt has no result, through no fault of its task."""

    def __init__(self, failure: SystemFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def errno_of(error: BaseException | None) -> int | None:
    """The error number of an OSError, else None."""
    return error.errno if isinstance(error, OSError) else None


def is_full(place: str | os.PathLike[str] | int) -> bool:
    """Whether the disk of this file or folder is full."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    no_blocks = found.f_blocks > 0 and blocks * found.f_frsize < SPARE
    return no_blocks or found.f_files > 0 == found.f_favail

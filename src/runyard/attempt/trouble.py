"""Trouble that is Runyard's own, such as no room for a workspace: never a task's outcome.

lane ── Report(trouble=…) ──▶ loop: starts nothing more, records what has ended, raises
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from runyard.errors import EngineError, StoreFull

OURS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE})
"""What stands between a task and Runyard's own files without being the task's doing."""

SPARE = 64 * 1024
"""With fewer bytes left than this a disk counts as full."""


class Trouble(NamedTuple):
    """Why a lane can't run a task, whatever that task does."""

    message: str
    is_full: bool = False  # there is no room
    task: int | None = None  # that it kept from running

    @classmethod
    def of(cls, error: EngineError) -> Trouble:
        """The same as it travels to the engine."""
        return cls(error.message, isinstance(error, StoreFull))

    def error(self) -> EngineError:
        """What the run ends with."""
        kind, remedy = (StoreFull, "make room") if self.is_full else (EngineError, "mend that")
        hint = f"what has ended is recorded; {remedy}, then `runyard resume` runs the rest"
        what = "the tasks" if self.task is None else f"task {self.task}"
        return kind(f"{what} can't be run: {self.message}", hint=hint)


class Stuck(Exception):
    """An attempt came to nothing through no fault of its task."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


def cause(error: BaseException | None) -> int | None:
    """The system's number for what went wrong."""
    return error.errno if isinstance(error, OSError) else None


def is_full(place: str | os.PathLike[str] | int) -> bool:
    """Whether the disk that this file or folder is on has no room left."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    no_blocks = found.f_blocks > 0 and blocks * found.f_frsize < SPARE
    return no_blocks or found.f_files > 0 == found.f_favail

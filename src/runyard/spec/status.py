"""The states of a task and its priorities.

queued ──▶ running ──▶ completed | failed | cancelled
   ▲          │
   └── retry ─┘
"""

from __future__ import annotations

import enum


class Status(enum.StrEnum):
    """The state of a task."""

    QUEUED = "queued"  # waiting for its turn, or for a retry
    RUNNING = "running"  # an attempt is running
    COMPLETED = "completed"  # returned a value
    FAILED = "failed"  # raised, crashed, ran too long or used too much memory
    CANCELLED = "cancelled"  # on request, or because a task it comes after did not complete

    @property
    def code(self) -> int:
        """The small number that stands for this status in a row."""
        return _CODES[self]

    @classmethod
    def of(cls, code: int) -> Status:
        """The status behind a row's number."""
        return _STATUSES[code]


FINAL_STATES = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
"""States of a task with an outcome, which only `runyard retry` changes."""

_CODES = {status: code for code, status in enumerate(Status)}
_STATUSES = tuple(Status)

COMPLETED, FAILED, CANCELLED = (s.code for s in (Status.COMPLETED, Status.FAILED, Status.CANCELLED))


class Priority(enum.IntEnum):
    """Which tasks run first; within one priority, first in, first out."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3

    @classmethod
    def parse(cls, text: str | int) -> Priority:
        """The priority of this name, in any case, or number."""
        from runyard.errors import BadSpec

        try:
            if isinstance(text, str):
                return cls[text.strip().upper()]
            if isinstance(text, int) and not isinstance(text, bool):
                return cls(text)
        except (KeyError, ValueError):
            pass
        names = ", ".join(p.name.lower() for p in cls)
        raise BadSpec(f"{text!r} is not a priority", hint=f"use one of: {names}")

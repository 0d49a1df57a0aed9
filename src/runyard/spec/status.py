"""The states of a task and its priorities.

queued ──▶ running ──▶ completed | failed | cancelled
   ▲          │
   └── retry ─┘
"""

from __future__ import annotations

import enum


class Status(enum.StrEnum):
    """Where a task stands."""

    QUEUED = "queued"  # waits for its turn, or for a retry
    RUNNING = "running"  # an attempt is under way
    COMPLETED = "completed"  # returned a value
    FAILED = "failed"  # raised, crashed, ran too long or used too much memory
    CANCELLED = "cancelled"  # somebody said so, or what it comes after did not complete

    @property
    def code(self) -> int:
        """The small number that stands for this status in a row."""
        return _CODES[self]

    @classmethod
    def of(cls, code: int) -> Status:
        """The status behind a row's number."""
        return _STATUSES[code]


FINAL_STATES = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
"""A task in one of these has an outcome, and never changes again unless it is retried by hand."""

_CODES = {status: code for code, status in enumerate(Status)}
_STATUSES = tuple(Status)

COMPLETED, FAILED, CANCELLED = (s.code for s in (Status.COMPLETED, Status.FAILED, Status.CANCELLED))


class Priority(enum.IntEnum):
    """What goes first; inside one priority, first in, first out."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3

    @classmethod
    def parse(cls, text: str | int) -> Priority:
        """Read a priority from its name in any case."""
        from runyard.errors import BadSpec

        try:
            return cls[text.strip().upper()] if isinstance(text, str) else cls(text)
        except (KeyError, ValueError):
            names = ", ".join(p.name.lower() for p in cls)
            raise BadSpec(f"no priority {text!r}", hint=f"use one of: {names}") from None

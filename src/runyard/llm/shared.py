"""What all cells of a batch on one machine share: how fast they may send, what they have spent.

It is a small locked file in the batch's folder, because workers are separate processes and never
open the store. Outside a task it is in memory, for this process.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from runyard import clock
from runyard.llm.limit import Pace

FILE = "llm.json"
"""Its name in the batch's folder."""


class SharedState(msgspec.Struct):
    """The content of the file."""

    spent: float = 0.0  # dollars
    paces: dict[str, Pace] = {}  # by endpoint and model


class Shared:
    """The state of one batch."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._state = SharedState()

    @contextmanager
    def state(self) -> Iterator[SharedState]:
        """The state, locked against all other users; changes are kept."""
        if self._path is None:
            with self._lock:
                yield self._state
            return
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            state = _decoded(os.pread(descriptor, size, 0))
            yield state
            # One write over the old content, so that a kill leaves the one or the other.
            os.pwrite(descriptor, msgspec.json.encode(state).ljust(size), 0)
        finally:
            os.close(descriptor)

    def spent(self) -> float:
        """Dollars spent so far."""
        with self.state() as state:
            return state.spent

    def spend(self, dollars: float) -> None:
        """Add the cost of a call."""
        if dollars:
            with self.state() as state:
                state.spent += dollars

    def reserve(self, name: str) -> tuple[float, float]:
        """Now, and when the next request to this endpoint may be sent."""
        with self.state() as state:
            now = clock.now()
            return now, state.paces.setdefault(name, Pace()).reserve(now)

    def may_send(self, name: str, reserved: float) -> bool:
        """Whether a time that was reserved still holds."""
        with self.state() as state:
            return state.paces.setdefault(name, Pace()).may_send(clock.now(), reserved)

    def answered(
        self, name: str, sent: float, *, refused: bool, retry_after: float | None = None
    ) -> None:
        """Tell how the endpoint answered a request that was sent at `sent`."""
        with self.state() as state:
            pace = state.paces.setdefault(name, Pace())
            if refused:
                pace.refused(clock.now(), sent, retry_after)
            else:
                pace.accepted(clock.now())

    def _open(self) -> int:
        assert self._path is not None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._path, flags, 0o600)


def _decoded(content: bytes) -> SharedState:
    try:
        return msgspec.json.decode(content, type=SharedState)
    except msgspec.DecodeError:  # a new file
        return SharedState()

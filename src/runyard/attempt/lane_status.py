"""Where lanes note what they are about to do, so that it survives their sudden death.

One small mapped file an engine, a slot a lane. The lane writes the task it starts, and when; the
engine reads that to charge a crash to the right task and to see who runs too long. The engine
writes how far the lane may go, so that it can take back what has not started.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

SIZE = 64
_NOTE = struct.Struct("<qqqqd")  # batch, task, attempt, chunk, start
_STOP = struct.Struct("<q")
_STOP_AT = 48
IDLE = -1


class LaneStatus(NamedTuple):
    """What a lane is running."""

    batch: int
    task: int  # IDLE: nothing
    attempt: int
    chunk: int
    since: float  # by perf_counter, which all processes of a machine share

    @property
    def seconds(self) -> float:
        """For how long it has been running."""
        return max(0.0, perf_counter() - self.since)


class LaneStatusFile:
    """The mapped file. Lanes in other processes open the same one."""

    def __init__(self, path: Path, lanes: int, *, create: bool) -> None:
        self.path = path
        size = max(1, lanes) * SIZE
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if create:  # with room on the disk for all of it: a note must not fail
                os.write(descriptor, bytes(size))
            self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
        self.lanes = len(self._map) // SIZE
        if create:
            for lane in range(self.lanes):
                self.clear(lane)

    def clear(self, lane: int) -> None:
        """The lane runs nothing and may start anything."""
        _NOTE.pack_into(self._map, lane * SIZE, 0, IDLE, 0, 0, 0)
        _STOP.pack_into(self._map, lane * SIZE + _STOP_AT, 0)

    def writer(self, lane: int) -> Callable[[int, int, int, int, float], None]:
        """What the lane notes with that it is about to start a task: the fields of `LaneStatus`."""
        return partial(_NOTE.pack_into, self._map, lane * SIZE)

    def idle(self, lane: int) -> None:
        """The lane runs nothing."""
        _NOTE.pack_into(self._map, lane * SIZE, 0, IDLE, 0, 0, 0)

    def read(self, lane: int) -> LaneStatus:
        """What the lane is running; read twice, since it may be writing."""
        while True:
            note = LaneStatus._make(_NOTE.unpack_from(self._map, lane * SIZE))
            if note == _NOTE.unpack_from(self._map, lane * SIZE):
                return note

    def stop(self, lane: int, chunk: int) -> None:
        """Let the lane start nothing more of this chunk or earlier ones."""
        _STOP.pack_into(self._map, lane * SIZE + _STOP_AT, chunk)

    def stopped(self, lane: int) -> int:
        """The last chunk of which nothing more may be started."""
        found: int = _STOP.unpack_from(self._map, lane * SIZE + _STOP_AT)[0]
        return found

    def close(self, *, remove: bool = False) -> None:
        """Let go of the file."""
        self._map.close()
        if remove:
            self.path.unlink(missing_ok=True)

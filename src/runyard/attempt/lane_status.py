"""What each lane is running, in a mapped file that survives the sudden death of a worker.

One small file per engine, with a record per lane. The lane writes which task it starts, and when;
the engine reads that to blame the right task for a crash and to see which task runs too long. The
engine writes the last chunk the lane may not start from, so that it can take back the rest.
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
_STATUS = struct.Struct("<qqqqd")  # batch, task, attempt, chunk, start
_NUMBER = struct.Struct("<q")
_LEFT_AT, _STOP_AT = 40, 48
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
        """How long it has been running."""
        return max(0.0, perf_counter() - self.since)


class LaneStatusFile:
    """The mapped file. Lanes in other processes open the same one."""

    def __init__(self, path: Path, lanes: int, *, create: bool) -> None:
        self.path = path
        size = max(1, lanes) * SIZE
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if create:  # allocates disk space for all of it: a later write must not fail
                os.write(descriptor, bytes(size))
            self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
        self.lanes = len(self._map) // SIZE
        if create:
            for lane in range(self.lanes):
                self.clear(lane)

    def clear(self, lane: int) -> None:
        """The lane is idle and may start anything."""
        _STATUS.pack_into(self._map, lane * SIZE, 0, IDLE, 0, 0, 0)
        _NUMBER.pack_into(self._map, lane * SIZE + _STOP_AT, 0)
        self.leave(lane, 0)

    def writer(self, lane: int) -> Callable[[int, int, int, int, float], None]:
        """A function that writes the lane's status; it takes the fields of `LaneStatus`."""
        return partial(_STATUS.pack_into, self._map, lane * SIZE)

    def idle(self, lane: int) -> None:
        """The lane is idle."""
        _STATUS.pack_into(self._map, lane * SIZE, 0, IDLE, 0, 0, 0)

    def read(self, lane: int) -> LaneStatus:
        """The lane's status; read twice, since the lane may be writing."""
        while True:
            status = LaneStatus._make(_STATUS.unpack_from(self._map, lane * SIZE))
            if status == _STATUS.unpack_from(self._map, lane * SIZE):
                return status

    def stop(self, lane: int, chunk: int) -> None:
        """Forbid the lane to start more tasks of this chunk or earlier ones."""
        _NUMBER.pack_into(self._map, lane * SIZE + _STOP_AT, chunk)

    def stopped(self, lane: int) -> int:
        """The last chunk of which nothing more may be started."""
        found: int = _NUMBER.unpack_from(self._map, lane * SIZE + _STOP_AT)[0]
        return found

    def leave(self, lane: int, size: int) -> None:
        """Earlier tasks have left this many bytes of memory in use."""
        _NUMBER.pack_into(self._map, lane * SIZE + _LEFT_AT, size)

    def left(self, lane: int) -> int:
        """The bytes of memory that earlier tasks have left in use."""
        found: int = _NUMBER.unpack_from(self._map, lane * SIZE + _LEFT_AT)[0]
        return found

    def close(self, *, remove: bool = False) -> None:
        """Close the file."""
        self._map.close()
        if remove:
            self.path.unlink(missing_ok=True)

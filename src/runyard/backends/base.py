"""The interface of a backend.

The scheduler's loop sends chunks to lanes and polls for reports. A lane runs one attempt at a time,
in the order of its chunks. A backend does not decide what runs where, when or how often.

    loop ── open(job) ─ send(lane, chunk) ─ end(lane) ─▶ backend ─▶ lanes
    loop ◀─ poll() → reports and losses ────────────────────┘
"""

from __future__ import annotations

import errno
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from runyard.attempt.lane_status import LaneStatus, LaneStatusFile
from runyard.attempt.wire import Chunk, Job, Loss, LossCause, Report
from runyard.errors import BackendError
from runyard.spec.hash_seed import own_seed


class Capabilities(NamedTuple):
    """What a backend can do for a task."""

    hard_kill: bool  # can end an unresponsive task, with all its processes
    memory_limit: bool
    own_directory: bool  # each task has its own working directory
    descriptor_capture: bool  # captures what C code and child processes print
    survives_crash: bool  # a task that kills its process affects no other task
    places: bool = False  # picks a machine with the resources that a task needs


class Backend(ABC):
    """Where attempts run."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    depth: ClassVar[int] = 2
    """How many chunks a lane may hold, so that it never waits for the next one."""
    distance: ClassVar[float] = 1.0
    """Latency to a lane, relative to a local process."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes  # how many there are now; may change during a run
        self.most_lanes = lanes  # lane numbers are below this
        self.notices: deque[str] = deque()  # messages for the user, published by the loop

    @classmethod
    def default_workers(cls) -> int:
        """How many workers to start by default."""
        return usable_cores()

    @staticmethod
    def hash_seed() -> str:
        """The hash seed that tasks run with."""
        return own_seed()

    @abstractmethod
    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        """Prepare for a batch."""

    @abstractmethod
    def send(self, lane: int, chunk: Chunk) -> None:
        """Give a lane a chunk of tasks."""

    @abstractmethod
    def poll(self, timeout: float) -> list[Report | Loss]:
        """Reports and losses that have arrived; waits up to `timeout` for the first."""

    @abstractmethod
    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        """End the lane by force if this is still its status; a `Loss` follows."""

    @abstractmethod
    def wake(self) -> None:
        """Make a waiting `poll` return. May be called from any thread or signal handler."""

    @abstractmethod
    def close(self) -> None:
        """End the batch and all tasks that still run. Calling it again does nothing."""

    def again(self) -> Self:
        """A new backend with the same settings, for another batch."""
        return type(self)(self.lanes)

    @property
    def extent(self) -> int:
        """All current lanes have numbers below this."""
        return self.lanes

    def is_up(self, lane: int) -> bool:  # noqa: ARG002
        """Whether this lane exists now."""
        return True

    def is_settled(self, lane: int) -> bool:  # noqa: ARG002
        """Whether the lane's status is newer than the last `LaneStatusFile.stop`.

        It may be False for remote lanes: ask again after the next `poll`.
        """
        return True

    def room(self, lane: int) -> int:  # noqa: ARG002
        """How many more tasks may be sent to the lane now."""
        return sys.maxsize

    def memory(self, lane: int) -> int | None:  # noqa: ARG002
        """Bytes of memory that the lane's task uses, if known."""
        return None

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, if they are processes."""
        return []


class SentChunks:
    """The chunks that a lane in another process was sent and has not finished."""

    def __init__(self) -> None:
        self.ids: list[int] = []  # oldest first
        self.tasks = 0  # sent since the worker started

    def add(self, chunk: Chunk) -> None:
        """A chunk is being sent."""
        self.ids.append(chunk.id)
        self.tasks += chunk.size

    def take(self, report: Report) -> None:
        """A report came in."""
        if report.finished and report.chunk in self.ids:
            self.ids.remove(report.chunk)

    def room(self, recycle: int | None) -> int:
        """How many more tasks fit before the worker is replaced, by the option `recycle`."""
        return sys.maxsize if recycle is None else max(0, recycle - self.tasks)

    def is_used_up(self, recycle: int | None) -> bool:
        """Whether the worker is to be replaced now."""
        return not self.ids and not self.room(recycle)


class EarlyDeaths:
    """Counts workers in a row that died soon after their start, before they achieved anything."""

    LIMIT = 10
    SECONDS = 3.0
    """One that lived longer has started well: it was killed from outside."""

    def __init__(self) -> None:
        self._count = 0

    def reset(self) -> None:
        """A worker achieved something."""
        self._count = 0

    def add(self, *, was_running: bool = False, lived: float = 0.0) -> bool:
        """A worker died, perhaps while running a task; whether to give up."""
        self._count = 0 if was_running or lived > self.SECONDS else self._count + 1
        return self._count > self.LIMIT


@contextmanager
def starting(what: str = "workers") -> Iterator[None]:
    """Turn an OSError into a BackendError that says what to do."""
    try:
        yield
    except OSError as error:
        hint = "raise the limit (`ulimit -n`), or use fewer workers"
        few = error.errno in (errno.EMFILE, errno.ENFILE)
        raise BackendError(
            f"{what} can't be started: {error.strerror}", hint=hint if few else None
        ) from error


def usable_cores() -> int:
    """How many cores this process may use, by its affinity and cgroup limits."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _cgroup_cores() or cores))


def _cgroup_cores(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The cgroup's CPU quota in whole cores, rounded up; None if there is none."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text()
            period = (root / "cpu/cpu.cfs_period_us").read_text()
        except OSError:
            return None
    try:
        limit = int(quota)
        return None if limit <= 0 else -(-limit // int(period))
    except ValueError:
        return None

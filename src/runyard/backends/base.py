"""What a backend is. A new one is one file, and one line in the conformance suite.

The schedule's loop sends chunks to lanes and polls for reports; a lane runs one attempt at a time,
in the order of its chunks. Deciding what runs where, when and how often is not a backend's affair.

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

    hard_kill: bool  # ends a task that does not listen, with all its processes
    memory_limit: bool
    own_directory: bool  # a current directory of the task's own
    descriptor_capture: bool  # keeps what C code and child processes print
    survives_crash: bool  # a task that kills its process costs that task alone
    places: bool = False  # finds a machine that has what a task needs


IN_PROCESS = Capabilities(
    hard_kill=False,
    memory_limit=False,
    own_directory=False,
    descriptor_capture=False,
    survives_crash=False,
)
"""What a backend can do whose tasks run inside the engine's own process."""


class Backend(ABC):
    """Where attempts run."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    depth: ClassVar[int] = 2
    """Chunks that a lane may hold, so that it never waits for the next one."""
    distance: ClassVar[float] = 1.0
    """How many times longer the way to a lane is than to a process of this machine."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes  # how many there are; may change while a batch runs
        self.most_lanes = lanes  # their numbers are below this
        self.notices: deque[str] = deque()  # what the user should know; the loop passes it on

    @classmethod
    def default_workers(cls) -> int:
        """As many workers as this machine bears."""
        return usable_cores()

    @staticmethod
    def hash_seed() -> str:
        """By which hash seed its tasks run."""
        return own_seed()

    @abstractmethod
    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        """Get ready for a batch."""

    @abstractmethod
    def send(self, lane: int, chunk: Chunk) -> None:
        """Give a lane something to do."""

    @abstractmethod
    def poll(self, timeout: float) -> list[Report | Loss]:
        """What has come in; waits so long for something to come."""

    @abstractmethod
    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        """End the lane by force if this is still its status; a `Loss` follows."""

    @abstractmethod
    def wake(self) -> None:
        """Let a `poll` that waits return at once; callable from any thread or signal handler."""

    @abstractmethod
    def close(self) -> None:
        """The batch is over; whatever still runs is ended. Does nothing the second time."""

    def again(self) -> Self:
        """The same for another batch, once this one is closed."""
        return type(self)(self.lanes)

    @property
    def extent(self) -> int:
        """Lanes that there are now have numbers below this."""
        return self.lanes

    def is_up(self, lane: int) -> bool:  # noqa: ARG002
        """Whether there is a lane of this number now."""
        return True

    def is_settled(self, lane: int) -> bool:  # noqa: ARG002
        """Whether the lane has seen the last `LaneStatusFile.stop`, and shows what it runs since.

        False where lanes are far away: ask again after the next `poll`.
        """
        return True

    def room(self, lane: int) -> int:  # noqa: ARG002
        """How many more tasks the lane may be sent now."""
        return sys.maxsize

    def memory(self, lane: int) -> int | None:  # noqa: ARG002
        """Bytes that the lane's task uses, where that can be told."""
        return None

    @property
    def pids(self) -> list[int]:
        """Worker processes, where there are any."""
        return []


@contextmanager
def starting(what: str = "workers") -> Iterator[None]:
    """Say in Runyard's words why workers can't be started."""
    try:
        yield
    except OSError as error:
        hint = "raise the limit (`ulimit -n`), or use fewer workers"
        few = error.errno in (errno.EMFILE, errno.ENFILE)
        raise BackendError(
            f"{what} can't be started: {error.strerror}", hint=hint if few else None
        ) from error


def usable_cores() -> int:
    """Cores that this process may use: affinity and cgroup limits respected."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _cgroup_cores() or cores))


def _cgroup_cores(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The cgroup's CPU quota in whole cores, rounded up; None where there is none."""
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

"""`serial`: one task after another in the caller's thread; for debugging, and as the reference."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from types import FrameType

from runyard import clock
from runyard.attempt.context import enter
from runyard.attempt.lane_status import LaneStatus, LaneStatusFile
from runyard.attempt.program import ReadyTask
from runyard.attempt.runner import Runner
from runyard.attempt.system_failure import AttemptAborted, SystemFailure
from runyard.attempt.wire import (
    AttemptResult,
    Chunk,
    Emission,
    Failure,
    Job,
    Loss,
    LossCause,
    Report,
)
from runyard.backends.in_process import InProcessBackend, InProcessLane
from runyard.errors import TaskTimeout

SLICE = 0.02
"""Seconds of work between two reports."""


class _SerialLane(InProcessLane):
    """The lane; it works while the engine polls."""

    chunk: Chunk | None = None  # that it is at

    def put(self, content: AttemptResult | Emission | SystemFailure | None) -> None:
        if self.chunk is not None:  # else it comes from a thread that outlived its task
            super().put(content)

    def start(self, chunk: Chunk) -> None:
        """Begin with a chunk."""
        self.chunk, self._tasks = chunk, self.runner.program.tasks(chunk)
        self.begin(chunk)

    def step(self) -> bool:
        """Run the chunk's next task, or finish it; whether a task has failed."""
        assert self.chunk is not None
        failure: SystemFailure | None = None
        task = next(self._tasks, None) if self.may_start(self.chunk) else None
        if task is not None:
            try:
                made = self._run(task, self.chunk.id)
                self.put_result(made)
                return isinstance(made, Failure)
            except AttemptAborted as aborted:
                failure = aborted.failure
        self._lane_status.idle(self.number)
        self.put(failure)
        self.chunk = None
        return False

    def _run(self, task: ReadyTask, chunk: int) -> AttemptResult:
        before = enter(self.runner)
        try:
            with alarm(self.runner.timeout(task), self.runner):
                return self.runner.run(task, chunk)
        finally:
            enter(before)


class SerialBackend(InProcessBackend[_SerialLane]):
    """Runs tasks inside `poll`."""

    name = "serial"
    depth = 1

    def __init__(self, lanes: int) -> None:  # noqa: ARG002
        super().__init__(1)
        self._chunks: deque[Chunk] = deque()

    @classmethod
    def default_workers(cls) -> int:
        return 1

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        super().open(job, lane_status)
        self._lane = self._lanes[0]

    def send(self, lane: int, chunk: Chunk) -> None:  # noqa: ARG002
        self._chunks.append(chunk)

    def poll(self, timeout: float) -> list[Report | Loss]:
        until = perf_counter() + SLICE
        worked = False
        while self._has_work() and perf_counter() < until:
            worked = True
            if self._lane.step():  # which may end the run
                break
        return super().poll(0.0 if worked else timeout)

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        """Do nothing: while the engine can ask for it, no task is running."""

    def close(self) -> None:
        self._chunks.clear()
        for lane in self._lanes:
            lane.chunk = None
            lane.runner.rest()
        super().close()

    def _has_work(self) -> bool:
        if self._lane.chunk is None and self._chunks:
            self._lane.start(self._chunks.popleft())
        return self._lane.chunk is not None

    def _start_lane(self, number: int) -> _SerialLane:
        return _SerialLane(number, self._program, self._lane_status, self._inbox)


@contextmanager
def alarm(seconds: float | None, runner: Runner) -> Iterator[None]:
    """Interrupt the task at its limit, if this thread receives signals."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001
        passed = perf_counter() - begin
        left = seconds - passed + clock.pauses.within(passed)
        if left > 0:  # the process was stopped for a while, which does not count
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))
            return
        runner.context().cancel()
        raise TaskTimeout(f"ran longer than its limit of {seconds:g} s")

    begin = perf_counter()
    before = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # an alarm set by other code, which must still ring
            due = max(0.001, left - (perf_counter() - begin))
            signal.setitimer(signal.ITIMER_REAL, due, interval)

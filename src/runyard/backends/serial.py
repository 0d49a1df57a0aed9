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
from runyard.attempt.lane_status import LaneStatus
from runyard.attempt.program import ReadyTask
from runyard.attempt.runner import Runner
from runyard.attempt.system_failure import SystemFailure
from runyard.attempt.wire import AttemptResult, Chunk, Emission, Failure, Loss, LossCause, Report
from runyard.backends.in_process import InProcessBackend, InProcessLane
from runyard.errors import TaskTimeout

SLICE = 0.02
"""Seconds of work between two reports."""


class _SerialLane(InProcessLane):
    """The lane; it works while the engine polls."""

    is_working = False

    def put(self, content: AttemptResult | Emission | SystemFailure | None) -> None:
        if self.is_working:  # else it comes from a thread that outlived its task
            super().put(content)

    def rest(self) -> None:
        self.lane_status.idle(self.number)

    def work(self, chunk: Chunk) -> Iterator[bool]:
        """Run a chunk, a task at a time; yields whether that task has failed."""
        self.is_working = True
        with self.working(chunk) as tasks:
            for task in tasks:
                made = self._run(task, chunk.id)
                self.put_result(made)
                yield isinstance(made, Failure)
        self.is_working = False

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
        self._work: Iterator[bool] = iter(())  # on the current chunk

    @classmethod
    def default_workers(cls) -> int:
        return 1

    def send(self, lane: int, chunk: Chunk) -> None:  # noqa: ARG002
        self._chunks.append(chunk)

    def poll(self, timeout: float) -> list[Report | Loss]:
        until = perf_counter() + SLICE
        while perf_counter() < until:
            has_failed = next(self._work, None)
            if has_failed:  # which may end the run
                break
            if has_failed is None:
                if not self._chunks:
                    break
                self._work = self._lanes[0].work(self._chunks.popleft())
        return super().poll(timeout)

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        """Do nothing: while the engine can ask for it, no task is running."""

    def close(self) -> None:
        self._chunks.clear()
        self._work = iter(())
        for lane in self._lanes:
            lane.is_working = False
            lane.runner.rest()
        super().close()

    def _start_lane(self, number: int) -> _SerialLane:
        return _SerialLane(number, self)


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

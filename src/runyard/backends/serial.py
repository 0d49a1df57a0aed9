"""`serial`: one task after another in the caller's own thread; for debugging, and the measure."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from types import FrameType

from runyard import clock
from runyard.attempt.context import enter, follow_threads
from runyard.attempt.lane_status import LaneStatus, LaneStatusFile
from runyard.attempt.output import StreamOutput, routed
from runyard.attempt.program import Program, Work
from runyard.attempt.runner import Result, Runner
from runyard.attempt.trouble import Stuck, Trouble
from runyard.attempt.wire import Chunk, Emission, Job, Loss, LossCause, Report
from runyard.backends.base import IN_PROCESS, Backend
from runyard.backends.lanes import Inbox, News
from runyard.errors import TaskTimeout

SLICE = 0.02
"""Seconds of work between two reports."""


class SerialBackend(Backend):
    """Runs tasks inside `poll`."""

    name = "serial"
    capabilities = IN_PROCESS
    depth = 1

    def __init__(self, lanes: int) -> None:  # noqa: ARG002
        super().__init__(1)
        self._chunks: deque[Chunk] = deque()
        self._current: tuple[Chunk, Iterator[Work]] | None = None
        self._inbox = Inbox()
        self._done = 0
        self._stack = ExitStack()
        self._runner: Runner | None = None

    @classmethod
    def default_workers(cls) -> int:
        return 1

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        self._slots = lane_status
        self._runner = Runner(Program(job), 0, lane_status, StreamOutput(), self._emit)
        self._stack.enter_context(routed())
        follow_threads()

    def send(self, lane: int, chunk: Chunk) -> None:  # noqa: ARG002
        self._chunks.append(chunk)

    def poll(self, timeout: float) -> list[Report | Loss]:
        until = perf_counter() + SLICE
        worked = False
        while self._next_chunk() and perf_counter() < until:
            worked = True
            self._step()
        return self._inbox.take(0.0 if worked else timeout)

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        """Nothing can be ended: when the engine asks, no task is running."""

    def wake(self) -> None:
        self._inbox.wake()

    def close(self) -> None:
        self._chunks.clear()
        self._current = None
        if self._runner is not None:
            self._runner.rest()
            self._runner = None
        self._stack.close()

    def _next_chunk(self) -> bool:
        if self._current is None and self._chunks:
            assert self._runner is not None
            chunk = self._chunks.popleft()
            self._current = chunk, self._runner.program.work(chunk)
            self._done = 0
        return self._current is not None

    def _step(self) -> None:
        assert self._current is not None
        chunk, works = self._current
        work = None if self._slots.stopped(0) >= chunk.id else next(works, None)
        if work is None:
            self._finish(chunk, None)
            return
        try:
            result = self._run(work, chunk.id)
        except Stuck as stuck:
            self._finish(chunk, stuck.trouble)
            return
        self._done += 1
        self._inbox.put(News(0, chunk.id, self._done, result))

    def _finish(self, chunk: Chunk, trouble: Trouble | None) -> None:
        self._slots.idle(0)
        self._current = None
        self._inbox.put(News(0, chunk.id, self._done, trouble))

    def _run(self, work: Work, chunk: int) -> Result:
        runner = self._runner
        assert runner is not None
        before = enter(runner)
        try:
            with _alarm(runner.timeout(work), runner):
                return runner.run(work, chunk)
        finally:
            enter(before)

    def _emit(self, emission: Emission) -> None:
        if self._current is not None:  # else it comes from a thread that outlived its task
            self._inbox.put(News(0, self._current[0].id, self._done, emission))


@contextmanager
def _alarm(seconds: float | None, runner: Runner) -> Iterator[None]:
    """Interrupt the task at its limit, where signals reach this thread."""
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
        if left:  # somebody else's alarm, which must still ring
            due = max(0.001, left - (perf_counter() - begin))
            signal.setitimer(signal.ITIMER_REAL, due, interval)

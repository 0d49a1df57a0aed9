"""`threads`: for tasks that wait, or that let go of the interpreter lock.

A thread can't be ended from outside: a task that runs too long is recorded as failed, told through
`ctx.on_cancel`, and its thread is left behind; what it brings later is not let in.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from contextlib import ExitStack

from runyard.attempt.context import follow_threads
from runyard.attempt.lane_status import LaneStatus, LaneStatusFile
from runyard.attempt.output import StreamOutput, routed
from runyard.attempt.program import Program
from runyard.attempt.runner import Result, Runner
from runyard.attempt.trouble import Stuck, Trouble
from runyard.attempt.wire import Chunk, Emission, Job, Loss, LossCause, Report
from runyard.backends.base import IN_PROCESS, Backend
from runyard.backends.lanes import Inbox, News


class ThreadsBackend(Backend):
    """One thread a lane."""

    name = "threads"
    capabilities = IN_PROCESS

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self._inbox = Inbox()
        self._stack = ExitStack()
        self._lanes: list[_Lane] = []

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        self._program = Program(job)
        self._slots = lane_status
        self._stack.enter_context(routed())
        follow_threads()
        self._lanes = [_Lane(n, self._program, lane_status, self._inbox) for n in range(self.lanes)]

    def send(self, lane: int, chunk: Chunk) -> None:
        self._lanes[lane].chunks.put(chunk)

    def poll(self, timeout: float) -> list[Report | Loss]:
        return self._inbox.take(timeout)

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        if self._slots.read(lane) != status:
            return
        old = self._lanes[lane]
        old.abandon()
        printed = old.runner.printed(status.task, status.attempt)
        self._inbox.put(Loss.of(lane, status, cause, reason, printed=printed))
        self._slots.clear(lane)
        self._lanes[lane] = _Lane(lane, self._program, self._slots, self._inbox)

    def wake(self) -> None:
        self._inbox.wake()

    def close(self) -> None:
        for number, lane in enumerate(self._lanes):
            if self._slots.read(number).task >= 0:
                lane.abandon()
            lane.chunks.put(None)
        for lane in self._lanes:
            if not lane.abandoned:
                lane.thread.join()
        self._lanes = []
        self._stack.close()


class _Lane:
    def __init__(
        self, number: int, program: Program, lane_status: LaneStatusFile, inbox: Inbox
    ) -> None:
        self.chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self.abandoned = False
        self._number = number
        self._slots = lane_status
        self._inbox = inbox
        self.runner = Runner(program, number, lane_status, StreamOutput(), self._emit)
        self._chunk = 0
        self._done = 0
        # A thread that hangs must not keep the interpreter from ending.
        self.thread = threading.Thread(
            target=contextvars.Context().run, args=(self._work,), daemon=True,
            name=f"runyard-lane-{number}",
        )  # fmt: skip
        self.thread.start()

    def abandon(self) -> None:
        """Let nothing more in from this thread, and tell its task."""
        self.abandoned = True
        self.chunks.put(None)  # its task may be over already, and then it waits for more
        if self._slots.read(self._number).task >= 0:
            self.runner.context().cancel()

    def _work(self) -> None:
        while (chunk := self.chunks.get()) is not None:
            self._chunk, self._done = chunk.id, 0
            stuck = self._work_through(chunk)
            if self.abandoned:
                break
            self.runner.rest()
            self._bring(stuck)
        self.runner.close()

    def _work_through(self, chunk: Chunk) -> Trouble | None:
        for work in self.runner.program.work(chunk):
            if self.abandoned or self._slots.stopped(self._number) >= chunk.id:
                break
            try:
                result = self.runner.run(work, chunk.id)
            except Stuck as stuck:
                return stuck.trouble
            self._done += 1
            self._bring(result)
        return None

    def _emit(self, emission: Emission) -> None:
        self._bring(emission)

    def _bring(self, what: Result | Emission | Trouble | None) -> None:
        if not self.abandoned:
            self._inbox.put(News(self._number, self._chunk, self._done, what))

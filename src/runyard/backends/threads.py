"""`threads`: for tasks that wait, or that release the GIL.

A thread can't be ended from outside. A task that runs too long is recorded as failed and notified
through `ctx.on_cancel`; its thread is left behind, and what it returns later is discarded.
"""

from __future__ import annotations

import contextvars
import queue
import threading

from runyard.attempt.wire import Chunk
from runyard.backends.in_process import InProcessBackend, InProcessLane


class _ThreadLane(InProcessLane):
    def __init__(self, number: int, backend: ThreadsBackend) -> None:
        super().__init__(number, backend)
        self.chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        # A daemon: a thread that hangs must not keep the interpreter from exiting.
        self.thread = threading.Thread(
            target=contextvars.Context().run, args=(self._work,), daemon=True,
            name=f"runyard-lane-{number}",
        )  # fmt: skip
        self.thread.start()

    def abandon(self) -> None:
        self.abandoned = True
        self.chunks.put(None)  # its task may have just ended, and then it waits for more
        super().abandon()

    def _work(self) -> None:
        while not self.abandoned and (chunk := self.chunks.get()) is not None:
            with self.working(chunk) as tasks:
                for task in tasks:
                    self.put_result(self.runner.run(task, chunk.id))
        self.runner.close()


class ThreadsBackend(InProcessBackend[_ThreadLane]):
    """One thread per lane."""

    name = "threads"

    def send(self, lane: int, chunk: Chunk) -> None:
        self._lanes[lane].chunks.put(chunk)

    def close(self) -> None:
        for lane in self._lanes:
            if self.lane_status.read(lane.number).task >= 0:
                lane.abandon()
            lane.chunks.put(None)
        for lane in self._lanes:
            if not lane.abandoned:
                lane.thread.join()
        super().close()

    def _start_lane(self, number: int) -> _ThreadLane:
        return _ThreadLane(number, self)

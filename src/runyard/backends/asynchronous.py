"""`async`: many coroutines on one loop, in a thread of its own. For tasks that wait on a network.

A lane is one asyncio task; ordinary functions run in a thread. A task that runs too long is
cancelled and recorded as failed; what it returns later is discarded.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from runyard.attempt.calls import LoopThreads
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.wire import Chunk, Job
from runyard.backends.in_process import InProcessBackend, InProcessLane


class _AsyncLane(InProcessLane):
    def __init__(self, number: int, backend: AsyncBackend) -> None:
        super().__init__(number, backend)
        self.chunks: asyncio.Queue[Chunk] = asyncio.Queue()
        self._loop = backend.loop
        self._task: asyncio.Task[None] | None = None
        self._loop.call_soon_threadsafe(self._start)

    def abandon(self) -> None:
        self.runner.leaving = self.abandoned = True
        self.runner.close()
        super().abandon()

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._work())
        # Again: its thread may have been started after it was abandoned.
        self._task.add_done_callback(lambda _: self.runner.close())

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        while True:  # until it is cancelled
            chunk = await self.chunks.get()
            with self.working(chunk) as tasks:
                for task in tasks:
                    self.put_result(await self.runner.run_async(task, chunk.id))


class AsyncBackend(InProcessBackend[_AsyncLane]):
    """One asyncio task per lane."""

    name = "async"

    @classmethod
    def default_workers(cls) -> int:
        return 100

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self._sent: deque[tuple[_AsyncLane, Chunk]] = deque()
        self._delivering = False

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(LoopThreads())
        self._thread = threading.Thread(target=self._run_loop, daemon=True, name="runyard-async")
        super().open(job, lane_status)
        self._thread.start()

    def send(self, lane: int, chunk: Chunk) -> None:
        self._sent.append((self._lanes[lane], chunk))
        if not self._delivering:  # waking the loop's thread is expensive: once for many chunks
            self._delivering = True
            self.loop.call_soon_threadsafe(self._deliver)

    def close(self) -> None:
        if not self._lanes:
            return
        for lane in self._lanes:
            lane.abandon()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        super().close()

    def _deliver(self) -> None:
        self._delivering = False
        while self._sent:
            lane, chunk = self._sent.popleft()
            lane.chunks.put_nowait(chunk)

    def _start_lane(self, number: int) -> _AsyncLane:
        return _AsyncLane(number, self)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        self.loop.close()

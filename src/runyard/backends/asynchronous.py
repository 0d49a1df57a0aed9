"""`async`: many coroutines on one loop, in a thread of its own. For tasks that wait on a network.

A lane is one asyncio task; ordinary functions go to a thread. A task that runs too long is
cancelled, recorded as failed, and what it brings later is not let in.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import ExitStack

from runyard.attempt.calls import LoopThreads
from runyard.attempt.context import follow_threads
from runyard.attempt.output import StreamOutput, routed
from runyard.attempt.program import Program
from runyard.attempt.runner import Result, Runner
from runyard.attempt.slots import Note, Slots
from runyard.attempt.trouble import Stuck, Trouble
from runyard.attempt.wire import Chunk, Emission, Job, Loss, Report
from runyard.backends.base import IN_PROCESS, Backend
from runyard.backends.lanes import Inbox, News, loss_of


class AsyncBackend(Backend):
    """One asyncio task a lane."""

    name = "async"
    capabilities = IN_PROCESS

    @classmethod
    def default_workers(cls) -> int:
        return 100

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self._inbox = Inbox()
        self._stack = ExitStack()
        self._lanes: list[_Lane] = []
        self._sent: deque[tuple[_Lane, Chunk]] = deque()
        self._delivering = False

    def open(self, job: Job, slots: Slots) -> None:
        self._program = Program(job)
        self._slots = slots
        self._stack.enter_context(routed())
        follow_threads()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(LoopThreads())
        self._thread = threading.Thread(target=self._turn, daemon=True, name="runyard-async")
        self._lanes = [self._lane(number) for number in range(self.lanes)]
        self._thread.start()

    def send(self, lane: int, chunk: Chunk) -> None:
        self._sent.append((self._lanes[lane], chunk))
        if not self._delivering:  # waking the loop's thread is what costs: once for many
            self._delivering = True
            self._call(self._deliver)

    def poll(self, timeout: float) -> list[Report | Loss]:
        return self._inbox.take(timeout)

    def end(self, lane: int, note: Note, error: str, reason: str) -> None:
        if self._slots.read(lane) != note:
            return
        old = self._lanes[lane]
        old.abandon()
        printed = old.runner.printed(note.task, note.attempt)
        self._call(old.cancel)
        self._inbox.put(loss_of(lane, note, error, reason, printed))
        self._slots.clear(lane)
        self._lanes[lane] = self._lane(lane)

    def wake(self) -> None:
        self._inbox.wake()

    def close(self) -> None:
        if not self._lanes:
            return
        for lane in self._lanes:
            lane.abandon()
        self._call(self._loop.stop)
        self._thread.join()
        self._lanes = []
        self._stack.close()

    def _deliver(self) -> None:
        self._delivering = False
        while self._sent:
            lane, chunk = self._sent.popleft()
            lane.chunks.put_nowait(chunk)

    def _lane(self, number: int) -> _Lane:
        lane = _Lane(number, self._program, self._slots, self._inbox)
        self._call(lane.start)
        return lane

    def _call(self, function: object, *args: object) -> None:
        self._loop.call_soon_threadsafe(function, *args)  # type: ignore[arg-type]

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        self._loop.close()


class _Lane:
    def __init__(self, number: int, program: Program, slots: Slots, inbox: Inbox) -> None:
        self.number = number
        self.chunks: asyncio.Queue[Chunk] = asyncio.Queue()
        self.abandoned = False
        self._slots = slots
        self._inbox = inbox
        self.runner = Runner(program, number, slots, StreamOutput(), self._bring)
        self._task: asyncio.Task[None] | None = None
        self._chunk = 0
        self._done = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """Let nothing more in from this lane, and tell its task."""
        self.abandoned = self.runner.leaving = True
        self.runner.close()
        if self._slots.read(self.number).task >= 0:
            self.runner.context().cancel()

    async def _work(self) -> None:
        try:
            await self._serve()
        finally:
            self.runner.close()  # again: its thread may have been started after it was abandoned

    async def _serve(self) -> None:
        while True:
            chunk = await self.chunks.get()
            self._chunk, self._done = chunk.id, 0
            stuck = await self._work_through(chunk)
            if self.abandoned:
                return
            self.runner.rest()
            self._bring(stuck)

    async def _work_through(self, chunk: Chunk) -> Trouble | None:
        for work in self.runner.program.work(chunk):
            if self.abandoned or self._slots.stopped(self.number) >= chunk.id:
                break
            try:
                result = await self.runner.run_async(work, chunk.id)
            except Stuck as stuck:
                return stuck.trouble
            self._done += 1
            self._bring(result)
        return None

    def _bring(self, what: Result | Emission | Trouble | None) -> None:
        if not self.abandoned:
            self._inbox.put(News(self.number, self._chunk, self._done, what))

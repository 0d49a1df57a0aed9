"""Lanes inside the engine's own process, and the inbox that gathers their results."""

from __future__ import annotations

import queue
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from typing import Any, Generic, NamedTuple, TypeVar

from runyard.attempt.context import follow_threads
from runyard.attempt.lane_status import LaneStatus, LaneStatusFile
from runyard.attempt.output import StreamOutput, routed
from runyard.attempt.program import Program, ReadyTask
from runyard.attempt.runner import Runner
from runyard.attempt.system_failure import AttemptAborted, SystemFailure
from runyard.attempt.wire import (
    AttemptResult,
    AttemptResults,
    Chunk,
    Emission,
    Job,
    Loss,
    LossCause,
    Report,
)
from runyard.backends.base import Backend, Capabilities

IN_PROCESS = Capabilities(
    hard_kill=False,
    memory_limit=False,
    own_directory=False,
    descriptor_capture=False,
    survives_crash=False,
)
"""The capabilities of a backend that runs tasks inside the engine's process."""


class LaneMessage(NamedTuple):
    """One message from a lane: the result of an attempt, an emission, or the end of its chunk."""

    lane: int
    chunk: int
    done: int  # tasks of the chunk that have ended
    # None or a system failure: the chunk is finished
    content: AttemptResult | Emission | SystemFailure | None


class Inbox:
    """Collects messages of lanes, and hands them out as reports."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[LaneMessage | Loss | None] = queue.SimpleQueue()
        self.put = self._queue.put

    def wake(self) -> None:
        """Let a waiting `take` return."""
        self._queue.put(None)

    def take(self, timeout: float) -> list[Report | Loss]:
        """Everything that is here, losses last; waits up to `timeout` for the first message."""
        losses: list[Loss] = []
        by_chunk: dict[tuple[int, int], list[LaneMessage]] = {}
        try:
            entry = self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
            while True:
                if isinstance(entry, Loss):
                    losses.append(entry)
                elif entry is not None:
                    by_chunk.setdefault((entry.lane, entry.chunk), []).append(entry)
                entry = self._queue.get_nowait()
        except queue.Empty:
            return [*map(_report, by_chunk.values()), *losses]


def _report(messages: list[LaneMessage]) -> Report:
    # A thread that outlives its task may still emit after the chunk's end.
    own = [each for each in messages if not isinstance(each.content, Emission)]
    lane, chunk, done, last = (own or messages)[-1]
    results, emitted = AttemptResults.none(), list[Emission]()
    for _, _, _, content in messages:
        if isinstance(content, Emission):
            emitted.append(content)
        elif content is not None and not isinstance(content, SystemFailure):
            results.add(content)
    failure = last if isinstance(last, SystemFailure) else None
    finished = last is None or failure is not None
    return Report(
        lane, chunk, done, *results, emitted, results.seconds, finished, system_failure=failure
    )


class InProcessLane:
    """A lane and its runner. Once it is abandoned, nothing that it brings is taken in."""

    def __init__(self, number: int, backend: InProcessBackend[Any]) -> None:
        self.number = number
        self.abandoned = False
        self.lane_status = backend.lane_status
        self.runner = Runner(backend.program, number, self.lane_status, StreamOutput(), self.put)
        self._inbox = backend.inbox
        self._chunk = 0
        self._done = 0

    @contextmanager
    def working(self, chunk: Chunk) -> Iterator[Iterator[ReadyTask]]:
        """The tasks of a chunk, while they may start; at the end of the block, it is finished."""
        self._chunk, self._done = chunk.id, 0
        failure: SystemFailure | None = None
        try:
            yield takewhile(lambda _: self._may_start(chunk), self.runner.program.tasks(chunk))
        except AttemptAborted as aborted:
            failure = aborted.failure
        if not self.abandoned:
            self.rest()
            self.put(failure)

    def _may_start(self, chunk: Chunk) -> bool:
        return not self.abandoned and self.lane_status.stopped(self.number) < chunk.id

    def rest(self) -> None:
        """A chunk has ended."""
        self.runner.rest()

    def put_result(self, result: AttemptResult) -> None:
        """An attempt has ended."""
        self._done += 1
        self.put(result)

    def put(self, content: AttemptResult | Emission | SystemFailure | None) -> None:
        """Send a message to the engine."""
        if not self.abandoned:
            self._inbox.put(LaneMessage(self.number, self._chunk, self._done, content))

    def abandon(self) -> None:
        """Take in nothing more from this lane, and call its task's `on_cancel` callbacks."""
        self.abandoned = True
        if self.lane_status.read(self.number).task >= 0:
            self.runner.context().cancel()

    def cancel(self) -> None:
        """Interrupt the task of an abandoned lane, where that is possible."""


L = TypeVar("L", bound=InProcessLane)


class InProcessBackend(Backend, Generic[L]):
    """A backend whose lanes run in the engine's own process."""

    capabilities = IN_PROCESS

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self.inbox = Inbox()
        self._stack = ExitStack()
        self._lanes: list[L] = []

    @abstractmethod
    def _start_lane(self, number: int) -> L:
        """A new lane that waits for chunks."""

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        self.program = Program(job)
        self.lane_status = lane_status
        self._stack.enter_context(routed())
        follow_threads()
        self._lanes = [self._start_lane(number) for number in range(self.lanes)]

    def poll(self, timeout: float) -> list[Report | Loss]:
        return self.inbox.take(timeout)

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        if self.lane_status.read(lane) != status:
            return
        old = self._lanes[lane]
        old.abandon()
        printed = old.runner.printed(status.task, status.attempt)
        old.cancel()
        self.inbox.put(Loss.of(lane, status, cause, reason, printed=printed))
        self.lane_status.clear(lane)
        self._lanes[lane] = self._start_lane(lane)

    def wake(self) -> None:
        self.inbox.wake()

    def close(self) -> None:
        self._lanes = []
        self._stack.close()

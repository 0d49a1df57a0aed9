"""What lanes hold: chunks under way, and how the tasks that run are doing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from itertools import count
from time import perf_counter

from runyard import clock
from runyard.attempt.lane_status import IDLE, LaneStatus
from runyard.attempt.wire import Chunk, Item, LossCause
from runyard.schedule import policy
from runyard.schedule.ready_queue import HeldClaim, ReadyQueue
from runyard.schedule.run import Run
from runyard.spec.outcome import OutcomeRow

log = logging.getLogger(__name__)


class SentChunk:
    """A chunk that was sent to a lane, and how far the lane has got with it."""

    __slots__ = ("chunk", "claim", "done", "end", "lane", "sent")

    def __init__(self, chunk: Chunk, claim: HeldClaim, lane: int) -> None:
        self.chunk = chunk
        self.claim = claim
        self.lane = lane
        self.done = 0  # tasks that have ended
        self.end = chunk.size  # tasks from this position on were taken back
        self.sent = perf_counter()

    @property
    def left(self) -> int:
        """How many of its tasks have not ended."""
        return self.end - self.done

    @property
    def last_task(self) -> int:
        """The last task that the lane is still to run."""
        return self.chunk.tasks()[self.end - 1]

    def rest(self, start: int | None = None) -> list[Item]:
        """Its tasks from a position on (default: those that have not ended)."""
        begin = self.done if start is None else start
        items = (self.chunk.item(at) for at in range(begin, self.end))
        return [self.claim.item(item.task, item.attempt) for item in items]

    def position(self, task: int | None) -> int | None:
        """The position of a task that has not ended."""
        tasks = self.chunk.tasks()
        if task is None or task not in tasks:
            return None
        found = tasks.index(task)
        return found if self.done <= found < self.end else None

    def timeout(self, task: int, default: float | None) -> float | None:
        """The time limit of one of its tasks."""
        return self.claim.timeouts.get(task, default)


class InFlight:
    """The chunks that each lane holds; tasks that can't go on there return to the queue."""

    def __init__(self, run: Run, ready: ReadyQueue) -> None:
        self._run = run
        self._ready = ready
        self.last: SentChunk | None = None  # the chunk that was sent last
        self._by_id: dict[int, SentChunk] = {}
        self._lanes: list[deque[SentChunk]] = []
        self._slack: set[int] = set()  # lanes with room for another chunk
        self._unsettled: set[int] = set()  # lanes that have not yet answered a request to stop
        self._cancelled: set[int] = set()  # tasks to be cancelled
        self._suspects: set[int] = set()  # tasks that may have spoilt their worker for others
        self._ids = count(1)
        self._grow()

    def __bool__(self) -> bool:
        return bool(self._by_id)

    @property
    def busy(self) -> int:
        """How many lanes have something to do."""
        return sum(1 for lane in self._lanes if lane)

    @property
    def tasks(self) -> int:
        """How many tasks are under way."""
        return sum(sent.left for sent in self._by_id.values())

    def get(self, chunk: int) -> SentChunk | None:
        """A chunk that has not ended, by its number."""
        return self._by_id.get(chunk)

    def of(self, lane: int) -> list[SentChunk]:
        """The chunks that a lane holds, oldest first."""
        return list(self._lanes[lane])

    def with_room(self, chunks: int) -> list[int]:
        """Lanes that hold no more than this many chunks."""
        self._grow()
        return sorted(n for n in self._slack if len(self._lanes[n]) <= chunks)

    # Chunks come and go

    def send(self, lane: int, chunk: Chunk, claim: HeldClaim) -> None:
        """Send a chunk to a lane."""
        careful = any(item.task in self._suspects for item in chunk.items or ())
        sent = SentChunk(chunk._replace(id=next(self._ids), careful=careful), claim, lane)
        self._by_id[sent.chunk.id] = self.last = sent
        self._lanes[lane].append(sent)
        if len(self._lanes[lane]) >= self._run.backend.depth:
            self._slack.discard(lane)
        log.debug("%s: lane %d gets %s", self._run.name, lane, sent.chunk)
        self._run.backend.send(lane, sent.chunk)

    def finish(self, sent: SentChunk) -> None:
        """The lane is done with a chunk."""
        del self._by_id[sent.chunk.id]
        self._lanes[sent.lane].remove(sent)
        self._slack.add(sent.lane)

    def return_rest(self, sent: SentChunk, start: int) -> None:
        """Return a chunk's tasks from a position on to the queue."""
        for item in sent.rest(start):
            self._ready.add(sent.claim, item)
        sent.end = min(sent.end, max(start, sent.done))

    def suspect(self, sent: SentChunk) -> None:
        """Have these tasks checked one by one when they run again: their worker died."""
        self._suspects.update(item.task for item in sent.rest())

    # What was sent can be taken back, until it starts

    def take_back(self, lane: int) -> None:
        """Return what the lane has not started to the queue.

        Tasks before the running one have ended; their report is on its way. A lane between two
        tasks is left to its report. A task that starts at this very moment runs twice and counts
        once.
        """
        chunks = self._lanes[lane]
        self._run.lanes.stop(lane, chunks[-1].chunk.id)
        if not self._run.backend.is_settled(lane):
            self._unsettled.add(lane)
            return
        running = self._run.lanes.read(lane).task
        is_behind = False
        for sent in chunks:
            position = sent.position(running)
            if is_behind or position is not None:
                self.return_rest(sent, sent.done if position is None else position + 1)
                is_behind = True

    def retry_take_back(self) -> bool:
        """Take back from lanes that had not yet seen a request to stop; whether there were any."""
        waiting, self._unsettled = self._unsettled, set()
        for lane in waiting:
            if self._lanes[lane]:
                self.take_back(lane)
                self._cancel_in(lane)
        return bool(waiting)

    def hold(self) -> None:
        """Let no lane start another task."""
        for number, lane in enumerate(self._lanes):
            if lane:
                self._run.lanes.stop(number, lane[-1].chunk.id)

    def drop(self, claim: HeldClaim) -> None:
        """Start nothing more of a claim that another engine has taken over."""
        for number, lane in enumerate(self._lanes):
            theirs = [sent.chunk.id for sent in lane if sent.claim is claim]
            if theirs:
                self._run.lanes.stop(number, theirs[-1])

    # What runs can be ended

    def end_running(self, cause: LossCause, reason: str) -> None:
        """End every task that runs."""
        for number in range(len(self._lanes)):
            status = self._run.lanes.read(number)
            if status.task != IDLE:
                self._run.backend.end(number, status, cause, reason)

    def cancel(self, tasks: Collection[int]) -> None:
        """End those of the tasks that run, and take back those that wait in a lane."""
        self._cancelled |= set(tasks)
        for number in range(len(self._lanes)):
            self._cancel_in(number)

    def _cancel_in(self, number: int) -> None:
        tasks, lane = self._cancelled, self._lanes[number]
        status = self._run.lanes.read(number)
        if status.task in tasks:
            self._run.backend.end(number, status, LossCause.CANCELLED, "cancelled on request")
        elif any(item.task in tasks for sent in lane for item in sent.rest()):
            self.take_back(number)

    def watch(self) -> None:
        """End tasks over their limits; take back what waits behind a long task for idle lanes."""
        options, ready = self._run.options, self._ready
        free = self._free() if self._run.strict_order or not ready.size else 0
        is_limited = options.timeout is not None or options.memory is not None
        for number, lane in enumerate(self._lanes):
            has_own_limits = any(sent.claim.timeouts for sent in lane)
            if not lane or not (free or is_limited or has_own_limits):
                continue
            status = self._run.lanes.read(number)
            if status.task == IDLE:
                continue
            self._enforce(number, status)
            waiting = sum(sent.left for sent in lane) - 1
            if policy.is_stalled(status.seconds, waiting, free):
                self.take_back(number)

    def excuses(self, sent: SentChunk, late: OutcomeRow) -> bool:
        """Whether a late task was in time after all, not counting pauses of the engine."""
        row = OutcomeRow._make(late)
        limit = sent.timeout(row.task, self._run.options.timeout)
        paused = clock.pauses.within(row.seconds, clock.now() - (row.started + row.seconds))
        return limit is None or not policy.is_over(limit, row.seconds, paused)

    def _enforce(self, lane: int, status: LaneStatus) -> None:
        options, backend, seconds = self._run.options, self._run.backend, status.seconds
        sent = self._by_id.get(status.chunk)
        limit = options.timeout if sent is None else sent.timeout(status.task, options.timeout)
        if limit is not None and policy.is_over(limit, seconds, clock.pauses.within(seconds)):
            reason = f"ran longer than its limit of {limit:g} s"
            backend.end(lane, status, LossCause.TIMEOUT, reason)
            return
        if options.memory is not None:
            used = backend.memory(lane)
            if used is not None and used > options.memory:
                reason = f"used {used:,} bytes, its limit is {options.memory:,}"
                backend.end(lane, status, LossCause.OUT_OF_MEMORY, reason)

    def _grow(self) -> None:
        """Make room for lanes that the backend has added."""
        for number in range(len(self._lanes), self._run.backend.extent):
            self._lanes.append(deque())
            self._slack.add(number)

    def _free(self) -> int:
        """How many lanes have nothing to do."""
        lanes, is_up = enumerate(self._lanes), self._run.backend.is_up
        return sum(1 for number, lane in lanes if not lane and is_up(number))

"""What is under way: chunks on their way through lanes, and how the tasks that run are doing."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import count
from time import perf_counter

from runyard import clock
from runyard.attempt.lane_status import IDLE, LaneStatus, LaneStatusFile
from runyard.attempt.wire import Chunk, Item
from runyard.backends.base import Backend
from runyard.schedule import policy
from runyard.schedule.agenda import Agenda, Held
from runyard.spec.options import Options
from runyard.spec.outcome import OutcomeRow


class Flight:
    """What was sent to a lane, and how far it has got."""

    __slots__ = ("chunk", "done", "held", "kept", "lane", "sent")

    def __init__(self, chunk: Chunk, held: Held, lane: int) -> None:
        self.chunk = chunk
        self.held = held
        self.lane = lane
        self.done = 0
        self.kept = chunk.size  # tasks from here on were taken back
        self.sent = perf_counter()

    def rest(self, start: int) -> list[Item]:
        """What is left of it from a position on."""
        items = (self.chunk.item(at) for at in range(start, self.kept))
        return [self.held.item(item.task, item.attempt) for item in items]

    def position(self, task: int | None) -> int | None:
        """Where a task that has not ended stands in it."""
        tasks = self.chunk.tasks()
        if task is None or task not in tasks:
            return None
        found = tasks.index(task)
        return found if self.done <= found < self.kept else None


class Flights:
    """The chunks that each lane holds; what can't go on there goes back to the agenda."""

    def __init__(
        self,
        backend: Backend,
        lane_status: LaneStatusFile,
        agenda: Agenda,
        options: Options,
        *,
        in_order: bool = False,
    ) -> None:
        self._backend = backend
        self._slots = lane_status
        self._agenda = agenda
        self._options = options
        self._in_order = in_order  # what waits in a lane holds up all others
        self.last: Flight | None = None  # what was sent last
        self._by_id: dict[int, Flight] = {}
        self._lanes: list[deque[Flight]] = []
        self._slack: set[int] = set()  # lanes that have room
        self._unsettled: set[int] = set()  # lanes that were told to stop and have not answered
        self._cancelled: set[int] = set()  # tasks that somebody cancelled
        self._suspects: set[int] = set()  # one of them may have spoilt a worker for the others
        self._ids = count(1)
        self.limits: dict[int, float] = {}  # of tasks with a time limit of their own
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
        return sum(flight.kept - flight.done for flight in self._by_id.values())

    def get(self, chunk: int) -> Flight | None:
        """The flight of a chunk, if it has not ended."""
        return self._by_id.get(chunk)

    def of(self, lane: int) -> list[Flight]:
        """What a lane holds, the oldest first."""
        return list(self._lanes[lane])

    def with_room(self, level: int) -> list[int]:
        """Lanes that hold no more than so many chunks."""
        self._grow()
        return sorted(n for n in self._slack if len(self._lanes[n]) <= level)

    def fly(self, lane: int, low: int, high: int, items: list[Item] | None, held: Held) -> None:
        """Send a chunk to a lane."""
        careful = any(item.task in self._suspects for item in items or ())
        flight = Flight(Chunk(next(self._ids), low, high, items, careful), held, lane)
        self._by_id[flight.chunk.id] = self.last = flight
        self._lanes[lane].append(flight)
        if len(self._lanes[lane]) >= self._backend.depth:
            self._slack.discard(lane)
        self._backend.send(lane, flight.chunk)

    def land(self, flight: Flight) -> None:
        """The lane has no more to do with it."""
        del self._by_id[flight.chunk.id]
        self._lanes[flight.lane].remove(flight)
        self._slack.add(flight.lane)

    def put_back(self, flight: Flight, start: int) -> None:
        """What comes from this position on goes back to the agenda."""
        for item in flight.rest(start):
            self._agenda.add_item(flight.held, item)
        flight.kept = min(flight.kept, max(start, flight.done))

    def suspect(self, flight: Flight) -> None:
        """Its worker died: look after each of these tasks when they run again."""
        self._suspects.update(item.task for item in flight.rest(flight.done))

    def take_back(self, lane: int) -> None:
        """Put what the lane has not started back on the agenda.

        What stands before the running task has run: its report is on the way. Where the lane is
        between two tasks everything is left to that report. Should it start one of them this very
        moment, that task runs twice and counts once.
        """
        flights = self._lanes[lane]
        self._slots.stop(lane, flights[-1].chunk.id)
        if not self._backend.is_settled(lane):
            self._unsettled.add(lane)
            return
        running = self._slots.read(lane).task
        behind = False
        for flight in flights:
            position = flight.position(running)
            if behind or position is not None:
                self.put_back(flight, flight.done if position is None else position + 1)
                behind = True

    def drop(self, held: Held) -> None:
        """Another engine has this claim: start nothing more of it."""
        for number, lane in enumerate(self._lanes):
            theirs = [flight.chunk.id for flight in lane if flight.held is held]
            if theirs:
                self._slots.stop(number, theirs[-1])

    def watch(self) -> None:
        """End what is past its limits; where lanes idle, take from behind what takes long."""
        limited = self._options.timeout or self._options.memory or self.limits
        free = self._free() if self._in_order or not self._agenda.ready else 0
        if not limited and not free:
            return
        for number, lane in enumerate(self._lanes):
            if not lane:
                continue
            note = self._slots.read(number)
            if note.task == IDLE:
                continue
            self._enforce(number, note)
            waiting = sum(f.kept - f.done for f in lane) - 1
            if policy.is_stalled(note.seconds, waiting, free):
                self.take_back(number)

    def hold(self) -> None:
        """Let no lane start anything more."""
        for number, lane in enumerate(self._lanes):
            if lane:
                self._slots.stop(number, lane[-1].chunk.id)

    def end_running(self, error: str, reason: str) -> None:
        """End whatever runs."""
        for number in range(len(self._lanes)):
            note = self._slots.read(number)
            if note.task != IDLE:
                self._backend.end(number, note, error, reason)

    def cancel(self, tasks: Collection[int]) -> None:
        """End those of the tasks that run, and take back those that wait in a lane."""
        self._cancelled |= set(tasks)
        for number in range(len(self._lanes)):
            self._cancel_in(number)

    def _cancel_in(self, number: int) -> None:
        tasks, lane = self._cancelled, self._lanes[number]
        note = self._slots.read(number)
        if note.task in tasks:
            self._backend.end(number, note, "TaskCancelled", "somebody cancelled it")
        elif any(item.task in tasks for flight in lane for item in flight.rest(flight.done)):
            self.take_back(number)

    def ask_again(self) -> bool:
        """Take back from lanes that had not yet seen that they are to stop; if there are any."""
        waiting, self._unsettled = self._unsettled, set()
        for number in waiting:
            if self._lanes[number]:
                self.take_back(number)
                self._cancel_in(number)
        return bool(waiting)

    def excuses(self, late: OutcomeRow) -> bool:
        """Whether a task that took longer than its limit has not, leaving out the pauses."""
        row = OutcomeRow._make(late)
        ago = clock.now() - (row.started + row.seconds)
        limit = self._limit(row.task)
        paused = clock.pauses.within(row.seconds, ago)
        return limit is None or not policy.is_over(limit, row.seconds, paused)

    def _limit(self, task: int) -> float | None:
        return self.limits.get(task, self._options.timeout)

    def _grow(self) -> None:
        """Know the lanes that there are."""
        for number in range(len(self._lanes), self._backend.extent):
            self._lanes.append(deque())
            self._slack.add(number)

    def _free(self) -> int:
        """How many lanes have nothing to do."""
        lanes = enumerate(self._lanes)
        return sum(1 for number, lane in lanes if not lane and self._backend.is_up(number))

    def _enforce(self, lane: int, note: LaneStatus) -> None:
        limit, seconds = self._limit(note.task), note.seconds
        if limit is not None and policy.is_over(limit, seconds, clock.pauses.within(seconds)):
            reason = f"ran longer than its limit of {limit:g} s"
            self._backend.end(lane, note, "TaskTimeout", reason)
            return
        most = self._options.memory
        if most is not None:
            used = self._backend.memory(lane)
            if used is not None and used > most:
                reason = f"used {used:,} bytes, its limit is {most:,}"
                self._backend.end(lane, note, "TaskOutOfMemory", reason)

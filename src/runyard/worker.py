"""A worker: runs the most urgent batch of a store that others fill, again and again.

worker ── next_batch ──▶ engine (until nothing is left to take, or something more urgent waits)
   ▲                         │
   └──── a change, or time ◀─┘
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from runyard import clock
from runyard.errors import MetricMissing, NotFound, StoreAway, StoreConflict, UsageError
from runyard.events import BatchFinished, BatchStopped, Event
from runyard.execution import RunSettings
from runyard.schedule.ending import End
from runyard.schedule.sharing import by_value, next_batch, unfinished
from runyard.store.base import Snapshot, Transaction
from runyard.store.rows import BatchRow
from runyard.yard import Yard

RESTING = {end.value for end in (End.BUDGET, End.METRIC, End.FAIL_FAST, End.DEADLINE)}
"""Ends of a batch that a worker leaves alone until something of it changes on record."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds until a batch is tried again whose free tasks were still locked."""


class Turn(NamedTuple):
    """What a worker did with one batch."""

    batch: str
    tasks: int  # that it recorded
    end: str


class Backoff(NamedTuple):
    """A batch to leave alone until its record changes, or for a pause."""

    row: BatchRow  # as it was recorded
    pause: float = math.inf  # seconds; finite where free tasks are still locked
    until: float = math.inf

    def holds(self, view: Snapshot) -> bool:
        """Whether the batch is still to be left alone."""
        return clock.monotonic() < self.until and view.batch_by_id(self.row.id) == self.row


class YardWorker:
    """Runs the batches of one yard until all of them are done, or forever."""

    def __init__(
        self,
        yard: Yard,
        settings: RunSettings = RunSettings(),  # noqa: B008
        *,
        forever: bool = False,
        on_turn: Callable[[Turn], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._yard = yard
        self._settings = settings
        self._forever = forever
        self._on_turn = on_turn
        self._say = say  # tells the user something between two turns
        self._backoffs: dict[int, Backoff] = {}
        self._foreign: set[int] = set()  # batches that this worker can't run
        self._known: dict[int, int] = {}  # those it can, and their number of tasks when checked
        self._changed = threading.Event()

    def run(self) -> list[Turn]:
        """Work until done or asked to stop; returns what was done, in order."""
        store = self._yard.store
        number = store.sign_on(self._settings.backend_name, 0, lambda _, engine: engine)
        unlisten = store.listen(self._changed.set)
        turns: list[Turn] = []
        reached = clock.monotonic()
        try:
            going = True
            while going:
                try:
                    going = self._go_on(number, turns)
                    reached = clock.monotonic()
                except (StoreAway, StoreConflict) as error:  # between two turns
                    if not self._forever and clock.monotonic() - reached > StoreAway.patience:
                        raise
                    self._say(error.message)
        except BaseException:
            store.hurry(StoreAway.last_seconds)
            raise
        finally:
            unlisten()
            self._sign_off(number)
            store.relax()
        return turns

    def _go_on(self, number: int, turns: list[Turn]) -> bool:
        """Take the next turn, or wait for one; returns whether there may be more."""
        with self._yard.store.snapshot() as view:
            if any(engine.id == number and engine.stop for engine in view.engines()):
                return False
        row = self._next()
        if row is not None:
            turns.append(self._serve(row))
            return turns[-1].end != End.STOPPED.value
        if not self._forever and not self._left_to_others():
            return False
        self._changed.wait(self._yard.store.look_seconds)
        self._changed.clear()
        return True

    def _sign_off(self, number: int) -> None:
        try:
            self._yard.store.sign_off(number)
        except StoreAway as error:  # others see it end when its lease does
            self._say(error.message)

    def _next(self) -> BatchRow | None:
        with self._yard.store.snapshot() as view:
            while True:
                without = self._left_alone(view)
                row = next_batch(view, self._yard.store.alive, without=without)
                if row is None or self._known.get(row.id) == row.total:
                    return row
                if by_value(view, row) is None:
                    self._known[row.id] = row.total
                    return row
                self._foreign.add(row.id)
                self._say(
                    f"skipping {row.name}: its functions were sent by value; run its script instead"
                )

    def _left_alone(self, view: Snapshot, *, locked: bool = True) -> set[int]:
        """Batches that are foreign or rest; `locked` includes those whose tasks are locked."""
        return self._foreign | {
            number
            for number, backoff in self._backoffs.items()
            if (locked or backoff.pause == math.inf) and backoff.holds(view)
        }

    def _left_to_others(self) -> bool:
        """Whether others hold what is left, which this worker takes over if they die."""
        with self._yard.store.snapshot() as view:
            return bool(unfinished(view, self._left_alone(view, locked=False)))

    def _serve(self, row: BatchRow) -> Turn:
        """Run a batch for a turn, and note whether it is to be left alone from now on."""
        recorded: list[int] = []
        try:
            end = self._take_part(row, recorded)
        except NotFound:  # it was cleared
            return Turn(row.name, 0, "cleared")
        with self._yard.store.snapshot() as view:
            after = view.batch_by_id(row.id)
        turn = Turn(row.name, sum(recorded), end)
        if after is not None and end == End.YIELDED.value and not turn.tasks:
            self._pause(after)
            return turn
        self._backoffs.pop(row.id, None)
        if after is not None and end in RESTING:
            self._backoffs[row.id] = Backoff(after)
        self._on_turn(turn)
        return turn

    def _take_part(self, row: BatchRow, recorded: list[int]) -> str:
        """Run a batch until the turn ends; returns why it ended."""
        store = self._yard.store

        def preempted(tx: Transaction) -> bool:
            served = tx.batch_by_id(row.id) or row
            without = self._left_alone(tx)
            return next_batch(tx, store.alive, above=served.priority, without=without) is not None

        def hear(event: Event) -> None:
            if isinstance(event, BatchFinished | BatchStopped):
                recorded.append(event.recorded)
            if self._settings.on_event is not None:
                self._settings.on_event(event)

        try:
            settings = replace(self._settings, on_event=hear)
            return self._yard.take_part(row.name, preempted, settings).end
        except StoreAway as error:
            self._say(f"{row.name}: {error.message}")
        except MetricMissing as error:
            self._say(f"pausing {row.name}: {error}")
            return End.METRIC.value
        except UsageError as error:
            self._foreign.add(row.id)
            self._say(f"skipping {row.name}: {error}")
        return End.YIELDED.value

    def _pause(self, row: BatchRow) -> None:
        """Try the batch again after a pause, twice as long each time; say so once."""
        before = self._backoffs.get(row.id, Backoff(row)).pause
        pause = FIRST_PAUSE if before == math.inf else min(LONGEST_PAUSE, 2 * before)
        self._backoffs[row.id] = Backoff(row, pause, clock.monotonic() + pause)
        if pause == 2 * FIRST_PAUSE:
            self._say(f"will try {row.name} again later: its free tasks are still locked")

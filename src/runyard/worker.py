"""A worker: runs the most urgent batch of a store that others fill, again and again.

worker ── next_batch ──▶ engine (until nothing is left to take, or something more urgent waits)
   ▲                         │
   └──── a change, or time ◀─┘
"""

from __future__ import annotations

import os
import socket
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
"""Seconds until a batch is tried again of which a turn got nothing, though there was something."""


class Turn(NamedTuple):
    """What a worker did with one batch."""

    batch: str
    tasks: int  # that it recorded
    end: str


class Fruitless(NamedTuple):
    """A batch of which the last turn got nothing: its tasks are free, and still locked."""

    seen: tuple[int, int, int]  # how it stood then
    pause: float
    until: float

    @classmethod
    def after(cls, row: BatchRow, before: Fruitless | None) -> Fruitless:
        """The first pause, or twice the one before."""
        pause = FIRST_PAUSE if before is None else min(LONGEST_PAUSE, 2 * before.pause)
        return cls(_standing(row), pause, clock.monotonic() + pause)

    def rests(self, row: BatchRow) -> bool:
        """Whether it is to be left alone for now."""
        return clock.monotonic() < self.until and self.seen == _standing(row)


def _standing(row: BatchRow) -> tuple[int, int, int]:
    return row.total, row.done, row.frontier


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
        self._say = say  # what a person should know, between two turns
        self._resting: dict[int, BatchRow] = {}  # batches that ended early here, as they were then
        self._fruitless: dict[int, Fruitless] = {}
        self._foreign: set[int] = set()  # batches that this worker can't run
        self._known: dict[int, int] = {}  # those it can, and how many tasks that was said of
        self._changed = threading.Event()

    def run(self) -> list[Turn]:
        """Work until done or asked to stop; returns what was done, in order."""
        store = self._yard.store
        number = store.write(self._sign_on)
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
        """Take the next turn, or wait for one; whether there may be more."""
        if self._is_told_to_stop(number):
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

    def _sign_on(self, tx: Transaction) -> int:
        number = tx.sign_on(socket.gethostname(), os.getpid(), self._settings.backend_name, 0)
        self._yard.store.acquire_liveness(number)
        return number

    def _sign_off(self, number: int) -> None:
        try:
            self._yard.store.write(lambda tx: tx.sign_off(number))
        except StoreAway as error:  # others see it end when its lease does
            self._say(error.message)
        finally:
            self._yard.store.release_liveness(number)

    def _is_told_to_stop(self, number: int) -> bool:
        with self._yard.store.snapshot() as view:
            return any(row.id == number and row.stop for row in view.engines())

    def _next(self) -> BatchRow | None:
        with self._yard.store.snapshot() as view:
            while True:
                without = self._without(view) | self._locked(view)
                row = next_batch(view, self._yard.store.alive, without=without)
                if row is None or self._known.get(row.id) == row.total:
                    return row
                if by_value(view, row) is None:
                    self._known[row.id] = row.total
                    return row
                self._foreign.add(row.id)
                self._say(f"{row.name} is left to its script: its functions travel by value")

    def _without(self, view: Snapshot) -> set[int]:
        """Batches to leave alone: a change on record wakes those that rest."""
        for number, row in list(self._resting.items()):
            if view.batch_by_id(number) != row:
                del self._resting[number]
        return self._foreign | self._resting.keys()

    def _locked(self, view: Snapshot) -> set[int]:
        """Batches to leave alone for a moment: what is free of them can't be had yet."""
        found = ((number, view.batch_by_id(number)) for number in self._fruitless)
        return {n for n, row in found if row is not None and self._fruitless[n].rests(row)}

    def _left_to_others(self) -> bool:
        """Whether others hold what is left: should they die, it is ours to do."""
        with self._yard.store.snapshot() as view:
            return bool(unfinished(view, self._without(view)))

    def _hear(self, ended: list[BatchFinished | BatchStopped]) -> Callable[[Event], None]:
        def hear(event: Event) -> None:
            if isinstance(event, BatchFinished | BatchStopped):
                ended.append(event)
            if self._settings.on_event is not None:
                self._settings.on_event(event)

        return hear

    def _serve(self, row: BatchRow) -> Turn:
        store = self._yard.store

        def preempted(tx: Transaction) -> bool:
            served = tx.batch_by_id(row.id) or row
            without = self._without(tx) | self._locked(tx)
            return next_batch(tx, store.alive, above=served.priority, without=without) is not None

        ended: list[BatchFinished | BatchStopped] = []
        end = End.YIELDED.value
        try:
            settings = replace(self._settings, on_event=self._hear(ended))
            result = self._yard.take_part(row.name, preempted, settings)
            end = result.end
        except StoreAway as error:
            self._say(f"{row.name}: {error.message}")
        except NotFound:  # it was cleared
            return Turn(row.name, 0, "cleared")
        except MetricMissing as error:
            end = End.METRIC.value
            self._say(f"{row.name} rests: {error}")
        except UsageError as error:
            self._foreign.add(row.id)
            self._say(f"{row.name} is left alone: {error}")
        with store.snapshot() as view:
            after = view.batch_by_id(row.id)
        if after is not None and end in RESTING:
            self._resting[row.id] = after
        turn = Turn(row.name, sum(event.recorded for event in ended), end)
        if after is not None and end == End.YIELDED.value and not turn.tasks:
            self._rest_briefly(after)
            return turn
        self._fruitless.pop(row.id, None)
        self._on_turn(turn)
        return turn

    def _rest_briefly(self, row: BatchRow) -> None:
        """Say once that a batch's free tasks can't be had, and try again after growing pauses."""
        before = self._fruitless.get(row.id)
        self._fruitless[row.id] = rest = Fruitless.after(row, before)
        if rest.pause == 2 * FIRST_PAUSE:
            self._say(f"{row.name} is tried again later: its free tasks are still locked")

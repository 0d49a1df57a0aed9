"""Tasks that the engine's own process hands in while it runs; the engine stays until this closes.

    caller ── add ──▶ intake ──▶ loop ──▶ lane                     at once
                         └─────▶ recorder ──▶ store                with the next commit
    caller ◀── ended ── recorder: an outcome, before it is written

A task may bring a call that travels beside the record: the store gets the task's name and content,
never the call. Tasks that other processes add to the store are found at the usual look interval,
or at once after `nudge`.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from runyard.attempt.wire import Failure
from runyard.errors import StoreError
from runyard.schedule.agenda import Held
from runyard.spec.batch import ListedTask, encode_listed
from runyard.spec.outcome import OutcomeRow
from runyard.store.base import Transaction
from runyard.store.rows import Claim

Ended = Callable[[OutcomeRow, bytes | None], None]


class Submitted(NamedTuple):
    """One task that was handed in."""

    task: int
    listed: ListedTask
    content: bytes
    call: bytes | None  # what it calls, where that travels beside the record
    known: bool  # the store has it already
    again: bool  # and an outcome of it, which is to be taken away


class Submissions:
    """The engine stays until this is closed. Safe from any thread.

    `first` is the number of the next new task. With `only`, the engine takes nothing from the store
    that was not handed in; without `keep_values`, what tasks return is not recorded. `may_start` is
    asked before a task starts, and `ended` told of each outcome with the pickled error it raised.
    """

    def __init__(
        self,
        first: int = 0,
        *,
        only: bool = False,
        keep_values: bool = True,
        may_start: Callable[[int], bool] = lambda _: True,
        ended: Ended | None = None,
    ) -> None:
        self.only = only
        self.keep_values = keep_values
        self.may_start = may_start
        self._ended = ended
        self._lock = threading.Lock()
        self._next = first
        self._handed: list[Submitted] = []  # for the loop
        self._unwritten: list[Submitted] = []  # for the recorder
        self._raised: dict[int, bytes | None] = {}
        self._nudged = False
        self._wake: Callable[[], None] = lambda: None
        self._batch = 0
        self.held = Held(Claim(0, 0, secrets.token_hex(8), [], {}))
        self.closed = False
        self.aborted = False

    # The caller's side

    def add(self, task: ListedTask, call: bytes | None = None) -> int:
        """Hand a new task in; its number."""
        content = encode_listed(task)
        with self._lock:  # numbers are written in the order in which they were given
            number = self._next
            self._next += 1
            idle = self._put(Submitted(number, task, content, call, known=False, again=False))
        if idle:
            self._wake()
        return number

    def add_again(self, number: int, task: ListedTask, call: bytes | None, *, ended: bool) -> None:
        """Hand in a task that the store has: left without an outcome, or with one to replace."""
        handed = Submitted(number, task, encode_listed(task), call, known=True, again=ended)
        with self._lock:
            idle = self._put(handed)
        if idle:
            self._wake()

    def nudge(self) -> None:
        """Something was added to the store: look now."""
        self._nudged = True
        self._wake()

    def close(self, *, abort: bool = False) -> None:
        """Nothing more comes: the engine ends after what it has, or with `abort` at once."""
        self.aborted |= abort
        self.closed = True
        self._wake()

    def _put(self, handed: Submitted) -> bool:
        """Line it up; whether the loop has to be told."""
        idle = not self._handed
        self._handed.append(handed)
        self._unwritten.append(handed)
        return idle

    # The engine's side

    def open(self, batch: int, wake: Callable[[], None]) -> None:
        """An engine takes over: `wake` lets its loop look here."""
        self._batch = batch
        self.held.claim = self.held.claim._replace(batch=batch)
        self._wake = wake

    def take(self) -> list[Submitted]:
        """What was handed in since the last time, entered in the claim of all of them."""
        with self._lock:
            handed, self._handed = self._handed, []
        for each in handed:
            self.held.enter(each.task, each.listed, each.content, each.call)
        return handed

    def was_nudged(self) -> bool:
        """Whether somebody asks for a look at the store."""
        nudged, self._nudged = self._nudged, False
        return nudged

    @property
    def is_done(self) -> bool:
        """Whether nothing more comes and everything handed in has its outcome."""
        return self.closed and not self._handed and self.held.left <= 0

    def failed(self, failure: Failure) -> None:
        """An attempt raised: keep the error, in case it is the last one."""
        if self._ended is not None:
            self._raised[failure.row.task] = failure.raised

    def ended(self, rows: Sequence[OutcomeRow]) -> Sequence[OutcomeRow]:
        """Tell the caller of these outcomes; what of them is to be recorded."""
        if self._ended is None and not self.held.claim.tasks:  # nobody here waits for them
            return rows
        found = [OutcomeRow._make(row) for row in rows]
        for row in found:
            self.held.forget(row.task)
            raised = self._raised.pop(row.task, None)
            if self._ended is not None:
                self._ended(row, raised)
        if self.keep_values:
            return rows
        return [OutcomeRow.with_checksum(self._batch, *row[:3], None, *row[4:8]) for row in found]

    def unwritten(self) -> list[Submitted]:
        """What the store is to be told."""
        with self._lock:
            handed, self._unwritten = self._unwritten, []
        return handed

    def put_back(self, handed: list[Submitted]) -> None:
        """Writing failed: the store is to be told again."""
        with self._lock:
            self._unwritten[:0] = handed

    def write(self, tx: Transaction, engine: int, handed: Sequence[Submitted]) -> None:
        """Put tasks on record as claimed by this engine."""
        token = self.held.claim.token
        known = [each.task for each in handed if each.known]
        if known:
            again = [each.task for each in handed if each.again]
            tx.requeue(self._batch, again)
            tx.take(self._batch, engine, token, known)
        row = tx.batch_by_id(self._batch)
        last = 0 if row is None else row.next_task
        fresh = [
            each
            for each in handed
            if not each.known and not (each.task < last and self._is_there(tx, each))
        ]
        if not fresh:
            return
        if row is None or row.next_task != fresh[0].task:
            raise StoreError(
                f"another process added tasks to batch number {self._batch} at the same time",
                hint="let one process at a time use this name",
            )
        added = [(each.listed.name, each.listed.priority, each.content, ()) for each in fresh]
        tx.add_tasks(self._batch, added, engine=engine, token=token)

    def _is_there(self, tx: Transaction, handed: Submitted) -> bool:
        """Whether a commit of which nothing was heard has written this task all the same."""
        row = tx.task(self._batch, handed.task)
        same = row is not None and row.content == handed.content
        return same and tx.holds(self.held.claim, [handed.task])

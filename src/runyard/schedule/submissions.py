"""Tasks that the engine's own process submits while it runs; the engine stays until they close.

    caller ── add ──▶ submissions ──▶ queue ──▶ lane           at once
                           └────────▶ writer ──▶ store         with the next commit
    caller ◀── ended ── writer: an outcome, before it is written

A task may bring a call that travels beside the record: the store gets the task's name and content,
never the call. Tasks that other processes add to the store are found at the usual interval, or at
once after `nudge`.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from runyard.attempt.wire import Failure
from runyard.errors import StoreError
from runyard.schedule.ready_queue import HeldClaim
from runyard.spec.batch import ListedTask, encode_listed
from runyard.spec.outcome import OutcomeRow
from runyard.store.base import Transaction
from runyard.store.rows import Claim

Ended = Callable[[OutcomeRow, bytes | None], None]


class Submitted(NamedTuple):
    """One submitted task."""

    task: int
    listed: ListedTask
    content: bytes
    call: bytes | None  # what it calls, where that travels beside the record
    known: bool  # the store has it already
    again: bool  # and an outcome of it, which is to be taken away


class Submissions:
    """Tasks for an engine that stays until these are closed. Safe from any thread.

    `first` is the number of the next new task. With `only`, the engine takes nothing else from the
    store. Without `keep_values`, what tasks return is not recorded. `may_start` is asked before a
    task starts; `ended` is called with each outcome and the pickled error that the task raised.
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
        self._submitted: list[Submitted] = []  # for the loop
        self._unwritten: list[Submitted] = []  # for the writer
        self._raised: dict[int, bytes | None] = {}
        self._nudged = False
        self._wake: Callable[[], None] = lambda: None
        self._batch = 0
        self.claim = HeldClaim(Claim(0, 0, secrets.token_hex(8), [], {}))
        self.closed = False
        self.aborted = False

    # The caller's side

    def add(self, task: ListedTask, call: bytes | None = None) -> int:
        """Submit a new task; its number."""
        content = encode_listed(task)
        with self._lock:  # numbers are written in the order in which they were given
            number = self._next
            self._next += 1
            idle = self._put(Submitted(number, task, content, call, known=False, again=False))
        if idle:
            self._wake()
        return number

    def add_again(self, number: int, task: ListedTask, call: bytes | None, *, ended: bool) -> None:
        """Submit a task that the store has, without an outcome or with one to replace."""
        submitted = Submitted(number, task, encode_listed(task), call, known=True, again=ended)
        with self._lock:
            idle = self._put(submitted)
        if idle:
            self._wake()

    def nudge(self) -> None:
        """Look now: something was added to the store."""
        self._nudged = True
        self._wake()

    def close(self, *, abort: bool = False) -> None:
        """Nothing more comes: the engine ends after what it has, or with `abort` at once."""
        self.aborted |= abort
        self.closed = True
        self._wake()

    def _put(self, submitted: Submitted) -> bool:
        """Queue it; whether the loop must be woken."""
        idle = not self._submitted
        self._submitted.append(submitted)
        self._unwritten.append(submitted)
        return idle

    # The engine's side

    def open(self, batch: int, wake: Callable[[], None]) -> None:
        """Connect an engine; `wake` lets its loop look here."""
        self._batch = batch
        self.claim.claim = self.claim.claim._replace(batch=batch)
        self._wake = wake

    def take(self) -> list[Submitted]:
        """What was submitted since the last time, added to the claim that holds all of it."""
        with self._lock:
            submitted, self._submitted = self._submitted, []
        for each in submitted:
            self.claim.add(each.task, each.listed, each.content, each.call)
        return submitted

    def was_nudged(self) -> bool:
        """Whether `nudge` was called since the last time."""
        nudged, self._nudged = self._nudged, False
        return nudged

    @property
    def is_done(self) -> bool:
        """Whether these are closed and every task has its outcome."""
        return self.closed and not self._submitted and self.claim.left <= 0

    def failed(self, failure: Failure) -> None:
        """Keep the error that an attempt raised, in case it is the last one."""
        if self._ended is not None:
            self._raised[failure.row.task] = failure.raised

    def ended(self, rows: Sequence[OutcomeRow]) -> Sequence[OutcomeRow]:
        """Pass outcomes to the submitter; returns what is to be recorded."""
        if self._ended is None and not self.claim.claim.tasks:  # no caller waits for them
            return rows
        found = [OutcomeRow._make(row) for row in rows]
        for row in found:
            self.claim.forget(row.task)
            raised = self._raised.pop(row.task, None)
            if self._ended is not None:
                self._ended(row, raised)
        if self.keep_values:
            return rows
        return [OutcomeRow.with_checksum(self._batch, *row[:3], None, *row[4:8]) for row in found]

    def unwritten(self) -> list[Submitted]:
        """What is not yet in the store."""
        with self._lock:
            submitted, self._unwritten = self._unwritten, []
        return submitted

    def put_back(self, submitted: list[Submitted]) -> None:
        """Write these again: the transaction failed."""
        with self._lock:
            self._unwritten[:0] = submitted

    def write(self, tx: Transaction, engine: int, submitted: Sequence[Submitted]) -> None:
        """Record submitted tasks as claimed by this engine."""
        token = self.claim.claim.token
        known = [each.task for each in submitted if each.known]
        if known:
            again = [each.task for each in submitted if each.again]
            tx.requeue(self._batch, again)
            tx.take(self._batch, engine, token, known)
        row = tx.batch_by_id(self._batch)
        last = 0 if row is None else row.next_task
        fresh = [
            each
            for each in submitted
            if not each.known and not (each.task < last and self._is_there(tx, each))
        ]
        if not fresh:
            return
        if row is None or row.next_task != fresh[0].task:
            raise StoreError(
                f"another process added tasks to batch number {self._batch} at the same time",
                hint="use this name from one process at a time",
            )
        added = [(each.listed.name, each.listed.priority, each.content, ()) for each in fresh]
        tx.add_tasks(self._batch, added, engine=engine, token=token)

    def _is_there(self, tx: Transaction, submitted: Submitted) -> bool:
        """Whether a commit that seemed to fail has written this task."""
        row = tx.task(self._batch, submitted.task)
        same = row is not None and row.content == submitted.content
        return same and tx.holds(self.claim.claim, [submitted.task])

"""The one writer: a thread that makes what came in durable, in groups, and fetches what is next.

    loop ── rows, failed attempts, finished claims, wishes ──▶ recorder ── one transaction ──▶ store
    loop ◀── claims, counts, requests ────────────────────────────┘          then the audit log

Everything the store has to do while a batch runs happens here, so the loop never waits for a disk.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from runyard import faults
from runyard.errors import (
    ClaimLost,
    StoreConflict,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreUnready,
)
from runyard.events import AuditLog, Event, to_record
from runyard.schedule.agenda import Held
from runyard.schedule.intake import Handed, Intake
from runyard.schedule.listed import cancelled_row, record_listed
from runyard.spec.outcome import OutcomeRow, Rows
from runyard.store.base import Store, Transaction
from runyard.store.rows import AttemptRow, BatchRow, Claim

if TYPE_CHECKING:
    from runyard.schedule.meter import Meter

COMMIT_SECONDS = 0.1
"""The least time between two commits: what comes in meanwhile is written together."""

COMMIT_ROWS = 4096
"""So many rows are worth a commit of their own, however short ago the last one was."""


class Entry(NamedTuple):
    """Outcomes of one claim."""

    held: Held
    rows: Sequence[OutcomeRow]
    last: bool  # the claim has none left


class Wishes(NamedTuple):
    """What others ask of this engine."""

    control: str | None
    stop: int  # 1: after what runs, 2: at once
    cancel: list[int]  # tasks that an engine holds
    cancelled: list[int]  # tasks that nobody held, and that are cancelled now
    leave: bool  # something more urgent waits elsewhere
    waiting: int | None  # the highest priority among listed tasks that nobody holds


class Claimed(NamedTuple):
    """The answer to a wish for tasks."""

    claim: Claim | None  # None: there was nothing to claim
    attempts: list[AttemptRow]  # that others made of them


class Refused(NamedTuple):
    """Outcomes that came too late: another engine has their tasks."""

    held: Held
    tasks: list[int]


class Recorder:
    """Writes in a thread of its own; see the module's picture."""

    def __init__(
        self,
        store: Store,
        batch: BatchRow,
        engine: int,
        audit: AuditLog,
        task_audit: Callable[[int], AuditLog] | None,
        wake: Callable[[], None],
        meter: Meter | None = None,
        intake: Intake | None = None,
        outranked: Callable[[Transaction], bool] | None = None,
    ) -> None:
        self._store = store
        self._batch = batch.id
        self._listed = batch.plan is None
        self._engine = engine
        self._audit = audit
        self._task_audit = task_audit
        self._wake = wake
        self._meter = meter  # sees outcomes as they come in, before they are written
        self._intake = intake
        self._outranked = outranked  # whether this engine should leave for something else
        self._told: tuple[int, float] | None = None  # what the store knows of this engine's pace
        self._lock = threading.Lock()
        self._work = threading.Event()  # there is something to write
        self._urgent = threading.Event()  # and it can't wait for more
        self._entries: list[Entry] = []
        self._attempts: list[AttemptRow] = []
        self._events: list[Event] = []
        self._wanted = 0
        self._token = secrets.token_hex(8)  # of the next claim
        self._unsure = False  # the last commit failed: it may have gone through all the same
        self._cancel_rest = False
        self._closing = False
        self._looked = 0.0
        self.running = 0  # the loop keeps this up to date; shown by `status`
        self.rate = 0.0
        self.engines = 1  # that run this batch, as of the last look
        self.counts = batch  # as of the last commit
        self.recorded = 0  # outcomes of this engine
        self.backlog = 0  # rows that wait to be written
        self.claims: deque[Claimed] = deque()
        self.refused: deque[Refused] = deque()
        self.wishes: deque[Wishes] = deque()
        self.error: StoreError | None = None
        self.unready: StoreUnready | None = None  # why nothing can be written just now
        self._unready_since = 0.0
        self._listening: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._turn, name="runyard-recorder", daemon=True)

    @property
    def is_through(self) -> bool:
        """Whether everything that came in is written or refused, and the loop knows."""
        return self.backlog == 0 and not self.refused

    @property
    def look_seconds(self) -> float:
        """How often there may be something that nobody tells of."""
        return self._store.look_seconds

    def start(self) -> None:
        """Begin to write."""
        self._listening = self._store.listen(self.look)
        self._thread.start()

    def rows(self, held: Held, rows: Sequence[OutcomeRow]) -> None:
        """Outcomes that belong to a claim."""
        held.left -= len(rows)
        if self._meter is not None:
            self._meter.observe(rows)
        if self._intake is not None:
            rows = self._intake.ended(rows)
        with self._lock:
            self._entries.append(Entry(held, rows, held.left <= 0))
            self.backlog += len(rows)
            if self.backlog >= COMMIT_ROWS:
                self._urgent.set()
        self._work.set()

    def attempt(self, row: AttemptRow) -> None:
        """An attempt that did not end its task."""
        with self._lock:
            self._attempts.append(row)
        self._work.set()

    def event(self, event: Event) -> None:
        """Something for the audit log."""
        with self._lock:
            self._events.append(event)
        self._work.set()

    def want(self, tasks: int) -> None:
        """Ask for so many tasks; the answer comes in `claims`."""
        with self._lock:
            self._wanted = tasks
            if not self._entries:
                self._urgent.set()
        self._work.set()

    def look(self) -> None:
        """Look at once for what others did to the store."""
        self._looked = 0.0
        self._urgent.set()
        self._work.set()

    def cancel_rest(self) -> None:
        """Record every task without an outcome as cancelled."""
        with self._lock:
            self._cancel_rest = True
        self._work.set()

    def hurry(self) -> None:
        """Nothing else is coming: write what waits now."""
        if self.backlog:
            self._urgent.set()
            self._work.set()

    def close(self) -> None:
        """Write what is left, and stop."""
        self._closing = True
        self._urgent.set()
        self._work.set()
        self._thread.join()
        self._listening()

    def _turn(self) -> None:
        committed = 0.0
        while True:
            self._work.wait(self._store.look_seconds)
            self._urgent.wait(max(0.0, committed + COMMIT_SECONDS - time.monotonic()))
            closing = self._closing
            self._urgent.clear()
            self._work.clear()
            try:
                if self._commit():
                    committed = time.monotonic()
            except StoreConflict:
                self._work.set()
                continue
            except StoreUnready as error:
                if self._gave_up(error):
                    return
                continue
            except Exception as error:
                self.error = error if isinstance(error, StoreError) else _broken(error)
                self._wake()
                return
            if closing:
                return

    def _gave_up(self, error: StoreUnready) -> bool:
        """Whether a store that takes nothing has been waited for long enough."""
        now = time.monotonic()
        if self.unready is None:
            self.unready = error
            self._unready_since = now
            self._wake()
        at_its_end = self._closing and isinstance(error, StoreFull)
        if at_its_end or now - self._unready_since > error.patience:
            self.error = error
            self._wake()
            return True
        time.sleep(0.2)
        self._work.set()
        return False

    def _commit(self) -> bool:
        """Write everything that waits, in one transaction; put it back if that fails."""
        with self._lock:
            entries, self._entries = self._entries, []
            attempts, self._attempts = self._attempts, []
            events, self._events = self._events, []
            wanted, self._wanted = self._wanted, 0
            cancel_rest, self._cancel_rest = self._cancel_rest, False
        # After the outcomes: so no outcome is written before its task.
        handed = self._intake.unwritten() if self._intake is not None else []
        look = time.monotonic() - self._looked > self._store.look_seconds
        if not (entries or attempts or events or wanted or cancel_rest or look or handed):
            return False
        try:
            if entries or attempts or wanted or cancel_rest or look or handed:
                claimed, wishes = self._transact(entries, attempts, wanted, cancel_rest, handed)
                self._unsure = False
            else:
                claimed, wishes = None, None
            written = [record for event in events if (record := to_record(event))]
            if written:
                self._audit.append(written)
                self._append_per_task(events)
        except BaseException:
            with self._lock:
                self._entries[:0] = entries
                self._attempts[:0] = attempts
                self._events[:0] = events
                self._wanted = max(self._wanted, wanted)
                self._cancel_rest |= cancel_rest
            if self._intake is not None:
                self._intake.put_back(handed)
            self._unsure = True
            raise
        self.unready = None
        self.backlog -= sum(len(entry.rows) for entry in entries)
        if claimed is not None:
            self.claims.append(claimed)
            self._token = secrets.token_hex(8)
        if wishes is not None:
            self.wishes.append(wishes)
        if wanted or wishes is not None or not self.counts.pending:
            self._wake()
        return bool(entries)

    def _transact(
        self,
        entries: list[Entry],
        attempts: list[AttemptRow],
        wanted: int,
        cancel_rest: bool,
        handed: list[Handed],
    ) -> tuple[Claimed | None, Wishes | None]:
        claimed = None
        with self._store.transaction() as tx:
            if self._intake is not None and handed:
                self._intake.write(tx, self._engine, handed)
            refused = self._write(tx, entries)
            if attempts:
                tx.add_attempts(attempts)
            if cancel_rest:
                tx.record(self._batch, self._cancel_pending(tx), listed=self._listed)
            if wanted:
                claimed = self._claim(tx, wanted)
            wishes = self._look(tx)
            counts = tx.batch_by_id(self._batch)
            if counts is not None and counts.pending < 0:
                raise StoreDamaged(
                    f"the store is damaged: {counts.name} has more outcomes than tasks",
                    hint="run `runyard doctor`",
                )
        faults.point("committed")
        if counts is None:
            raise StoreError("the batch was removed from the store while it ran")
        self.counts = counts
        self.refused.extend(refused)
        brought = sum(len(entry.rows) for entry in entries)
        self.recorded += brought - sum(len(each.tasks) for each in refused)
        return claimed, wishes

    def _claim(self, tx: Transaction, wanted: int) -> Claimed:
        claim = tx.claim(
            self._batch, self._engine, wanted, listed=self._listed, token=self._token,
            again=self._unsure,
        )  # fmt: skip
        attempts = tx.attempts(self._batch) if claim is not None and claim.again else []
        return Claimed(claim, [row for row in attempts if claim is not None and row.task in claim])

    def _write(self, tx: Transaction, entries: list[Entry]) -> list[Refused]:
        """Record what belongs to claims that are still this engine's; the rest is refused."""
        tasks: dict[Held, list[int]] = {}
        for entry in entries:
            tasks.setdefault(entry.held, []).extend(Rows.of(entry.rows).tasks)
        refused = [
            Refused(held, its_tasks)
            for held, its_tasks in tasks.items()
            if not tx.holds(held.claim, its_tasks if self._listed else ())
        ]
        if refused and self._intake is not None:
            raise ClaimLost(
                f"another engine took over tasks of batch number {self._batch}",
                hint="this process was paused for too long; what it brought late is left out",
            )
        lost = {each.held for each in refused}
        self._record(tx, [entry for entry in entries if entry.held not in lost])
        return refused

    def _record(self, tx: Transaction, entries: list[Entry]) -> None:
        rows = Rows(list(chain.from_iterable(Rows.of(entry.rows).flat for entry in entries)))
        if self._intake is not None and self._intake.only:  # none of them comes after another
            tx.record(self._batch, rows, listed=True)
            return
        if self._listed:
            record_listed(tx, self._batch, rows)
            return
        tx.record(self._batch, rows, listed=False)
        for entry in entries:
            if entry.last:
                tx.release(entry.held.claim, finished=True)

    def _cancel_pending(self, tx: Transaction) -> list[OutcomeRow]:
        return [
            cancelled_row(self._batch, number)
            for low, high in tx.pending(self._batch, listed=self._listed)
            for number in range(low, high)
        ]

    def _look(self, tx: Transaction) -> Wishes | None:
        if time.monotonic() - self._looked < self._store.look_seconds:
            return None
        self._looked = time.monotonic()
        pace = self.running, self.rate
        if pace != self._told:  # an engine that waits for work writes nothing
            tx.update_engine(self._engine, running=self.running, rate=self.rate)
            self._told = pace
        batch = tx.batch_by_id(self._batch)
        engines = tx.engines()
        stop = next((row.stop for row in engines if row.id == self._engine), 0)
        others = [row for row in engines if row.batch == self._batch and row.id != self._engine]
        self.engines = 1 + sum(self._store.alive(row.id) for row in others)
        held, cancelled = [], []
        for task in tx.cancel_requests(self._batch):
            if tx.outcome(self._batch, task) is not None:
                tx.clear_cancel(self._batch, task)
            elif self._is_held(tx, task):
                held.append(task)
            else:
                self._cancel_now(tx, task)
                cancelled.append(task)
        leave = self._outranked is not None and self._outranked(tx)
        free = tx.next_free(self._batch) if self._listed else None
        waiting = None if free is None else free.priority
        control = batch.control if batch else None
        return Wishes(control, stop, held, cancelled, leave, waiting)

    def _is_held(self, tx: Transaction, task: int) -> bool:
        if self._listed:
            row = tx.queued(self._batch, task)
            return row is not None and row.engine is not None
        claims = tx.claims(self._batch)
        return any(c.low <= task < c.high and c.engine is not None for c in claims)

    def _cancel_now(self, tx: Transaction, task: int) -> None:
        rows = [cancelled_row(self._batch, task)]
        if self._listed:
            record_listed(tx, self._batch, rows)
        else:
            tx.record(self._batch, rows, listed=False)
        tx.clear_cancel(self._batch, task)

    def _append_per_task(self, events: list[Event]) -> None:
        if self._task_audit is None:
            return
        with ExitStack() as stack:
            logs: dict[int, AuditLog] = {}
            for event in events:
                task = getattr(event, "task", None)
                if task is not None:
                    if task not in logs:
                        logs[task] = stack.enter_context(self._task_audit(task))
                    logs[task].append([to_record(event)])


def _broken(error: Exception) -> StoreError:
    failure = StoreError(
        f"recording failed: {type(error).__name__}: {error}",
        hint="what was recorded stays; say `runyard resume` to go on",
    )
    failure.__cause__ = error
    return failure

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
from typing import TYPE_CHECKING

from runyard.errors import StoreConflict, StoreError, StoreFull, StoreUnready
from runyard.events import AuditLog, Event, to_record
from runyard.schedule.agenda import Held, Place
from runyard.schedule.commit import Claimed, Committer, Entry, Pace, Refused, Waiting, Wishes
from runyard.schedule.submissions import Submissions
from runyard.spec.outcome import OutcomeRow, Printed, Rows
from runyard.store.base import Store, Transaction
from runyard.store.rows import AttemptRow, BatchRow

if TYPE_CHECKING:
    from runyard.schedule.budget import Budget

COMMIT_SECONDS = 0.1
"""The least time between two commits: what comes in meanwhile is written together."""

COMMIT_ROWS = 4096
COMMIT_BYTES = 8 * 1024 * 1024
"""So many rows, or bytes, are worth a commit of their own, however short ago the last one was."""

MOST_ROWS = 200_000
MOST_BYTES = 64 * 1024 * 1024
"""So many may wait for the disk; no more work is sent until there are less."""


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
        meter: Budget | None = None,
        intake: Submissions | None = None,
        preempted: Callable[[Transaction], bool] | None = None,
    ) -> None:
        self._store = store
        self._committer = Committer(store, batch, engine, intake, preempted)
        self._audit = audit
        self._task_audit = task_audit
        self._wake = wake
        self._meter = meter  # sees outcomes as they come in, before they are written
        self._intake = intake
        self._lock = threading.Lock()
        self._work = threading.Event()  # there is something to write
        self._urgent = threading.Event()  # and it can't wait for more
        self._waiting = Waiting()
        self._token = secrets.token_hex(8)  # of the next claim
        self._unsure = False  # the last commit failed: it may have gone through all the same
        self._closing = False
        self._looked = 0.0
        self._seen = self._sought = store.change_token()  # by the last look, the next
        self.running = 0  # the loop keeps this up to date; shown by `status`
        self.rate = 0.0
        self.engines = 1  # that run this batch, as of the last look
        self.counts = batch  # as of the last commit
        self.recorded = 0  # outcomes of this engine
        self.backlog = 0  # rows that wait to be written
        self._bytes = 0  # of their values
        self.next_free: Place | None = None  # of the listed task that comes first and is nobody's
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
    def is_behind(self) -> bool:
        """Whether more than enough waits for the disk."""
        return self.backlog > MOST_ROWS or self._bytes > MOST_BYTES

    @property
    def is_current(self) -> bool:
        """Whether the loop knows all that others have done; if not, it is looked for at once."""
        if self.claims or self.wishes:
            return False
        news = self._store.change_token()
        if news not in (self._seen, self._sought):
            self._sought = news
            self.look()
        return news == self._seen

    @property
    def look_seconds(self) -> float:
        """How often there may be something that nobody tells of."""
        return self._store.look_seconds

    def start(self) -> None:
        """Begin to write."""
        self._listening = self._store.listen(self.look)
        self._thread.start()

    def rows(self, held: Held, rows: Sequence[OutcomeRow], printed: Sequence[Printed] = ()) -> None:
        """Outcomes that belong to a claim, and what its tasks printed."""
        held.left -= len(rows)
        if self._meter is not None:
            self._meter.observe(rows)
        if self._intake is not None:
            rows = self._intake.ended(rows)
        entry = Entry.of(held, Rows.of(rows), last=held.left <= 0, printed=printed)
        with self._lock:
            self._waiting.entries.append(entry)
            self.backlog += len(entry.rows)
            self._bytes += entry.size
            if self.backlog >= COMMIT_ROWS or self._bytes >= COMMIT_BYTES:
                self._urgent.set()
        self._work.set()

    def attempt(self, held: Held, row: AttemptRow, printed: Sequence[Printed]) -> None:
        """An attempt that did not end its task, and what it printed."""
        with self._lock:
            self._waiting.attempts.append(row)
            if printed:
                entry = Entry.of(held, Rows([]), last=False, printed=printed)
                self._waiting.entries.append(entry)
                self._bytes += entry.size
        self._work.set()

    def event(self, event: Event) -> None:
        """Something for the audit log."""
        with self._lock:
            self._waiting.events.append(event)
        self._work.set()

    def want(self, tasks: int) -> None:
        """Ask for so many tasks; the answer comes in `claims`."""
        with self._lock:
            self._waiting.wanted = tasks
            if not self._waiting.entries:
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
            self._waiting.cancel_rest = True
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
        waited = now - self._unready_since
        if at_its_end or waited > error.patience or self._store.is_hurried:
            self.error = error
            self._wake()
            return True
        time.sleep(0.2)
        self._work.set()
        return False

    def _commit(self) -> bool:
        """Write everything that waits, in one transaction; put it back if that fails."""
        with self._lock:
            waiting, self._waiting = self._waiting, Waiting()
        # After the outcomes: so no outcome is written before its task.
        waiting.handed = self._intake.unwritten() if self._intake is not None else []
        try:
            self._write(waiting)
        except BaseException:
            with self._lock:
                waiting.put_before(self._waiting)
            if self._intake is not None:
                self._intake.put_back(waiting.handed)
            self._unsure = True
            raise
        try:
            self._append(waiting.events)
        except BaseException:
            with self._lock:
                self._waiting.events[:0] = waiting.events
            raise
        self.unready = None
        return bool(waiting.entries)

    def _write(self, waiting: Waiting) -> None:
        """Into the store, where there is something for it or it is time to look."""
        now = time.monotonic()
        pace = Pace(self.running, self.rate)
        look = pace if now - self._looked > self._store.look_seconds else None
        if look is None and not waiting.is_for_the_store:
            return
        news = self._store.change_token()
        if look is not None:
            self._looked = now  # beforehand: who asks for a look meanwhile gets another one
        done = self._committer.commit(waiting, self._token, unsure=self._unsure, look=look)
        self._unsure = False
        brought = sum(len(entry.rows) for entry in waiting.entries)
        self.counts = done.counts
        self.next_free = done.next_free
        self.refused.extend(done.refused)
        self.recorded += brought - sum(len(each.tasks) for each in done.refused)
        with self._lock:
            self.backlog -= brought
            self._bytes -= sum(entry.size for entry in waiting.entries)
        if done.claimed is not None:
            self.claims.append(done.claimed)
            self._token = secrets.token_hex(8)
        if done.wishes is not None:
            self.engines = done.wishes.engines
            self.wishes.append(done.wishes)
            self._seen = news
        if waiting.wanted or done.wishes is not None or not self.counts.pending:
            self._wake()

    def _append(self, events: list[Event]) -> None:
        """To the audit log, and to those of the tasks."""
        written = [record for event in events if (record := to_record(event))]
        if written:
            self._audit.append(written)
            self._append_per_task(events)

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

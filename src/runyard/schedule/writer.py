"""The thread that writes: everything that waits, in one transaction, then the audit log.

Everything the store has to do while a batch runs happens here, so the loop never waits for a disk.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from runyard.errors import StoreConflict, StoreError, StoreFull, StoreUnready
from runyard.events import AuditLog, Event, to_record
from runyard.schedule.commit import CommitResult, Committer, EngineState
from runyard.schedule.mailbox import Mailbox, OutcomeGroup, PendingWrites
from runyard.schedule.ready_queue import HeldClaim
from runyard.schedule.run import Run
from runyard.spec.outcome import OutcomeRow, Printed, Rows
from runyard.store.rows import AttemptRow

COMMIT_SECONDS = 0.1
"""The least time between two commits; what comes in meanwhile is written together."""

COMMIT_ROWS = 2048
COMMIT_BYTES = 8 * 1024 * 1024
"""This many rows or bytes are committed without waiting for more."""

MAX_ROWS = 200_000
MAX_BYTES = 64 * 1024 * 1024
"""While more than this waits to be written, no work is sent."""


class Writer:
    """Writes for one engine, in a thread of its own."""

    def __init__(self, run: Run, audit: AuditLog, task_audit: Callable[[int], AuditLog]) -> None:
        self._run = run
        self._committer = Committer(run)
        self._audit = audit
        self._task_audit = task_audit
        self.mailbox = Mailbox(run.batch.row)
        self._lock = threading.Lock()
        self._work = threading.Event()  # there is something to write
        self._urgent = threading.Event()  # and it can't wait for more
        self._pending = PendingWrites()
        self._token = secrets.token_hex(8)  # of the next claim
        self._unsure = False  # the last commit failed, but may have gone through
        self._closing = False
        self._looked = 0.0  # when the last look was, by the monotonic clock
        self._seen = self._sought = run.store.change_token()  # change tokens
        self.running = 0  # lanes; the loop keeps it up to date, `status` shows it
        self.rate = 0.0  # the same
        self.takes_followers = run.reads_store  # until the run is to end
        self.recorded = 0  # outcomes that this engine has written
        self.backlog = 0  # rows that wait to be written
        self._bytes = 0  # of their values
        self._unready_since = 0.0
        self._stop_listening: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._serve, name="runyard-writer", daemon=True)

    # The loop's side

    @property
    def is_done(self) -> bool:
        """Whether everything passed on is written or refused, and the loop knows."""
        return self.backlog == 0 and not self.mailbox.refused

    @property
    def is_behind(self) -> bool:
        """Whether too much waits to be written for more work to be sent."""
        return self.backlog > MAX_ROWS or self._bytes > MAX_BYTES

    @property
    def is_current(self) -> bool:
        """Whether the loop knows what others have done; if not, the writer looks at once."""
        if self.mailbox.claims or self.mailbox.requests:
            return False
        token = self._run.store.change_token()
        if token not in (self._seen, self._sought):
            self._sought = token
            self.look()
        return token == self._seen

    def start(self) -> None:
        """Begin to write."""
        self._stop_listening = self._run.store.listen(self.look)
        self._thread.start()

    def record(
        self, claim: HeldClaim, rows: Sequence[OutcomeRow], printed: Sequence[Printed] = ()
    ) -> None:
        """Write outcomes of a claim, and what its tasks printed."""
        if self._run.submissions is not None:
            rows = self._run.submissions.ended(rows)
        group = OutcomeGroup.of(claim, Rows.of(rows), is_last=claim.left <= 0, printed=printed)
        with self._lock:
            self._pending.groups.append(group)
            self.backlog += len(group.rows)
            self._bytes += group.size
            is_full = self.backlog >= COMMIT_ROWS or self._bytes >= COMMIT_BYTES
        if is_full or claim.is_awaited(group.rows):
            self._urgent.set()
        self._work.set()

    def attempt(self, claim: HeldClaim, row: AttemptRow, printed: Sequence[Printed]) -> None:
        """Write an attempt that did not end its task, and what it printed."""
        with self._lock:
            self._pending.attempts.append(row)
            if printed:
                group = OutcomeGroup.of(claim, Rows(), is_last=False, printed=printed)
                self._pending.groups.append(group)
                self._bytes += group.size
        self._work.set()

    def event(self, event: Event) -> None:
        """Write an event to the audit log."""
        with self._lock:
            self._pending.events.append(event)
        self._work.set()

    def request_claim(self, tasks: int) -> None:
        """Claim about this many tasks; the reply comes in the mailbox."""
        with self._lock:
            self._pending.wanted = tasks
            if not self._pending.groups:
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
            self._pending.cancel_rest = True
        self._work.set()

    def hurry(self) -> None:
        """Write now what waits: nothing else is coming."""
        if self.backlog:
            self._urgent.set()
            self._work.set()

    def close(self) -> None:
        """Write what is left, and stop."""
        self._closing = True
        self._urgent.set()
        self._work.set()
        self._thread.join()
        self._stop_listening()

    # The thread's side

    def _serve(self) -> None:
        committed = 0.0
        while True:
            self._work.wait(self._run.store.look_seconds)
            self._urgent.wait(max(0.0, committed + COMMIT_SECONDS - time.monotonic()))
            closing = self._closing
            self._urgent.clear()
            self._work.clear()
            try:
                if self._write_pending():
                    committed = time.monotonic()
            except StoreConflict:
                self._work.set()
                continue
            except StoreUnready as error:
                if self._gives_up(error):
                    return
                continue
            except Exception as error:
                self._fail(error if isinstance(error, StoreError) else _unexpected(error))
                return
            if closing:
                return

    def _fail(self, error: StoreError) -> None:
        self.mailbox.error = error
        self._run.backend.wake()

    def _gives_up(self, error: StoreUnready) -> bool:
        """Whether to stop waiting for a store that takes nothing."""
        now, mailbox = time.monotonic(), self.mailbox
        if mailbox.unready is None:
            mailbox.unready = error
            self._unready_since = now
            self._run.backend.wake()
        is_over = self._closing and isinstance(error, StoreFull)
        waited = now - self._unready_since
        if is_over or waited > error.patience or self._run.store.is_hurried:
            self._fail(error)
            return True
        time.sleep(0.2)
        self._work.set()
        return False

    def _write_pending(self) -> bool:
        """Write everything that waits, or put it back; whether there were outcomes."""
        with self._lock:
            writes, self._pending = self._pending, PendingWrites()
        submissions = self._run.submissions
        # After the outcomes were taken, so that no outcome is written before its task.
        writes.submitted = submissions.unwritten() if submissions is not None else []
        try:
            self._write_to_store(writes)
        except BaseException:
            with self._lock:
                writes.put_before(self._pending)
            if submissions is not None:
                submissions.put_back(writes.submitted)
            self._unsure = True
            raise
        try:
            self._write_to_audit(writes.events)
        except BaseException:
            with self._lock:
                self._pending.events[:0] = writes.events
            raise
        self.mailbox.unready = None
        return bool(writes.groups)

    def _write_to_store(self, writes: PendingWrites) -> None:
        """Commit, where there is something for the store or it is time to look."""
        now = time.monotonic()
        is_due = now - self._looked > self._run.store.look_seconds
        if not is_due and not writes.is_for_store:
            return
        token = self._run.store.change_token()
        if is_due:
            self._looked = now  # before the transaction: a later wish for a look gets its own
        state = EngineState(self.running, self.rate) if is_due else None
        result = self._committer.commit(
            writes, self._token, state, unsure=self._unsure, followers=self.takes_followers
        )
        self._unsure = False
        if result.claims:
            self._token = secrets.token_hex(8)
        if result.requests is not None:
            self._seen = token
        self._deliver(writes, result)

    def _deliver(self, writes: PendingWrites, result: CommitResult) -> None:
        """Put what the transaction brought into the mailbox, and wake the loop for it."""
        mailbox = self.mailbox
        written = sum(len(group.rows) for group in writes.groups)
        mailbox.counts = result.counts
        mailbox.next_free = result.next_free
        mailbox.refused.extend(result.refused)
        self.recorded += written - sum(len(each.tasks) for each in result.refused)
        with self._lock:
            self.backlog -= written
            self._bytes -= sum(group.size for group in writes.groups)
        mailbox.claims.extend(result.claims)
        if result.requests is not None:
            mailbox.engines = result.requests.engines
            mailbox.requests.append(result.requests)
        if result.claims or result.requests is not None or not result.counts.pending:
            self._run.backend.wake()

    def _write_to_audit(self, events: list[Event]) -> None:
        self._audit.append(map(to_record, events))
        if not self._run.options.audit_tasks:
            return
        by_task = defaultdict[int, list[Event]](list)
        for event in events:
            task = getattr(event, "task", None)
            if task is not None:
                by_task[task].append(event)
        for task, of_task in by_task.items():
            self._task_audit(task).append(map(to_record, of_task))


def _unexpected(error: Exception) -> StoreError:
    failure = StoreError(
        f"recording failed: {type(error).__name__}: {error}",
        hint="recorded outcomes are kept; run `runyard resume` to continue",
    )
    failure.__cause__ = error
    return failure

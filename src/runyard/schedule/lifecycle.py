"""A task's life in an engine, from top to bottom.

    claimed ──▶ queued ──▶ sent ──▶ reported ──────────────────────────▶ recorded
                  ▲                    │ raised: retried, or failed ─────▶ │
                  ├────────────────────┤                                   │
                  └────────────────────┴ lost: charged, its neighbours     │
                                         queued again, or failed ────────▶ │

Which tasks are claimed when is decided in `feeding`, which lane gets them in `dispatch`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from runyard import clock
from runyard.attempt.wire import Chunk, Emission, Failure, Item, Loss, LossCause, Report
from runyard.errors import BudgetReached
from runyard.events import (
    ResultsRefused,
    TaskEmitted,
    TaskFailed,
    TaskRetried,
    WorkerLost,
)
from runyard.format import count
from runyard.schedule import policy
from runyard.schedule.cancelling import Cancelling
from runyard.schedule.in_flight import InFlight, SentChunk
from runyard.schedule.mailbox import RefusedOutcomes
from runyard.schedule.ready_queue import HeldClaim, ReadyQueue
from runyard.schedule.retries import (
    AttemptHistory,
    retry_delay,
    survives_crash,
    wants_retry,
)
from runyard.schedule.run import Run
from runyard.schedule.writer import Writer
from runyard.spec.codec import decode
from runyard.spec.outcome import ErrorInfo, OutcomeRow, Printed, Rows
from runyard.spec.status import FAILED
from runyard.store.rows import AttemptRow, Claim

log = logging.getLogger(__name__)


class Lifecycle:
    """Takes tasks from a claim to their outcome."""

    def __init__(self, run: Run, writer: Writer, history: AttemptHistory) -> None:
        self._run = run
        self._writer = writer
        self._history = history
        self._suspects: set[int] = set()  # ran when all workers died: from now on they run alone
        self.ready = ReadyQueue()
        self.in_flight = InFlight(run, self.ready)
        self.cancelling = Cancelling(run, self.ready, self.in_flight, self._record_one)
        self.estimate = policy.DurationEstimate()
        self.has_failed_fast = False  # a task failed, and the batch stops at the first failure
        self.spent: str | None = None  # the budget, as a task says that it allows it nothing more

    # 1. Claimed and queued

    def claimed(self, claim: Claim, attempts: Sequence[AttemptRow]) -> HeldClaim:
        """Queue the tasks that the store has given this engine."""
        held = HeldClaim(claim, self._run.options.priority)
        self._history.add_rows(attempts)
        if held.left == 0:
            self._record(held, [])  # which releases the claim
        for task in claim.tasks:
            self._enqueue(held, task)
        for low, high in claim.ranges:
            start = low
            for task in self._history.within(low, high):
                self.ready.add_range(held, start, task)
                self._enqueue(held, task)
                start = task + 1
            self.ready.add_range(held, start, high)
        return held

    def submitted(self) -> bool:
        """Queue the tasks that this process has added; whether there were any."""
        submissions = self._run.submissions
        added = [] if submissions is None else submissions.take()
        for each in added:
            if each.again:
                self._history.forget(each.task)
            assert submissions is not None
            self._enqueue(submissions.claim, each.task)
        return bool(added)

    def _enqueue(self, claim: HeldClaim, task: int) -> None:
        attempts = self._history.of(task)
        item = claim.item(task, attempts.errors)
        # Where a crash takes the engine along, a task that may have crashed one runs alone.
        is_fragile = not self._run.backend.capabilities.survives_crash
        if is_fragile and attempts.crashes:
            self.ready.add_alone(claim, item)
        else:
            self.ready.add(claim, item)

    # 2. Sent

    def send(self, lane: int, most: int) -> int:
        """Send the next tasks to a lane, up to `most`; how many."""
        while (taken := self.ready.take(most)) is not None:
            claim, chunk = taken
            chunk = self._without_withdrawn(claim, chunk)
            if chunk.size:
                self.in_flight.send(lane, chunk, claim)
                return chunk.size
        return 0

    def send_alone(self, lane: int) -> None:
        """Send the next task that must run alone."""
        claim, item = self.ready.alone.popleft()
        self.in_flight.send(lane, Chunk(0, 0, 0, [item]), claim)

    def _without_withdrawn(self, claim: HeldClaim, chunk: Chunk) -> Chunk:
        """The chunk without tasks that their submitter has withdrawn meanwhile."""
        submissions = self._run.submissions
        if chunk.items is None or submissions is None:
            return chunk
        wanted: list[Item] = []
        for item in chunk.items:
            if submissions.may_start(item.task):
                wanted.append(item)
            else:
                self.cancelling.ended(claim, item.task)
        return chunk._replace(items=wanted)

    # 3. Reported

    def reported(self, sent: SentChunk, report: Report) -> None:
        """Record what a lane has brought of a chunk, and queue what it left out."""
        log.debug(
            "%s: lane %d reports %d of %s", self._run.name, report.lane, report.done, sent.chunk
        )
        rows, failures, printed = self._in_time(sent, report)
        ended = len(rows) + len(failures)
        if report.done > sent.end or report.done != sent.done + ended:
            mine = {item.task for item in sent.rest()}  # each task counts once
            rows = rows.only(lambda row: row.task in mine)
            failures = [failure for failure in failures if failure.row.task in mine]
            printed = [each for each in printed if each.task in mine]
        for emission in report.emitted:
            self._emitted(emission)
        if rows:
            self._record(sent.claim, rows, printed)
        for failure in failures:
            if self._run.submissions is not None:
                self._run.submissions.failed(failure)
            self._failed(sent.claim, failure)
        size = rows.size + sum(each.size for each in printed)
        self.estimate.update(report.seconds, report.done - sent.done, size)
        if ended or report.finished:
            sent.done = max(sent.done, report.done)
        if report.finished:
            self.in_flight.finish(sent)
            if sent.left > 0:
                self.in_flight.return_rest(sent, sent.done)
                self.cancelling.remove_waiting()

    def _in_time(
        self, sent: SentChunk, report: Report
    ) -> tuple[Rows, list[Failure], list[Printed]]:
        """What the report brings; late tasks whose engine was paused meanwhile have completed."""
        late = [f for f in report.failures if f.late and self.in_flight.excuses(sent, f.late)]
        if not late:
            return Rows(report.rows), report.failures, report.printed
        rows = Rows.joined([Rows(report.rows), Rows.of(f.late for f in late if f.late)])
        printed = [*report.printed, *(f.printed for f in late if f.printed is not None)]
        return rows, [f for f in report.failures if f not in late], printed

    def _emitted(self, emission: Emission) -> None:
        self._run.publish(
            TaskEmitted(
                batch=self._run.name, task=emission.task, attempt=emission.attempt,
                at=emission.at, kind=emission.kind, data=decode(emission.data),
            )
        )  # fmt: skip

    # 4. Or lost with its worker

    def lost(self, loss: Loss) -> None:
        """A lane has died or was ended: charge the task that it ran, queue its neighbours again."""
        log.debug("%s: lost lane %d: %s", self._run.name, loss.lane, loss.reason)
        running: SentChunk | None = None
        chunks = self.in_flight.of(loss.lane)
        if chunks and loss.cause is LossCause.WORKER_DIED:
            self.in_flight.suspect(chunks[0])
        for sent in chunks:
            self.in_flight.finish(sent)
            if sent.position(loss.task) is None:
                self.in_flight.return_rest(sent, sent.done)
                continue
            running = sent
            for item in sent.rest():
                if item.task != loss.task:
                    self.ready.add(sent.claim, item)
        task = None if running is None else loss.task
        if loss.cause is LossCause.WORKER_DIED and (task is not None or not loss.clean_exit):
            self._run.publish(
                WorkerLost(batch=self._run.name, worker=loss.lane, reason=loss.reason, task=task)
            )
        if running is not None:
            self._ended_in_middle(running.claim, loss)

    def _ended_in_middle(self, claim: HeldClaim, loss: Loss) -> None:
        """The task that a lost lane was running."""
        assert loss.task is not None
        if loss.cause is LossCause.DEADLINE:
            self._postpone(claim, loss.task, loss.attempt, loss.printed)
        elif loss.cause is LossCause.CANCELLED:
            self.cancelling.ended(claim, loss.task, loss.printed)
        elif loss.cause is LossCause.WORKER_DIED:
            self._crashed(claim, loss)
        else:
            classes = [loss.cause.value, "TaskError", "RunyardError"]
            self._failed(
                claim, Failure(self._row(loss, loss.reason), classes, printed=loss.printed)
            )

    def _postpone(self, claim: HeldClaim, task: int, attempt: int, printed: Printed | None) -> None:
        """Queue a task again that could not end in this run."""
        if printed is not None:
            self._writer.record(claim, [], [printed])
        self.ready.add(claim, claim.item(task, attempt))

    def _crashed(self, claim: HeldClaim, loss: Loss) -> None:
        """Give the task another attempt, or record it as failed."""
        assert loss.task is not None
        crashes = self._history.of(loss.task).crashes + 1
        if loss.shared:  # it may be innocent: run it alone before judging it
            self._suspects.add(loss.task)
        if not loss.shared and not survives_crash(self._run.options, crashes):
            reason = f"its worker died {count(crashes, 'time')} (last: {loss.reason})"
            row = self._row(loss, reason)
            self._end(claim, row, ErrorInfo.decode(row.error or b""), loss.printed)
            return
        self._note_attempt(claim, self._row(loss, loss.reason), loss.printed, is_crash=True)
        add = self.ready.add_alone if loss.task in self._suspects else self.ready.add
        add(claim, claim.item(loss.task, loss.attempt))

    # 5. Retried, or ended

    def _failed(self, claim: HeldClaim, failure: Failure) -> None:
        """The task raised, ran too long or used too much memory."""
        row, info = self._redacted(failure.row)
        options = self._run.options
        retries = claim.retries.get(row.task, options.retries)
        if row.task in self.cancelling:
            self.cancelling.ended(claim, row.task, failure.printed)
        elif BudgetReached.__name__ in failure.classes:
            self._postpone(claim, row.task, row.attempt, failure.printed)
            self.spent = self.spent or info.message
        elif wants_retry(options, retries, row.attempt, failure.classes):
            self._retry(claim, row, info, failure.printed)
        else:
            self._end(claim, row, info, failure.printed)

    def _retry(
        self, claim: HeldClaim, row: OutcomeRow, info: ErrorInfo, printed: Printed | None
    ) -> None:
        run = self._run
        delay = retry_delay(run.options, run.batch.seed, row.task, row.attempt)
        self._note_attempt(claim, row, printed, is_crash=False)
        item = claim.item(row.task, row.attempt + 1)
        self.ready.add_delayed(clock.monotonic() + delay, claim, item)
        run.publish(
            TaskRetried(
                batch=run.name, task=row.task, attempt=row.attempt, error=info.kind,
                message=info.message, delay=delay,
            )
        )  # fmt: skip

    def _end(
        self, claim: HeldClaim, row: OutcomeRow, info: ErrorInfo, printed: Printed | None
    ) -> None:
        run = self._run
        self._record_one(claim, row, printed)
        self._history.forget(row.task)
        run.publish(
            TaskFailed(
                batch=run.name, task=row.task, attempt=row.attempt, error=info.kind,
                message=info.message, where=info.where,
            )
        )  # fmt: skip
        self.has_failed_fast |= run.options.fail_fast

    # 6. StoredBatch

    def _record(
        self, claim: HeldClaim, rows: Sequence[OutcomeRow], printed: Sequence[Printed] = ()
    ) -> None:
        claim.left -= len(rows)
        if self._run.budget is not None:
            self._run.budget.observe(rows)
        self._writer.record(claim, rows, printed)

    def _record_one(self, claim: HeldClaim, row: OutcomeRow, printed: Printed | None) -> None:
        self._record(claim, [row], [] if printed is None else [printed])

    def _note_attempt(
        self, claim: HeldClaim, row: OutcomeRow, printed: Printed | None, *, is_crash: bool
    ) -> None:
        attempts = self._history.add(row.task, is_crash=is_crash)
        attempt = AttemptRow(
            self._run.id, row.task, attempts.total, int(is_crash), row.error or b"", row.started,
            row.seconds,
        )  # fmt: skip
        self._writer.attempt(claim, attempt, [] if printed is None else [printed])

    def refused(self, refused: RefusedOutcomes) -> None:
        """Another engine has taken a claim over; what came of it here was too late."""
        self.ready.drop(refused.claim)
        self.in_flight.drop(refused.claim)
        if refused.tasks:  # else only what they printed
            self._run.publish(ResultsRefused(batch=self._run.name, tasks=refused.tasks))
            self._run.warn(
                f"{count(len(refused.tasks), 'result')} came too late and were discarded: another "
                "engine has taken over these tasks"
            )

    def _row(self, loss: Loss, reason: str) -> OutcomeRow:
        error = ErrorInfo(loss.cause.value, reason, "", "").encode()
        worker = self._run.engine << 16 | loss.lane
        return OutcomeRow.with_checksum(
            self._run.id, loss.task, FAILED, loss.attempt, None, error, loss.started,
            loss.seconds, worker,
        )  # fmt: skip

    def _redacted(self, row: OutcomeRow) -> tuple[OutcomeRow, ErrorInfo]:
        info = ErrorInfo.decode(row.error or b"")
        clean = ErrorInfo(*(self._run.redactor.redact_text(part) for part in info))
        if clean != info:
            row = OutcomeRow.with_checksum(self._run.id, *row[:4], clean.encode(), *row[5:8])
        return row, clean

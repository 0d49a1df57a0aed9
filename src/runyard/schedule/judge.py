"""What becomes of an attempt that did not complete: another one, or its task's end.

raised, ran too long, used too much ──▶ a retry if the options allow, else failed
its worker died ──────────────────────▶ again, up to `crash_attempts` times, else WorkerDied
somebody cancelled it ────────────────▶ cancelled
"""

from __future__ import annotations

from collections.abc import Callable

from runyard import clock
from runyard.attempt.wire import Failure, Loss
from runyard.events import Event, Redactor, TaskCancelled, TaskFailed, TaskRetried
from runyard.schedule import policy
from runyard.schedule.agenda import Agenda, Held
from runyard.schedule.listed import cancelled_row
from runyard.schedule.recorder import Recorder
from runyard.spec.options import Options
from runyard.spec.outcome import ErrorInfo, OutcomeRow, Printed
from runyard.spec.status import FAILED
from runyard.store.rows import AttemptRow

DEADLINE = "Deadline"
"""Why a lane was ended whose task goes back to the queue."""


class Judge:
    """Decides by `policy`, and tells the recorder, the agenda and whoever listens."""

    def __init__(
        self,
        *,
        batch: int,
        name: str,
        engine: int,
        seed: int,
        options: Options,
        agenda: Agenda,
        recorder: Recorder,
        publish: Callable[[Event], None],
        history: dict[int, tuple[int, int]],
    ) -> None:
        self._batch = batch
        self._name = name
        self._engine = engine
        self._seed = seed
        self._options = options
        self._agenda = agenda
        self._recorder = recorder
        self._publish = publish
        self._history = history  # task: own errors, worker deaths so far
        self._redactor = Redactor()
        self._suspects: set[int] = set()  # ran when all workers died: from then on they go alone
        self.cancelling: set[int] = set()  # what somebody asked to cancel
        self.has_had_enough = False  # a task failed, and the batch is to stop at the first

    def failed(self, held: Held, failure: Failure) -> None:
        """The task raised, ran too long or used too much."""
        row, info = self._redacted(failure.row)
        if row.task in self.cancelling:
            self.cancelled(held, row.task, failure.printed)
        elif self._is_worth_a_retry(held, row, failure.classes):
            self._retry(held, row, info, failure.printed)
        else:
            self._end(held, row, info, failure.printed)

    def lost(self, held: Held, loss: Loss) -> None:
        """Its lane was ended, or died, while the task ran."""
        assert loss.task is not None
        if loss.error == DEADLINE:
            if loss.printed is not None:
                self._recorder.rows(held, [], [loss.printed])
            self._agenda.add_item(held, held.item(loss.task, loss.attempt))
        elif loss.error == "TaskCancelled":
            self.cancelled(held, loss.task, loss.printed)
        elif loss.error == "WorkerDied":
            self._crashed(held, loss)
        else:
            row = self._row(loss, loss.reason)
            classes = [loss.error, "TaskError", "RunyardError"]
            self.failed(held, Failure(row, classes, printed=loss.printed))

    def cancel(self, tasks: set[int]) -> None:
        """These are cancelled on record; whichever of them this engine holds is to end."""
        self.cancelling |= tasks
        for task in sorted(tasks):
            self._publish(TaskCancelled(batch=self._name, task=task))

    def cancelled(self, held: Held, task: int, printed: Printed | None = None) -> None:
        """A task of this engine has ended because it was cancelled, or its batch was."""
        self._recorder.rows(held, [cancelled_row(self._batch, task)], _all(printed))
        if task not in self.cancelling:
            self._publish(TaskCancelled(batch=self._name, task=task))

    def _crashed(self, held: Held, loss: Loss) -> None:
        assert loss.task is not None
        crashes = self._history.get(loss.task, (0, 0))[1] + 1
        if loss.shared:
            self._suspects.add(loss.task)
        # One that may be innocent has its say first.
        if loss.shared or policy.survives_crash(self._options, crashes):
            self._note_attempt(held, self._row(loss, loss.reason), loss.printed, crash=True)
            is_suspect = loss.task in self._suspects
            add = self._agenda.add_alone if is_suspect else self._agenda.add_item
            add(held, held.item(loss.task, loss.attempt))
            return
        reason = f"its worker was lost {crashes} times, the last time {loss.reason}"
        row = self._row(loss, reason)
        self._end(held, row, ErrorInfo.decode(row.error or b""), loss.printed)

    def _is_worth_a_retry(self, held: Held, row: OutcomeRow, classes: list[str]) -> bool:
        retries = held.retries.get(row.task, self._options.retries)
        return policy.wants_retry(self._options, retries, row.attempt, classes)

    def _retry(self, held: Held, row: OutcomeRow, info: ErrorInfo, printed: Printed | None) -> None:
        delay = policy.retry_delay(self._options, self._seed, row.task, row.attempt)
        self._note_attempt(held, row, printed, crash=False)
        item = held.item(row.task, row.attempt + 1)
        self._agenda.add_later(clock.monotonic() + delay, held, item)
        self._publish(
            TaskRetried(
                batch=self._name, task=row.task, attempt=row.attempt, error=info.kind,
                message=info.message, delay=delay,
            )
        )  # fmt: skip

    def _end(self, held: Held, row: OutcomeRow, info: ErrorInfo, printed: Printed | None) -> None:
        self._recorder.rows(held, [row], _all(printed))
        self._history.pop(row.task, None)
        self._publish(
            TaskFailed(
                batch=self._name, task=row.task, attempt=row.attempt, error=info.kind,
                message=info.message, where=info.where,
            )
        )  # fmt: skip
        self.has_had_enough |= self._options.fail_fast

    def _note_attempt(
        self, held: Held, row: OutcomeRow, printed: Printed | None, *, crash: bool
    ) -> None:
        errors, crashes = self._history.get(row.task, (0, 0))
        now = (errors, crashes + 1) if crash else (errors + 1, crashes)
        self._history[row.task] = now
        attempt = AttemptRow(
            self._batch, row.task, sum(now), int(crash), row.error or b"", row.started, row.seconds
        )
        self._recorder.attempt(held, attempt, _all(printed))

    def _row(self, loss: Loss, reason: str) -> OutcomeRow:
        error = ErrorInfo(loss.error, reason, "", "").encode()
        worker = self._engine << 16 | loss.lane
        return OutcomeRow.with_checksum(
            self._batch, loss.task, FAILED, loss.attempt, None, error, loss.started, loss.seconds,
            worker,
        )  # fmt: skip

    def _redacted(self, row: OutcomeRow) -> tuple[OutcomeRow, ErrorInfo]:
        info = ErrorInfo.decode(row.error or b"")
        clean = ErrorInfo(*(self._redactor.redact_text(part) for part in info))
        if clean != info:
            row = OutcomeRow.with_checksum(self._batch, *row[:4], clean.encode(), *row[5:8])
        return row, clean


def _all(printed: Printed | None) -> list[Printed]:
    return [] if printed is None else [printed]

"""What is asked of a batch from outside its engines: cancel it, or let tasks run again.

What is cancelled is on record at once, whether an engine runs it or not; so the count is exact. An
engine that holds a cancelled task hears of it, ends it, and what it still brings of it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from runyard.errors import UsageError
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import Status
from runyard.store.base import Store, Transaction
from runyard.store.stored_batch import StoredBatch


def is_running(tx: Transaction, store: Store, recorded: StoredBatch) -> bool:
    """Whether an engine that lives runs the batch."""
    return any(e.batch == recorded.id and store.alive(e.id) for e in tx.engines())


def refuse_running(tx: Transaction, store: Store, recorded: StoredBatch) -> None:
    """Raise if an engine runs the batch."""
    if is_running(tx, store, recorded):
        raise UsageError(
            f"{recorded.name} is running", hint=f"stop it first: runyard stop {recorded.name}"
        )


def requeue_status(tx: Transaction, recorded: StoredBatch, status: Status) -> list[int]:
    """Forget outcomes of a status, so that their tasks run again; which tasks."""
    tasks = [row.task for row in tx.outcomes(recorded.id, statuses=[status.code])]
    return requeue(tx, recorded, tasks)


def requeue(tx: Transaction, recorded: StoredBatch, tasks: Sequence[int]) -> list[int]:
    """Forget the outcomes of these tasks and of those cancelled for a failed predecessor."""
    again = list(tasks)
    if recorded.listed:
        again += [
            row.task
            for row in tx.outcomes(recorded.id, statuses=[Status.CANCELLED.code])
            if row.error is not None and b"DependencyFailed" in row.error
        ]
    if again:
        tx.requeue(recorded.id, again)
    for task in set(again).intersection(tx.cancel_requests(recorded.id)):
        tx.clear_cancel(recorded.id, task)
    return again


def cancel_batch(tx: Transaction, recorded: StoredBatch, *, running: bool) -> int:
    """Cancel everything that has no outcome; how many tasks."""
    if running:
        tx.update_batch(recorded.id, control="cancel")
    left = tx.pending(recorded.id)
    rows = [OutcomeRow.cancelled(recorded.id, n) for low, high in left for n in range(low, high)]
    return tx.record(recorded.id, rows).count


def cancel_task(tx: Transaction, recorded: StoredBatch, task: int, *, running: bool) -> int:
    """Cancel one task, and those that come after it; how many, 0 if it has an outcome already."""
    recorded.check_task(tx, task)
    if tx.outcome(recorded.id, task) is not None:
        return 0
    if running:
        tx.request_cancel(recorded.id, task)
    return tx.record(recorded.id, [OutcomeRow.cancelled(recorded.id, task)]).count


def forget_requests(tx: Transaction, batch: int) -> None:
    """Drop requests to cancel tasks: the engines that were asked are gone."""
    for task in tx.cancel_requests(batch):
        tx.clear_cancel(batch, task)

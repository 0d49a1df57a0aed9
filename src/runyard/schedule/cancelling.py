"""Cancelling a batch or a task, running or not.

What is cancelled is on record at once, whether an engine runs it or not, so the count is exact. An
engine that holds a cancelled task hears of it, ends it, and drops what it still brings.

    cancel ── outcome "cancelled", request ──▶ store ──▶ engine: Cancelling.request
"""

from __future__ import annotations

from collections.abc import Callable

from runyard.errors import UsageError
from runyard.events import TaskWithdrawn
from runyard.schedule.in_flight import InFlight
from runyard.schedule.ready_queue import HeldClaim, ReadyQueue
from runyard.schedule.run import Run
from runyard.spec.outcome import OutcomeRow, Printed
from runyard.store.base import Store, Transaction
from runyard.store.stored_batch import StoredBatch

RecordOutcome = Callable[[HeldClaim, OutcomeRow, Printed | None], None]


class Cancelling:
    """The engine's side: ends tasks that are to be cancelled, wherever they are."""

    def __init__(
        self, run: Run, ready: ReadyQueue, in_flight: InFlight, record: RecordOutcome
    ) -> None:
        self._run = run
        self._ready = ready
        self._in_flight = in_flight
        self._record = record
        self._requested: set[int] = set()

    def __contains__(self, task: int) -> bool:
        return task in self._requested

    def request(self, tasks: set[int]) -> None:
        """End these tasks: they are cancelled on record."""
        fresh = tasks - self._requested
        if not fresh:
            return
        self._requested |= fresh
        for task in sorted(fresh):
            self._run.publish(TaskWithdrawn(batch=self._run.name, task=task))
        self._in_flight.cancel(fresh)
        self.remove_waiting()

    def remove_waiting(self) -> None:
        """Take cancelled tasks out of the queue; some may just have come back to it."""
        for claim, task in self._ready.remove(self._requested) if self._requested else ():
            self.ended(claim, task)

    def ended(self, claim: HeldClaim, task: int, printed: Printed | None = None) -> None:
        """Record a task that has ended because it, or its batch, was cancelled."""
        self._record(claim, OutcomeRow.cancelled(self._run.id, task), printed)
        if task not in self._requested:
            self._run.publish(TaskWithdrawn(batch=self._run.name, task=task))


# From outside the engine


def is_running(tx: Transaction, store: Store, batch: StoredBatch) -> bool:
    """Whether a live engine runs the batch."""
    return any(e.batch == batch.id and store.alive(e.id) for e in tx.engines())


def refuse_running(tx: Transaction, store: Store, batch: StoredBatch) -> None:
    """Raise if a live engine runs the batch."""
    if is_running(tx, store, batch):
        raise UsageError(
            f"{batch.name} is running", hint=f"stop it first: runyard stop {batch.name}"
        )


def cancel_batch(tx: Transaction, batch: StoredBatch, *, running: bool) -> int:
    """Cancel every task without an outcome; how many."""
    if running:
        tx.update_batch(batch.id, control="cancel")
    left = tx.pending(batch.id)
    rows = [OutcomeRow.cancelled(batch.id, n) for low, high in left for n in range(low, high)]
    return tx.record(batch.id, rows).count


def cancel_task(tx: Transaction, batch: StoredBatch, task: int, *, running: bool) -> int:
    """Cancel a task and those that come after it; how many, 0 if it has an outcome already."""
    batch.check_task(tx, task)
    if tx.outcome(batch.id, task) is not None:
        return 0
    if running:
        tx.request_cancel(batch.id, task)
    return tx.record(batch.id, [OutcomeRow.cancelled(batch.id, task)]).count


def forget_requests(tx: Transaction, batch: int) -> None:
    """Drop requests to cancel tasks: the engines that were asked are gone."""
    for task in tx.cancel_requests(batch):
        tx.clear_cancel(batch, task)

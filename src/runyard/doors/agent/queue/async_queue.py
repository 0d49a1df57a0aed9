"""The queue for asyncio programs: add, claim, finish and cancel tasks one by one.

A host that claims tasks itself (`get_next_task`) holds them by a lease in the store: if it dies,
others get them. Most hosts leave that to the worker that `BatchExecutor` starts.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from runyard import clock
from runyard.doors.agent.inputs import arguments as read
from runyard.doors.agent.inputs.arguments import DEFAULT_QUEUE, BadCall
from runyard.doors.agent.queue.adding import add as append
from runyard.doors.agent.queue.figures import figures
from runyard.doors.agent.queue.ledger import Ledger
from runyard.doors.agent.queue.model import BatchStats, BatchTask, Priority, TaskStatus
from runyard.errors import ClaimLost
from runyard.schedule.cancelling import cancel_task
from runyard.spec.codec import encode_as
from runyard.spec.outcome import ErrorInfo, OutcomeRow
from runyard.spec.status import FINAL_STATES
from runyard.store.base import Store, Transaction
from runyard.store.rows import AttemptRow, Claim
from runyard.store.stored_batch import StoredBatch
from runyard.yard import Yard


class BatchQueue:
    """A durable, shared queue: by priority, then first in, first out."""

    def __init__(
        self, yard: Yard | str | Path | None = None, *, queue: str = DEFAULT_QUEUE
    ) -> None:
        """Use the queue of this name in a yard (default: `$RUNYARD_YARD`, else `.runyard`)."""
        self.yard = yard if isinstance(yard, Yard) else Yard(yard)
        self._owns_yard = not isinstance(yard, Yard)
        self._ledger = Ledger(self.yard, queue)
        self._engine: int | None = None  # holds the tasks that this host claimed
        self._claimed: dict[int, tuple[Claim, float]] = {}  # by task, with the time of the claim

    async def add_task(
        self,
        name: str,
        function: str,
        params: dict[str, Any] | None = None,
        priority: Priority | str = Priority.MEDIUM,
        max_retries: int = 3,
        timeout: float | None = None,  # noqa: ASYNC109
        depends_on: list[str] | None = None,
    ) -> BatchTask:
        """Add a task to the queue."""
        wanted = read.task_of(
            {
                "name": name, "function": function, "params": params or {}, "priority": priority,
                "max_retries": max_retries, "timeout": timeout, "depends_on": depends_on or [],
            }
        )  # fmt: skip

        def add() -> BatchTask:
            added = append(self._ledger, [wanted])
            if added.refused:
                raise BadCall(added.refused[0].reason)
            return self._seen(added.numbers[0])

        return await asyncio.to_thread(add)

    async def get_next_task(self) -> BatchTask | None:
        """Claim the next task; None while none can start."""
        return await asyncio.to_thread(self._claim)

    async def update_task(
        self, task_id: str, status: TaskStatus | str, result: Any = None, error: str | None = None
    ) -> BatchTask:
        """Record how a claimed task ended; `queued` puts it back for a retry."""
        ended = TaskStatus(read.choice(status, "status", list(TaskStatus)))
        return await asyncio.to_thread(self._finish, task_id, ended, result, error)

    async def cancel_task(self, task_id: str) -> bool:
        """Cancel a task, running or not; False if it has ended already."""
        number = self._ledger.number_of(task_id)
        return await asyncio.to_thread(cancel, self._ledger, number)

    async def get_all_tasks(self, status: TaskStatus | str | None = None) -> list[BatchTask]:
        """All tasks, or those with a status, in the order in which they were added."""
        chosen = None
        if status is not None:
            chosen = TaskStatus(read.choice(status, "status", list(TaskStatus)))

        def look() -> list[BatchTask]:
            with self._store.snapshot() as view:
                if not self._ledger.exists(view):
                    return []
                found = self._ledger.every(view, self._ledger.row(view))
                return [self._timed(task) for task in found if chosen in (None, task.status)]

        return await asyncio.to_thread(look)

    async def get_stats(self) -> BatchStats:
        """The statistics of the queue."""

        def look() -> BatchStats:
            with self._store.snapshot() as view:
                if not self._ledger.exists(view):
                    return BatchStats()
                return figures(self._ledger, view).stats

        return await asyncio.to_thread(look)

    async def close(self) -> None:
        """Release the claimed tasks that are not finished."""
        await asyncio.to_thread(self._leave)
        if self._owns_yard:
            self.yard.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _store(self) -> Store:
        """The store; opened on first use, which may block."""
        return self.yard.store

    def _seen(self, number: int) -> BatchTask:
        with self._store.snapshot() as view:
            return self._timed(self._ledger.task(view, self._ledger.row(view), number))

    def _timed(self, task: BatchTask) -> BatchTask:
        """The task with its start time, which only the host that runs it knows."""
        number = self._ledger.number_of(task.task_id)
        if number not in self._claimed or task.status is not TaskStatus.RUNNING:
            return task
        return replace(task, started_at=self._claimed[number][1])

    def _claim(self) -> BatchTask | None:
        if self._engine is None:
            with self._store.snapshot() as view:
                if not self._ledger.exists(view):
                    return None
            # No workers: it claims tasks itself, and can't be asked to stop.
            self._engine = self._store.sign_on("threads", 0, self._take_up)
        engine = self._engine

        def claim(tx: Transaction) -> Claim | None:
            token = secrets.token_hex(8)
            return tx.claim(self._ledger.row(tx).id, engine, 1, token=token)

        found = self._store.write(claim)
        if found is None:
            return None
        number = next(iter(found.tasks))
        self._claimed[number] = found, clock.now()
        return self._seen(number)

    def _take_up(self, tx: Transaction, engine: int) -> int:
        tx.update_engine(engine, batch=self._ledger.row(tx).id)
        return engine

    def _finish(
        self, task_id: str, status: TaskStatus, result: Any, error: str | None
    ) -> BatchTask:
        number = self._ledger.number_of(task_id)
        if number not in self._claimed:
            raise BadCall(
                f"{task_id} is not claimed by this host", hint="claim it with get_next_task"
            )
        if status is TaskStatus.RUNNING:
            return self._seen(number)
        claim, began = self._claimed.pop(number)
        seconds = max(0.0, clock.now() - began)

        def finish(tx: Transaction) -> None:
            if tx.outcome(claim.batch, number) is not None:  # cancelled meanwhile
                return
            if not tx.holds(claim, [number]):
                raise ClaimLost(f"{task_id} was given to another worker")
            before = tx.attempts(claim.batch, number)
            info = ErrorInfo("TaskError", error or "", "", "").encode()
            if status in FINAL_STATES:
                is_completed = status is TaskStatus.COMPLETED
                row = OutcomeRow.with_checksum(
                    claim.batch, number, status.code, len(before),
                    encode_as("msgpack", result) if is_completed else None,
                    None if is_completed else info, began, seconds, 0,
                )  # fmt: skip
                tx.record(claim.batch, [row])
                return
            attempt = AttemptRow(claim.batch, number, len(before) + 1, 0, info, began, seconds)
            tx.add_attempts([attempt])
            tx.release(claim, finished=False)

        self._store.write(finish)
        return self._seen(number)

    def _leave(self) -> None:
        engine, self._engine = self._engine, None
        taken, self._claimed = self._claimed, {}
        if engine is None:
            return

        def leave(tx: Transaction) -> None:
            for claim, _ in taken.values():
                if tx.holds(claim):
                    tx.release(claim, finished=False)

        self._store.sign_off(engine, leave)


def cancel(ledger: Ledger, number: int) -> bool:
    """Cancel a task: through the workers if any run, else on record."""

    def work(tx: Transaction) -> int:
        row = ledger.row(tx)
        running = bool(ledger.engines(tx, row))
        return cancel_task(tx, StoredBatch(row), number, running=running)

    return bool(ledger.yard.store.write(work))

"""The interface of all stores, tested by one conformance suite.

Reads and writes happen in units of work:

    with store.transaction() as tx:        # writes; all or nothing, one at a time
        claim = tx.claim(batch, engine, want=256)

    with store.snapshot() as view:         # reads; one consistent state
        rows = view.outcomes(batch)

Who holds which tasks of a grid:

    0 ────────────── frontier ─────────── total
    outcome or claim │  not claimed yet

Every number below the frontier has an outcome or lies in a claim; a claim that was released, or
whose engine is dead, is free to take. So a resume needs no scan, and a million tasks need a few
hundred claims. Lists have a queue row for each task without an outcome instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from runyard import clock
from runyard.errors import StoreAway, StoreConflict
from runyard.spec.outcome import OutcomeRow, Printed
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    Claim,
    ClaimRow,
    EdgeRow,
    EngineRow,
    QueueRow,
    Recording,
    TaskRow,
    Timings,
)

T = TypeVar("T")


class Snapshot(Protocol):
    """Reads from one consistent state."""

    def batch(self, name: str) -> BatchRow | None:
        """The batch with this name."""

    def batch_by_id(self, batch: int) -> BatchRow | None:
        """The batch with this number."""

    def batches(self) -> list[BatchRow]:
        """Every batch, oldest first."""

    def outcome(self, batch: int, task: int) -> OutcomeRow | None:
        """One task's outcome."""

    def outcomes(
        self,
        batch: int,
        *,
        after: int = -1,
        limit: int | None = None,
        statuses: Sequence[int] | None = None,
    ) -> Iterator[OutcomeRow]:
        """Outcomes with numbers above `after`, in order, with their checksums verified."""

    def made_by(self, batch: int, low: int, high: int) -> list[int]:
        """Tasks completed or failed by engines from `low` up to, but not including, `high`."""

    def attempts(self, batch: int, task: int | None = None) -> list[AttemptRow]:
        """Attempts that did not end their task."""

    def printed(self, batch: int, task: int) -> list[Printed]:
        """The output of a task's attempts, without those that printed nothing."""

    def task(self, batch: int, task: int) -> TaskRow | None:
        """One task of a list."""

    def tasks(self, batch: int, *, after: int = -1, limit: int | None = None) -> list[TaskRow]:
        """Tasks of a list with numbers above `after`, in order."""

    def latest(self, batch: int, limit: int) -> list[OutcomeRow]:
        """The outcomes with the highest numbers, highest first."""

    def by_end(
        self,
        batch: int,
        limit: int,
        *,
        offset: int = 0,
        statuses: Sequence[int] | None = None,
        latest_first: bool = False,
    ) -> list[OutcomeRow]:
        """Outcomes in the order in which they ended; ties are ordered by number."""

    def queue(
        self, batch: int, *, engine: int | None = None, limit: int | None = None
    ) -> list[QueueRow]:
        """Tasks of a list without an outcome, the next one first; or those that an engine holds."""

    def queued(self, batch: int, task: int) -> QueueRow | None:
        """One task of a list, if it has no outcome yet."""

    def has_priorities(self, batch: int) -> bool:
        """Whether the waiting tasks of a list have different priorities."""

    def next_free(self, batch: int) -> QueueRow | None:
        """The task of a list that the next claim would get."""

    def ahead(self, row: QueueRow) -> int:
        """The number of tasks without an outcome before this one, running or not."""

    def claims(self, batch: int) -> list[ClaimRow]:
        """Claimed ranges of a grid."""

    def engines(self) -> list[EngineRow]:
        """Engines that signed on to this store and have not signed off."""

    def timings(self, batch: int) -> Timings:
        """Durations of the batch's tasks."""

    def edges(self, batch: int) -> list[EdgeRow]:
        """Dependencies between tasks of a list that are still pending."""

    def cancel_requests(self, batch: int) -> list[int]:
        """Tasks with a pending request to cancel them while an engine runs them."""


class Transaction(Snapshot, Protocol):
    """Reads and writes that become durable together."""

    def create_batch(self, **columns: Any) -> BatchRow:
        """Record a new batch."""

    def update_batch(self, batch: int, **columns: Any) -> BatchRow:
        """Change columns of a batch."""

    def delete_batch(self, batch: int) -> None:
        """Delete a batch and everything recorded about it."""

    def add_tasks(
        self,
        batch: int,
        tasks: Sequence[tuple[str | None, int, bytes, Sequence[int]]],
        *,
        engine: int | None = None,
        token: str | None = None,
    ) -> None:
        """Append tasks to a list: name, priority, content, and the numbers they depend on.

        With an engine and a token, they are claimed by that engine from the start.
        """

    def forget(self, batch: int) -> int:
        """Remove the tasks of a list that have an outcome, and return how many there were.

        Their numbers are not reused.
        """

    def claim(
        self,
        batch: int,
        engine: int,
        want: int,
        *,
        token: str | None = None,
        again: bool = False,
    ) -> Claim | None:
        """Take unclaimed tasks, at least one and about `want`; None if there are none.

        If it is unknown whether a claim succeeded, repeat it with the same token and `again`.
        """

    def take(self, batch: int, engine: int, token: str, tasks: Sequence[int]) -> Claim | None:
        """Claim those of these tasks of a list that no other engine holds and that may start.

        Tasks that the engine already holds under this token are part of the claim, too.
        """

    def holds(self, claim: Claim, tasks: Sequence[int] = ()) -> bool:
        """Whether the engine still holds the claim; for a list: these tasks of it."""

    def release(self, claim: Claim, *, finished: bool) -> None:
        """Give up a claim: finished (every task has an outcome), or free for others."""

    def record(self, batch: int, rows: Sequence[OutcomeRow]) -> Recording:
        """Insert outcomes for tasks that have none yet, and settle the followers of these tasks.

        Followers of completed tasks wait for one task less; followers of all others, direct and
        indirect, are recorded as cancelled. Updates the batch's counts.
        """

    def cancel_doomed(self, batch: int) -> int:
        """Cancel the followers of tasks that did not complete; return how many."""

    def add_attempts(self, attempts: Iterable[AttemptRow]) -> None:
        """Record attempts that did not end their task."""

    def keep_printed(self, batch: int, printed: Sequence[Printed]) -> None:
        """Record the output of attempts, replacing what was recorded for them before."""

    def requeue(self, batch: int, tasks: Sequence[int]) -> None:
        """Delete outcomes with all attempts and their output, so that the tasks run again."""

    def pending(self, batch: int) -> list[tuple[int, int]]:
        """Ranges of tasks without an outcome, claimed or not."""

    def request_cancel(self, batch: int, task: int) -> None:
        """Ask the engine that runs this task to cancel it."""

    def clear_cancel(self, batch: int, task: int) -> None:
        """Remove a request to cancel that has been handled."""

    def sign_on(self, host: str, pid: int, backend: str, workers: int) -> int:
        """Register a new engine and return its number."""

    def update_engine(self, engine: int, **columns: Any) -> None:
        """Record what the engine is doing, or ask it to stop."""

    def sign_off(self, engine: int) -> None:
        """Remove an engine that no longer uses this store."""


class Store(ABC):
    """A durable record of batches and outcomes."""

    location: str
    look_seconds: float = 0.2
    """Seconds between checks for changes by others, where no notification arrives."""

    @property
    def is_hurried(self) -> bool:
        """Whether to give up at once on a database that does not answer; see `hurry`."""
        return False

    def hurry(self, seconds: float) -> None:  # noqa: B027
        """Until `relax`, give up on a database that is silent for `seconds`: the process ends."""

    def relax(self) -> None:  # noqa: B027
        """Undo `hurry`."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """A unit of work that writes: all or nothing, one at a time; thread-safe."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A consistent view for reading."""

    @abstractmethod
    def alive(self, engine: int) -> bool:
        """Whether an engine that signed on is still alive; a dead process is known at once."""

    @abstractmethod
    def acquire_liveness(self, engine: int) -> None:
        """Let others see this engine as alive until it signs off or this process ends."""

    @abstractmethod
    def release_liveness(self, engine: int) -> None:
        """The inverse of `acquire_liveness`."""

    def check_place(self) -> None:  # noqa: B027 - most stores can't be moved away
        """Raise if the store is no longer the one that was opened; very cheap."""

    def listen(self, heard: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Call `heard` when others have changed something; returns a function that ends this.

        In a store without notifications it is never called, and `look_seconds` is short.
        """
        return lambda: None

    def change_token(self) -> object:
        """A value that differs after each change that others are notified of; cheap.

        In a store that can't tell, it stays the same.
        """
        return None

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction, again if the database was away; so it may run twice."""
        until = None  # counted from the first failure: this process may have been paused before
        while True:
            try:
                with self.transaction() as tx:
                    return work(tx)
            except (StoreAway, StoreConflict) as error:
                until = until or clock.monotonic() + StoreAway.patience
                gives_up = self.is_hurried and isinstance(error, StoreAway)
                if gives_up or clock.monotonic() > until:
                    raise

    def spare(self) -> int:
        """Bytes that `compact` would free on the disk; 0 if it isn't worthwhile."""
        return 0

    def compact(self) -> int:
        """Return unused space to the disk, and return how many bytes it was.

        Others may read meanwhile; the file shrinks once they have finished. Writers wait.
        """
        return 0

    @abstractmethod
    def check(self) -> Iterator[str]:
        """All problems of the store, one sentence each."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

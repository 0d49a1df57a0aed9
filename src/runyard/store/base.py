"""What every store can do. One conformance suite tests them all.

A store hands out units of work:

    with store.transaction() as tx:        # writes; all or nothing, one at a time
        claim = tx.claim(batch, engine, want=256)

    with store.snapshot() as view:         # reads; one consistent state
        rows = view.outcomes(batch)

Which tasks are whose (described batches):

    0 ────────────── frontier ─────────── total
    outcome or claim │  nobody's yet

Every number below the frontier has an outcome or lies in a claim; a claim whose engine is dead, or
that was released, is free to take. So a resume needs no scan, and a million tasks need a few
hundred claims. Listed batches have a queue row for each task without an outcome instead.
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
    """Reads of one consistent state."""

    def batch(self, name: str) -> BatchRow | None:
        """The batch of this name."""

    def batch_by_id(self, batch: int) -> BatchRow | None:
        """The batch of this number."""

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
        """Outcomes in the order of their numbers, checked; from `after` on, exclusively."""

    def made_by(self, batch: int, low: int, high: int) -> list[int]:
        """Tasks that engines from `low` up to `high` (exclusively) completed or saw fail."""

    def attempts(self, batch: int, task: int | None = None) -> list[AttemptRow]:
        """Attempts that did not end their task."""

    def printed(self, batch: int, task: int) -> list[Printed]:
        """What the attempts of a task printed, those that printed anything."""

    def task(self, batch: int, task: int) -> TaskRow | None:
        """One task of a listed batch."""

    def tasks(self, batch: int, *, after: int = -1, limit: int | None = None) -> list[TaskRow]:
        """Tasks of a listed batch in order."""

    def latest(self, batch: int, limit: int) -> list[OutcomeRow]:
        """The outcomes with the highest numbers, the last one first."""

    def by_end(
        self,
        batch: int,
        limit: int,
        *,
        offset: int = 0,
        statuses: Sequence[int] | None = None,
        latest_first: bool = False,
    ) -> list[OutcomeRow]:
        """Outcomes in the order in which they ended; those of one moment by their numbers."""

    def queue(
        self, batch: int, *, engine: int | None = None, limit: int | None = None
    ) -> list[QueueRow]:
        """Tasks of a listed batch without an outcome, next one first; or those an engine holds."""

    def queued(self, batch: int, task: int) -> QueueRow | None:
        """One task of a listed batch, if it has no outcome."""

    def has_priorities(self, batch: int) -> bool:
        """Whether tasks that wait in a list have different ones."""

    def next_free(self, batch: int) -> QueueRow | None:
        """The task of a listed batch that whoever claims one now would get."""

    def ahead(self, row: QueueRow) -> int:
        """How many tasks without an outcome come before this one, running or not."""

    def claims(self, batch: int) -> list[ClaimRow]:
        """Claimed ranges of a described batch."""

    def engines(self) -> list[EngineRow]:
        """Engines that opened this store and did not sign off."""

    def timings(self, batch: int) -> Timings:
        """How long the batch's tasks took."""

    def edges(self, batch: int) -> list[EdgeRow]:
        """Which listed tasks still come after which."""

    def cancel_requests(self, batch: int) -> list[int]:
        """Tasks that somebody asked to cancel while an engine runs them."""


class Transaction(Snapshot, Protocol):
    """Reads and writes that become durable together."""

    def create_batch(self, **columns: Any) -> BatchRow:
        """Record a new batch."""

    def update_batch(self, batch: int, **columns: Any) -> BatchRow:
        """Change columns of a batch."""

    def delete_batch(self, batch: int) -> None:
        """Forget a batch and everything recorded of it."""

    def add_tasks(
        self,
        batch: int,
        tasks: Sequence[tuple[str | None, int, bytes, Sequence[int]]],
        *,
        engine: int | None = None,
        token: str | None = None,
    ) -> None:
        """Append tasks to a listed batch: name, priority, content, numbers they come after.

        With an engine and a token they are that engine's from the start.
        """

    def forget(self, batch: int) -> int:
        """Remove the tasks of a listed batch that have an outcome; how many there were.

        Their numbers are not given to others.
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
        """Take tasks that nobody holds, at least one and about `want`; None: there are none.

        Whoever does not know whether a claim went through asks `again` under the same token.
        """

    def take(self, batch: int, engine: int, token: str, tasks: Sequence[int]) -> Claim | None:
        """Claim these very tasks of a list: those that nobody else holds and that may start.

        What the engine holds under this token already is in the claim, too.
        """

    def holds(self, claim: Claim, tasks: Sequence[int] = ()) -> bool:
        """Whether the claim is still this engine's own; of a listed batch: these tasks of it."""

    def release(self, claim: Claim, *, finished: bool) -> None:
        """Give a claim up: finished (every task has an outcome), or free for others."""

    def record(self, batch: int, rows: Sequence[OutcomeRow]) -> Recording:
        """Insert outcomes where there is none yet, and settle the tasks that come after these.

        Followers of completed tasks wait for one task less; followers of all others, and theirs,
        are recorded as cancelled. Updates the batch's counts.
        """

    def cancel_doomed(self, batch: int) -> int:
        """Cancel tasks that come after one which ended without completing; how many."""

    def add_attempts(self, attempts: Iterable[AttemptRow]) -> None:
        """Record attempts that did not end their task."""

    def keep_printed(self, batch: int, printed: Sequence[Printed]) -> None:
        """Record what attempts printed, in place of what they printed before."""

    def requeue(self, batch: int, tasks: Sequence[int]) -> None:
        """Take outcomes away, with all attempts and their output, and let the tasks run again."""

    def pending(self, batch: int) -> list[tuple[int, int]]:
        """Ranges of tasks without an outcome, whoever holds them."""

    def request_cancel(self, batch: int, task: int) -> None:
        """Ask the engine that runs this task to cancel it."""

    def clear_cancel(self, batch: int, task: int) -> None:
        """The request has been seen to."""

    def sign_on(self, host: str, pid: int, backend: str, workers: int) -> int:
        """A number for a new engine."""

    def update_engine(self, engine: int, **columns: Any) -> None:
        """Say what the engine is doing, or ask it to stop."""

    def sign_off(self, engine: int) -> None:
        """The engine is done with this store."""


class Store(ABC):
    """A place for batches and outcomes."""

    location: str
    look_seconds: float = 0.2
    """How often to look for what others did, where nobody tells."""

    @property
    def is_hurried(self) -> bool:
        """Whether a database that does not answer is not worth another try; see `hurry`."""
        return False

    def hurry(self, seconds: float) -> None:  # noqa: B027
        """Give a database up that is silent for so long, until `relax`: the process is to end."""

    def relax(self) -> None:  # noqa: B027
        """Wait for it as before."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """A unit of work that writes: all or nothing, one at a time, safe from many threads."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A consistent view for reading."""

    @abstractmethod
    def alive(self, engine: int) -> bool:
        """Whether an engine that signed on still lives; known at once, not after a lease."""

    @abstractmethod
    def acquire_liveness(self, engine: int) -> None:
        """Let others see this engine as alive until it signs off or this process ends."""

    @abstractmethod
    def release_liveness(self, engine: int) -> None:
        """The inverse of `acquire_liveness`."""

    def check_place(self) -> None:  # noqa: B027 - most stores can't be moved away
        """Raise where the store is no longer the one that was opened; costs next to nothing."""

    def listen(self, heard: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Call this when others have changed something; gives what ends that.

        Where a store can't tell, nothing is called, and `look_seconds` is short.
        """
        return lambda: None

    def change_token(self) -> object:
        """A value that is another one after each change that others are told of; cheap.

        Where a store can't tell, it stays the same.
        """
        return None

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Do this in a transaction, again if the database went away; so it may happen twice."""
        until = clock.monotonic() + StoreAway.patience
        while True:
            try:
                with self.transaction() as tx:
                    return work(tx)
            except (StoreAway, StoreConflict) as error:
                gives_up = self.is_hurried and isinstance(error, StoreAway)
                if gives_up or clock.monotonic() > until:
                    raise

    def spare(self) -> int:
        """Bytes that `compact` would give back to the disk; 0 where that is not worth the work."""
        return 0

    def compact(self) -> int:
        """Give back to the disk what holds nothing; how many bytes that is.

        Others may read meanwhile; the file shrinks once they have finished. Who writes waits.
        """
        return 0

    @abstractmethod
    def check(self) -> Iterator[str]:
        """Everything that is wrong with the store, one sentence each."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""

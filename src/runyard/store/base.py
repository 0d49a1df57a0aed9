"""The interface of all stores, tested by one conformance suite.

Reads (`reading.Snapshot`) and writes (`sql.Transaction`) happen in units of work:

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

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from runyard import clock
from runyard.errors import StoreAway, StoreConflict
from runyard.store.reading import Snapshot
from runyard.store.sql import Transaction

__all__ = ["Snapshot", "Store", "Transaction"]

T = TypeVar("T")


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

    def sign_on(self, backend: str, lanes: int, take_up: Callable[[Transaction, int], T]) -> T:
        """Record a new engine of this process and let it live; `take_up` gets its number.

        It lives before others can see it, who would take it for dead, and no longer if this fails.
        """
        tried: list[int] = []

        def work(tx: Transaction) -> T:
            engine = tx.sign_on(socket.gethostname(), os.getpid(), backend, lanes)
            for number in {*tried} - {engine}:  # of transactions that had to be repeated
                self.release_liveness(number)
            tried.append(engine)
            self.acquire_liveness(engine)
            return take_up(tx, engine)

        try:
            return self.write(work)
        except BaseException:
            for number in {*tried}:
                self.release_liveness(number)
            raise

    def sign_off(self, engine: int, leave: Callable[[Transaction], None] | None = None) -> None:
        """Remove an engine, after `leave` in the same transaction; if that fails, it is dead."""

        def work(tx: Transaction) -> None:
            if leave is not None:
                leave(tx)
            tx.sign_off(engine)

        try:
            self.write(work)
        finally:
            self.release_liveness(engine)

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

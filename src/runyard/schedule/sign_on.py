"""An engine's presence in the store: from signing on for a batch to signing off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from runyard import clock
from runyard.backends.base import Backend
from runyard.errors import NotFound
from runyard.schedule.cancelling import forget_requests, is_running
from runyard.schedule.sweep import sweep_dead_engines
from runyard.store.base import Store, Transaction
from runyard.store.rows import Claim
from runyard.store.stored_batch import StoredBatch
from runyard.store.versions import extended, hash_seed_of

log = logging.getLogger(__name__)


class SignedOn(NamedTuple):
    """What an engine knows once it has signed on."""

    engine: int  # its number
    batch: StoredBatch  # as it is now
    seed_before: str  # the hash seed of what is recorded; "" where nothing is


class Presence:
    """Signs one engine on for one batch, and off again."""

    def __init__(
        self, store: Store, batch: StoredBatch, backend: Backend, folder: Path,
        code: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._store = store
        self._batch = batch
        self._backend = backend
        self._folder = folder  # of the yard
        self._code = code  # fingerprints of the functions
        self._time: Callable[[], float] = clock.steady()

    def sign_on(self) -> SignedOn:
        """Take the batch up; engines that have died are cleared away first."""
        backend = self._backend
        signed_on = self._store.sign_on(backend.name, backend.lanes, self._take_up)
        log.info("%s: engine %d signed on", self._batch.name, signed_on.engine)
        return signed_on

    def sign_off(self, engine: int, claims: list[Claim]) -> None:
        """Release what this engine still holds, and leave."""

        def leave(tx: Transaction) -> None:
            for claim in claims:
                if tx.holds(claim):
                    tx.release(claim, finished=False)
            row = tx.batch_by_id(self._batch.id)
            if row is not None and row.pending:  # else it counts up to its last outcome
                row = row.ran_until(self._time(), clock.pauses)
                tx.update_batch(row.id, seconds=row.seconds, counted=row.counted)

        self._store.sign_off(engine, leave)
        log.info("%s: engine %d signed off", self._batch.name, engine)

    def _take_up(self, tx: Transaction, engine: int) -> SignedOn:
        sweep_dead_engines(tx, self._store, self._folder)
        beside_others = is_running(tx, self._store, self._batch)
        tx.update_engine(engine, batch=self._batch.id)
        found = tx.batch_by_id(self._batch.id)
        if found is None:
            raise NotFound(f"{self._batch.name} was removed from the store")
        if self._batch.listed:
            tx.cancel_doomed(found.id)
            found = tx.batch_by_id(found.id) or found
        now = self._time()
        ran = found.ran_until(now)
        seconds, counted = (ran.seconds, ran.counted) if beside_others else (found.seconds, now)
        # Requests to engines that are gone are void; others may not have seen theirs yet.
        if not beside_others:
            forget_requests(tx, found.id)
        changes: dict[str, Any] = {
            "started": now if found.started is None else found.started,
            "control": found.control if beside_others else None,
            "seconds": seconds,
            "counted": counted,
        }
        before, seed = StoredBatch(found), self._backend.hash_seed()
        code = extended(before, self._code, engine, clock.now(), seed)
        if code is not None:
            changes["code"] = code
        batch = StoredBatch(tx.update_batch(found.id, **changes))
        return SignedOn(engine, batch, hash_seed_of(before) if found.done else "")

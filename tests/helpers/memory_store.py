"""A store in memory, with which the real ones are compared.

The plainest possible statement of what a store does: dicts of frozen rows, copied before a
transaction and put back when it fails.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from memory_tables import MemoryReading, Tables

from runyard import clock
from runyard.errors import NotFound, StoreError
from runyard.spec.outcome import OutcomeRow, Printed
from runyard.spec.status import Status
from runyard.store.base import Store
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    Claim,
    ClaimRow,
    EngineRow,
    QueueRow,
    Recording,
    TaskRow,
    after_incomplete,
    first_free,
    runs,
    unclaimed,
)

_replace = msgspec.structs.replace


class MemoryTransaction(MemoryReading):
    """Reads and writes; see `sql.Transaction` for what each does."""

    def create_batch(self, **columns: Any) -> BatchRow:
        fresh = {
            "frontier": 0, "completed": 0, "failed": 0, "cancelled": 0, "started": None,
            "finished": None, "seconds": 0.0, "control": None, "counted": None,
            "created": clock.now(),
        }  # fmt: skip
        if self.batch(columns["name"]) is not None:
            raise StoreError(f"there is a batch {columns['name']!r} already")
        row = BatchRow(**{**fresh, **columns, "id": self._t.number()})
        self._t.batches[row.id] = row
        return row

    def update_batch(self, batch: int, **columns: Any) -> BatchRow:
        if batch not in self._t.batches:
            raise NotFound(f"batch number {batch} is gone from the store")
        self._t.batches[batch] = row = _replace(self._t.batches[batch], **columns)
        return row

    def delete_batch(self, batch: int) -> None:
        t = self._t
        t.batches.pop(batch, None)
        t.outcomes.pop(batch, None)
        t.tasks = {k: row for k, row in t.tasks.items() if k[0] != batch}
        t.queue = {k: row for k, row in t.queue.items() if k[0] != batch}
        t.attempts = {k: row for k, row in t.attempts.items() if k[0] != batch}
        t.printed = {k: row for k, row in t.printed.items() if k[0] != batch}
        t.claims = {k: row for k, row in t.claims.items() if row.batch != batch}
        t.edges = {e for e in t.edges if e[0] != batch}
        t.cancels = {c for c in t.cancels if c[0] != batch}

    def add_tasks(
        self,
        batch: int,
        tasks: Sequence[tuple[str | None, int, bytes, Sequence[int]]],
        *,
        engine: int | None = None,
        token: str | None = None,
    ) -> None:
        found = self._t.batches[batch]
        start = found.next_task
        for number, (name, priority, content, after) in enumerate(tasks, start=start):
            waits = 0
            for before in after:
                done = self.outcome(batch, before)
                if done is None or Status.of(done.status) is not Status.COMPLETED:
                    self._t.edges.add((batch, before, number))
                    waits += 1
            row = TaskRow(batch, number, name, priority, content, clock.now())
            self._t.tasks[batch, number] = row
            self._t.queue[batch, number] = QueueRow(batch, number, priority, waits, engine, token)
        total, end = found.total + len(tasks), start + len(tasks)
        self.update_batch(batch, total=total, frontier=end, finished=None)

    def forget(self, batch: int) -> int:
        t, row = self._t, self._t.batches[batch]
        ended = t.outcomes.pop(batch, {}).keys()
        t.tasks = {k: v for k, v in t.tasks.items() if k[0] != batch or k[1] not in ended}
        t.attempts = {k: v for k, v in t.attempts.items() if k[0] != batch or k[1] not in ended}
        t.printed = {k: v for k, v in t.printed.items() if k[0] != batch or k[1] not in ended}
        t.edges = {e for e in t.edges if e[0] != batch or not ended & set(e[1:])}
        none = {"completed": 0, "failed": 0, "cancelled": 0}
        self.update_batch(batch, **none, total=row.pending, frontier=row.next_task)
        return row.done

    def take(self, batch: int, engine: int, token: str, tasks: Sequence[int]) -> Claim | None:
        rows = [r for r in self.queue(batch) if r.task in tasks and not r.waiting]
        mine = [r for r in rows if r.token == token or not self._is_held(r.engine)]
        return self._give(mine, engine, token)

    def claim(
        self,
        batch: int,
        engine: int,
        want: int,
        *,
        token: str | None = None,
        again: bool = False,
    ) -> Claim | None:
        listed, want = self._is_listed(batch), max(1, want)
        token = token or secrets.token_hex(8)
        if again:  # nothing is ever unsure in memory; what the token holds is taken anew
            self.release(Claim(0 if listed else 1, batch, token, [], {}), finished=False)
        return (self._claim_listed if listed else self._claim_range)(batch, engine, want, token)

    def _claim_listed(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        free = [r for r in self.queue(batch) if not r.waiting and not self._is_held(r.engine)]
        return self._give(free[: max(1, want)], engine, token)

    def _give(self, rows: Sequence[QueueRow], engine: int, token: str) -> Claim | None:
        for row in rows:
            self._t.queue[row.batch, row.task] = _replace(row, engine=engine, token=token)
        contents = {r.task: self._t.tasks[r.batch, r.task].content for r in rows}
        if not contents:
            return None
        batch = rows[0].batch
        awaited = {before for owner, before, _ in self._t.edges if owner == batch}
        return Claim(0, batch, token, [], contents, True, frozenset(awaited.intersection(contents)))

    def _claim_range(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        free = first_free(self.claims(batch), lambda c: not self._is_held(c.engine), want)
        if free:
            for row in free:
                self._t.claims[row.id] = _replace(row, engine=engine, token=token)
            left = [part for row in free for part in self._left_in(row)]
            return Claim(free[0].id, batch, token, left, {}, again=True)
        found = self._t.batches.get(batch)
        if found is None or found.frontier >= found.total:
            return None
        high = min(found.frontier + max(1, want), found.total)
        row = ClaimRow(self._t.number(), batch, found.frontier, high, engine, token)
        self._t.claims[row.id] = row
        self.update_batch(batch, frontier=high)
        return Claim(row.id, batch, token, self._left_in(row), {})

    def release(self, claim: Claim, *, finished: bool) -> None:
        if claim.id == 0:
            for key, row in list(self._t.queue.items()):
                if row.token == claim.token:
                    self._t.queue[key] = _replace(row, engine=None, token=None)
            return
        for held in self.claims(claim.batch):
            if held.token == claim.token and finished:
                del self._t.claims[held.id]
            elif held.token == claim.token:
                self._t.claims[held.id] = _replace(held, engine=None)

    def record(self, batch: int, rows: Sequence[OutcomeRow]) -> Recording:
        count = self._insert(batch, rows)
        known = self._t.outcomes.get(batch, {})
        ended = {row[0]: known[row[0]].status for row in rows}
        lost = [task for task, status in ended.items() if status != Status.COMPLETED.code]
        count += self._insert(batch, self._doomed(batch, lost))
        freed = []
        settled = {task for task, status in ended.items() if status == Status.COMPLETED.code}
        for edge in sorted(self._t.edges):
            if edge[0] == batch and edge[1] in settled:
                self._t.edges.discard(edge)
                row = self._t.queue.get((batch, edge[2]))
                if row is not None:
                    self._t.queue[batch, row.task] = _replace(row, waiting=row.waiting - 1)
                    freed += [row.task] if row.waiting == 1 else []
        return Recording(count, sorted(freed))

    def cancel_doomed(self, batch: int) -> int:
        known = self._t.outcomes.get(batch, {})
        before = {edge.before for edge in self.edges(batch)} & known.keys()
        lost = [task for task in before if known[task].status != Status.COMPLETED.code]
        return self._insert(batch, self._doomed(batch, lost))

    def _doomed(self, batch: int, lost: Sequence[int]) -> list[OutcomeRow]:
        """The outcomes of what comes after tasks that did not complete."""
        edges, found, reached = self.edges(batch), dict[int, int](), list(lost)
        while reached:
            before = reached.pop()
            for task in (edge.task for edge in edges if edge.before == before):
                if (batch, task) in self._t.queue:
                    reached += [] if task in found else [task]
                    found[task] = min(before, found.get(task, before))
        return [after_incomplete(batch, task, before) for task, before in sorted(found.items())]

    def _insert(self, batch: int, rows: Sequence[OutcomeRow]) -> int:
        if not rows:
            return 0
        known = self._t.outcomes.setdefault(batch, {})
        found = self._t.batches[batch]
        added = 0
        for row in rows:
            self._t.queue.pop((batch, row[0]), None)
            if row[0] not in known:
                known[row[0]] = OutcomeRow._make(row)
                name = Status.of(row[1]).value
                found = _replace(found, **{name: getattr(found, name) + 1})
                added += 1
        if found.done == found.total:
            found = _replace(found, finished=clock.now())
        self._t.batches[batch] = found
        return added

    def add_attempts(self, attempts: Iterable[AttemptRow]) -> None:
        for row in attempts:
            self._t.attempts[row.batch, row.task, row.number] = row

    def keep_printed(self, batch: int, printed: Sequence[Printed]) -> None:
        self._t.printed |= {(batch, each.task, each.attempt): each for each in printed}

    def requeue(self, batch: int, tasks: Sequence[int]) -> None:
        listed = self._is_listed(batch)
        known, found = self._t.outcomes.get(batch, {}), self._t.batches[batch]
        numbers = sorted(number for number in tasks if number in known)
        for number in numbers:
            name = Status.of(known.pop(number).status).value
            found = _replace(found, **{name: getattr(found, name) - 1})
            for table in (self._t.attempts, self._t.printed):
                for key in [k for k in table if k[:2] == (batch, number)]:
                    del table[key]
            if listed:
                priority = self._t.tasks[batch, number].priority
                waits = sum(1 for b, _, t in self._t.edges if (b, t) == (batch, number))
                queued = QueueRow(batch, number, priority, waits, None, None)
                self._t.queue[batch, number] = queued
        if not listed:
            for low, high in runs(unclaimed(numbers, found.frontier, self.claims(batch))):
                row_id = self._t.number()
                self._t.claims[row_id] = ClaimRow(row_id, batch, low, high, None, "")
        self._t.batches[batch] = _replace(found, finished=None, control=None)

    def request_cancel(self, batch: int, task: int) -> None:
        self._t.cancels.add((batch, task))

    def clear_cancel(self, batch: int, task: int) -> None:
        self._t.cancels.discard((batch, task))

    def sign_on(self, host: str, pid: int, backend: str, workers: int) -> int:
        number = self._t.number()
        row = EngineRow(number, host, pid, clock.now(), None, backend, workers, 0, 0.0, 0)
        self._t.engines[number] = row
        return number

    def update_engine(self, engine: int, **columns: Any) -> None:
        if engine in self._t.engines:
            self._t.engines[engine] = _replace(self._t.engines[engine], **columns)

    def sign_off(self, engine: int) -> None:
        self._t.engines.pop(engine, None)


class MemoryStore(Store):
    """A store that is gone with the process."""

    location = "memory:"

    def __init__(self) -> None:
        self._tables = Tables()
        self._living: set[int] = set()
        self._lock = threading.RLock()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        with self._lock:
            before = self._tables.copy()
            try:
                yield MemoryTransaction(self._tables, self._living)
            except BaseException:
                self._tables = before
                raise

    @contextmanager
    def snapshot(self) -> Iterator[MemoryTransaction]:
        with self._lock:
            frozen = self._tables.copy()
        yield MemoryTransaction(frozen, self._living)

    def alive(self, engine: int) -> bool:
        return engine in self._living

    def acquire_liveness(self, engine: int) -> None:
        self._living.add(engine)

    def release_liveness(self, engine: int) -> None:
        self._living.discard(engine)

    def check(self) -> Iterator[str]:
        for batch, rows in self._tables.outcomes.items():
            for row in rows.values():
                row.check(batch)
        yield from ()

    def close(self) -> None:
        """Nothing to let go of."""

"""What the memory store holds, and how it is read: dicts of frozen rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from runyard.spec.outcome import OutcomeRow, Printed, workers_of
from runyard.spec.status import CANCELLED, Status
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    Claim,
    ClaimRow,
    EdgeRow,
    EngineRow,
    QueueRow,
    TaskRow,
    Timings,
    gaps,
    runs,
)


class Tables:
    """Everything, by its key."""

    def __init__(self) -> None:
        self.batches: dict[int, BatchRow] = {}
        self.outcomes: dict[int, dict[int, OutcomeRow]] = {}
        self.tasks: dict[tuple[int, int], TaskRow] = {}
        self.queue: dict[tuple[int, int], QueueRow] = {}
        self.edges: set[tuple[int, int, int]] = set()
        self.claims: dict[int, ClaimRow] = {}
        self.attempts: dict[tuple[int, int, int], AttemptRow] = {}
        self.printed: dict[tuple[int, int, int], Printed] = {}
        self.cancels: set[tuple[int, int]] = set()
        self.engines: dict[int, EngineRow] = {}
        self.serial = 0

    def copy(self) -> Tables:
        """As it stands; rows are frozen, so only the dicts are copied."""
        twin = Tables()
        twin.__dict__.update(
            {k: v.copy() if hasattr(v, "copy") else v for k, v in self.__dict__.items()}
        )
        twin.outcomes = {batch: rows.copy() for batch, rows in self.outcomes.items()}
        return twin

    def number(self) -> int:
        """One that nothing else has."""
        self.serial += 1
        return self.serial


class MemoryReading:
    """Reads; see `reading.Snapshot` for what each does."""

    def __init__(self, tables: Tables, alive: set[int]) -> None:
        self._t = tables
        self._alive = alive

    def batch(self, name: str) -> BatchRow | None:
        return next((b for b in self._t.batches.values() if b.name == name), None)

    def batch_by_id(self, batch: int) -> BatchRow | None:
        return self._t.batches.get(batch)

    def batches(self) -> list[BatchRow]:
        return sorted(self._t.batches.values(), key=lambda b: b.id)

    def outcome(self, batch: int, task: int) -> OutcomeRow | None:
        return self._t.outcomes.get(batch, {}).get(task)

    def outcomes(
        self,
        batch: int,
        *,
        after: int = -1,
        limit: int | None = None,
        statuses: Sequence[int] | None = None,
    ) -> Iterator[OutcomeRow]:
        rows = self._t.outcomes.get(batch, {})
        wanted = (
            rows[n].check(batch)
            for n in sorted(rows)
            if n > after and (statuses is None or rows[n].status in statuses)
        )
        return islice(wanted, limit)

    def made_by(self, batch: int, low: int, high: int) -> list[int]:
        first, last = workers_of(low, high)
        rows = self._t.outcomes.get(batch, {}).values()
        made = (row for row in rows if first <= row.worker <= last)
        return sorted(row.task for row in made if row.status != CANCELLED)

    def attempts(self, batch: int, task: int | None = None) -> list[AttemptRow]:
        return [
            row
            for (b, t, _), row in sorted(self._t.attempts.items())
            if b == batch and task in (None, t)
        ]

    def printed(self, batch: int, task: int) -> list[Printed]:
        return [row for key, row in sorted(self._t.printed.items()) if key[:2] == (batch, task)]

    def task(self, batch: int, task: int) -> TaskRow | None:
        return self._t.tasks.get((batch, task))

    def tasks(self, batch: int, *, after: int = -1, limit: int | None = None) -> list[TaskRow]:
        found = (r for k, r in sorted(self._t.tasks.items()) if k[0] == batch and k[1] > after)
        return list(islice(found, limit))

    def latest(self, batch: int, limit: int) -> list[OutcomeRow]:
        rows = self._t.outcomes.get(batch, {})
        return [rows[n].check(batch) for n in sorted(rows, reverse=True)[:limit]]

    def by_end(
        self,
        batch: int,
        limit: int,
        *,
        offset: int = 0,
        statuses: Sequence[int] | None = None,
        latest_first: bool = False,
    ) -> list[OutcomeRow]:
        found = list(self.outcomes(batch, statuses=statuses))
        found.sort(key=lambda row: (row.started + row.seconds, row.task), reverse=latest_first)
        return found[offset : offset + limit]

    def queued(self, batch: int, task: int) -> QueueRow | None:
        return self._t.queue.get((batch, task))

    def has_priorities(self, batch: int) -> bool:
        return len({row.priority for row in self.queue(batch)}) > 1

    def next_free(self, batch: int) -> QueueRow | None:
        rows = (r for r in self.queue(batch) if r.engine is None and not r.waiting)
        return next(rows, None)

    def ahead(self, row: QueueRow) -> int:
        rows = [each for each in self.queue(row.batch) if not each.waiting]
        before = [r for r in rows if (-r.priority, r.task) < (-row.priority, row.task)]
        return len(before)

    def queue(
        self, batch: int, *, engine: int | None = None, limit: int | None = None
    ) -> list[QueueRow]:
        rows = (row for row in self._t.queue.values() if row.batch == batch)
        found = [row for row in rows if engine in (None, row.engine)]
        return sorted(found, key=lambda row: (-row.priority, row.task))[:limit]

    def claims(self, batch: int) -> list[ClaimRow]:
        rows = [row for row in self._t.claims.values() if row.batch == batch]
        return sorted(rows, key=lambda row: row.low)

    def engines(self) -> list[EngineRow]:
        return sorted(self._t.engines.values(), key=lambda row: row.id)

    def edges(self, batch: int) -> list[EdgeRow]:
        return [EdgeRow(*edge) for edge in sorted(self._t.edges) if edge[0] == batch]

    def cancel_requests(self, batch: int) -> list[int]:
        return sorted(task for b, task in self._t.cancels if b == batch)

    def timings(self, batch: int) -> Timings:
        cancelled = Status.CANCELLED.code
        rows = [r for r in self._t.outcomes.get(batch, {}).values() if r[1] != cancelled]
        begun = self._t.batches[batch].started or 0.0
        if not rows:
            return Timings(0, 0.0, 0.0, 0.0)
        seconds = [row[6] for row in rows]
        waits = [row[5] - begun for row in rows]
        mean, wait = sum(seconds) / len(rows), sum(waits) / len(rows)
        return Timings(len(rows), mean, max(seconds), wait)

    def holds(self, claim: Claim, tasks: Sequence[int] = ()) -> bool:
        if tasks and claim.id == 0:
            ended = self._t.outcomes.get(claim.batch, {})
            rows = [self._t.queue.get((claim.batch, task)) for task in tasks if task not in ended]
            return all(row is not None and row.token == claim.token for row in rows)
        if claim.id == 0:
            return any(r.token == claim.token for r in self._t.queue.values())
        row = self._t.claims.get(claim.id)
        return row is not None and row.token == claim.token

    def pending(self, batch: int) -> list[tuple[int, int]]:
        if self._is_listed(batch):
            return runs(sorted(row.task for row in self.queue(batch)))
        found = self._t.batches[batch]
        rest = ClaimRow(0, batch, found.frontier, found.total, None, "")
        return [part for row in (*self.claims(batch), rest) for part in self._left_in(row)]

    def _is_listed(self, batch: int) -> bool:
        row = self._t.batches.get(batch)
        return row is not None and row.plan is None

    def _is_held(self, engine: int | None) -> bool:
        return engine is not None and engine in self._alive

    def _left_in(self, row: ClaimRow) -> list[tuple[int, int]]:
        known = self._t.outcomes.get(row.batch, {})
        return gaps(row.low, row.high, sorted(n for n in known if row.low <= n < row.high))

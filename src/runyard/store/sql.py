"""A unit of work, in SQLAlchemy Core. What differs between databases lives in their files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, func, select

from runyard import clock
from runyard.errors import NotFound
from runyard.spec.outcome import OutcomeRow, Printed, Rows
from runyard.spec.status import COMPLETED, FINAL_STATES, Status
from runyard.store import schema
from runyard.store.claiming import SqlClaims
from runyard.store.pieces import cut, lightened
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    EdgeRow,
    EngineRow,
    QueueRow,
    TaskRow,
    gaps,
    runs,
    unclaimed,
)
from runyard.store.writing import batched

WISHES = {"control", "total", "finished", "priority"}
"""What of a batch engines want to hear of when it changes."""


class SqlTransaction(SqlClaims):
    """Reads and writes over one connection, inside one database transaction."""

    def create_batch(self, **columns: Any) -> BatchRow:
        fresh = {
            "frontier": 0,
            "completed": 0,
            "failed": 0,
            "cancelled": 0,
            "started": None,
            "finished": None,
            "seconds": 0.0,
            "control": None,
            "counted": None,
            "created": clock.now(),
        }
        row = self._insert(BatchRow, schema.batches, {**fresh, **columns})
        self._notify(row.id)
        return row

    def update_batch(self, batch: int, **columns: Any) -> BatchRow:
        row = self.batch_by_id(batch)
        if row is None:
            raise NotFound(f"batch number {batch} is gone from the store")
        changed = msgspec.structs.replace(row, **columns)
        self._put(schema.batches, changed)
        if columns.keys() & WISHES:
            self._notify(batch)
        return changed

    def delete_batch(self, batch: int) -> None:
        for table in schema.metadata.sorted_tables:
            if "batch" in table.c and table is not schema.engines:
                self._connection.execute(delete(table).where(table.c.batch == batch))
        self._connection.execute(delete(schema.batches).where(schema.batches.c.id == batch))

    def add_tasks(
        self,
        batch: int,
        tasks: Sequence[tuple[str | None, int, bytes, Sequence[int]]],
        *,
        engine: int | None = None,
        token: str | None = None,
    ) -> None:
        row = self.batch_by_id(batch)
        assert row is not None
        created, first = clock.now(), row.next_task
        self._insert_many(
            schema.tasks,
            [(batch, n, name, priority, content, created)
             for n, (name, priority, content, _) in enumerate(tasks, first)],
        )  # fmt: skip
        later = [(n, task[3]) for n, task in enumerate(tasks, first) if task[3]]
        done = self._completed_among({before for _, after in later for before in after}, batch)
        edges = [(batch, before, n) for n, after in later for before in after if before not in done]
        waits = Counter(number for _, _, number in edges)
        self._insert_many(
            schema.queue,
            [(batch, n, task[1], waits.get(n, 0), engine, token)
             for n, task in enumerate(tasks, first)],
        )  # fmt: skip
        self._insert_many(schema.edges, edges)
        total, end = row.total + len(tasks), first + len(tasks)
        self.update_batch(batch, total=total, frontier=end, finished=None)

    def forget(self, batch: int) -> int:
        row = self.batch_by_id(batch)
        assert row is not None
        outcomes = schema.outcomes
        ended = select(outcomes.c.task).where(outcomes.c.batch == batch)
        for table, task in (
            (schema.tasks, schema.tasks.c.task),
            (schema.attempts, schema.attempts.c.task),
            (schema.outputs, schema.outputs.c.task),
            (schema.pieces, schema.pieces.c.task),
            (schema.edges, schema.edges.c.before),
            (schema.edges, schema.edges.c.task),
            (outcomes, outcomes.c.task),
        ):
            gone = delete(table).where(table.c.batch == batch)
            self._connection.execute(gone if table is outcomes else gone.where(task.in_(ended)))
        none = {status.value: 0 for status in FINAL_STATES}
        self.update_batch(batch, **none, total=row.pending, frontier=row.next_task)
        return row.done

    def record(self, batch: int, rows: Sequence[OutcomeRow], *, listed: bool) -> int:
        if not rows:
            return 0
        counted: dict[str, int] = {}
        rows, heavy = lightened(Rows.of(rows))
        codes = rows.statuses
        for code in codes:
            of_kind = rows if len(codes) == 1 else rows.only(lambda row: row.status == code)  # noqa: B023
            name = Status.of(code).value
            counted[name] = self._insert_outcomes(batch, code, of_kind)
        for row in heavy:
            self._insert_pieces(batch, row)
        if listed:
            for some in batched(rows.tasks):
                where = schema.queue.c.batch == batch, self._among(schema.queue.c.task, some)
                self._connection.execute(delete(schema.queue).where(*where))
        found = self.batch_by_id(batch)
        assert found is not None
        changes: dict[str, Any] = {n: getattr(found, n) + k for n, k in counted.items()}
        if found.done + sum(counted.values()) == found.total:
            changes["finished"] = clock.now()
            self._notify(batch)
        self._put(schema.batches, msgspec.structs.replace(found, **changes))
        return sum(counted.values())

    def leaders(self, batch: int, tasks: Sequence[int]) -> set[int]:
        edges, found = schema.edges, set[int]()
        one = select(edges.c.task).where(edges.c.batch == batch).limit(1)
        if self._connection.scalar(one) is None:
            return found
        for some in batched(tasks):
            where = edges.c.batch == batch, self._among(edges.c.before, some)
            found |= set(self._connection.scalars(select(edges.c.before).where(*where)))
        return found

    def followers(self, batch: int, task: int) -> list[int]:
        edges = schema.edges
        where = edges.c.batch == batch, edges.c.before == task
        rows = self._all(EdgeRow, edges, *where, order=[edges.c.task])
        return [row.task for row in rows if self._get(QueueRow, schema.queue, batch, row.task)]

    def settle_followers(self, batch: int, task: int) -> None:
        table = schema.queue
        for number in self.followers(batch, task):
            row = self._get(QueueRow, table, batch, number)
            if row is not None:
                self._put(table, msgspec.structs.replace(row, waiting=row.waiting - 1))
        edges = schema.edges
        where_edges = edges.c.batch == batch, edges.c.before == task
        self._connection.execute(delete(edges).where(*where_edges))

    def add_attempts(self, attempts: Iterable[AttemptRow]) -> None:
        rows = (msgspec.structs.astuple(a) for a in attempts)
        self._insert_many(schema.attempts, rows, clash="keep")

    def keep_printed(self, batch: int, printed: Sequence[Printed]) -> None:
        last = {(each.task, each.attempt): each for each in printed}
        self._insert_many(schema.outputs, ((batch, *each) for each in last.values()), clash="put")

    def requeue(self, batch: int, tasks: Sequence[int], *, listed: bool) -> None:
        record = self.batch_by_id(batch)
        assert record is not None
        lost = {status.value: 0 for status in FINAL_STATES}
        numbers: list[int] = []
        known = schema.outcomes
        for some in batched(sorted(tasks)):
            query = select(known.c.task, known.c.status).order_by(known.c.task)
            query = query.where(known.c.batch == batch, self._among(known.c.task, some))
            ended = {row.task: row.status for row in self._connection.execute(query)}
            numbers += ended
            for status in ended.values():
                lost[Status.of(status).value] += 1
            tables = known, schema.attempts, schema.outputs, schema.pieces
            for table in tables if ended else ():
                theirs = self._among(table.c.task, list(ended))
                self._connection.execute(delete(table).where(table.c.batch == batch, theirs))
        self._notify(batch)
        if listed:
            rows = [found for n in numbers if (found := self.task(batch, n)) is not None]
            self._insert_many(
                schema.queue,
                ((batch, r.task, r.priority, self._waits(r), None, None) for r in rows),
            )
        else:
            for low, high in runs(unclaimed(numbers, record.frontier, self.claims(batch))):
                self._insert_claim(batch, low, high, None, "")
        kept = {name: getattr(record, name) - count for name, count in lost.items()}
        self.update_batch(batch, **kept, finished=None, control=None)

    def pending(self, batch: int, *, listed: bool) -> list[tuple[int, int]]:
        if listed:
            return runs(sorted(row.task for row in self.queue(batch)))
        found = self.batch_by_id(batch)
        assert found is not None
        spans = [(claim.low, claim.high) for claim in self.claims(batch)]
        spans += [(found.frontier, found.total)]
        return [
            gap for low, high in spans for gap in gaps(low, high, self._done_in(batch, low, high))
        ]

    def request_cancel(self, batch: int, task: int) -> None:
        self.clear_cancel(batch, task)
        self._insert_many(schema.cancels, [(batch, task)])
        self._notify(batch)

    def clear_cancel(self, batch: int, task: int) -> None:
        self._drop(schema.cancels, batch, task)

    def sign_on(self, host: str, pid: int, backend: str, workers: int) -> int:
        columns = {
            "host": host, "pid": pid, "started": clock.now(), "batch": None,
            "backend": backend, "workers": workers, "running": 0, "rate": 0.0, "stop": 0,
        }  # fmt: skip
        return self._insert(EngineRow, schema.engines, columns).id

    def update_engine(self, engine: int, **columns: Any) -> None:
        row = self._get(EngineRow, schema.engines, engine)
        if row is not None:
            self._put(schema.engines, msgspec.structs.replace(row, **columns))
            if columns.keys() & {"stop", "batch"}:
                self._notify(row.batch or 0)

    def sign_off(self, engine: int) -> None:
        self._drop(schema.engines, engine)

    def _insert_pieces(self, batch: int, row: OutcomeRow) -> None:
        """Insert the value of an outcome, unless the task has another one."""
        known = schema.outcomes.c
        where = known.batch == batch, known.task == row.task
        if self._connection.scalar(select(known.checksum).where(*where)) == row.checksum:
            for number, data in cut(row.value or b""):
                self._insert_many(schema.pieces, [(batch, row.task, number, data)], clash="keep")

    def _waits(self, row: TaskRow) -> int:
        edges = schema.edges
        query = select(func.count()).select_from(edges)
        where = edges.c.batch == row.batch, edges.c.task == row.task
        return self._connection.scalar(query.where(*where)) or 0

    def _completed_among(self, numbers: set[int], batch: int) -> set[int]:
        return {
            n
            for n in numbers
            if (row := self.outcome(batch, n)) is not None and row.status == COMPLETED
        }

"""Writes, in SQLAlchemy Core. What differs between databases lives in their files."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Table, delete, func, insert, select

from runyard import clock, faults
from runyard.errors import NotFound
from runyard.spec.outcome import OutcomeRow, Rows, damaged
from runyard.spec.status import COMPLETED, FINAL_STATES, Status
from runyard.store import schema
from runyard.store.reading import SqlSnapshot
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    Claim,
    ClaimRow,
    EdgeRow,
    EngineRow,
    QueueRow,
    TaskRow,
    first_free,
    gaps,
    runs,
    unclaimed,
)
from runyard.store.statements import keyed, run, seal, statements

R = TypeVar("R", bound=msgspec.Struct)


class SqlTransaction(SqlSnapshot):
    """Reads and writes over one connection, inside one database transaction."""

    def __init__(
        self,
        connection: Connection,
        insert_outcomes: Callable[[Connection, int, int, Rows], int],
        alive: Callable[[int], bool],
    ) -> None:
        super().__init__(connection)
        self._insert_outcomes = insert_outcomes
        self._alive = alive

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
            "created": clock.now(),
        }
        return self._insert(BatchRow, schema.batches, {**fresh, **columns})

    def update_batch(self, batch: int, **columns: Any) -> BatchRow:
        row = self.batch_by_id(batch)
        if row is None:
            raise NotFound(f"batch number {batch} is gone from the store")
        changed = msgspec.structs.replace(row, **columns)
        self._put(schema.batches, changed)
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
        created = clock.now()
        numbered = list(enumerate(tasks, start=row.total))
        self._insert_many(
            schema.tasks,
            ((batch, n, name, priority, content, created)
             for n, (name, priority, content, _) in numbered),
        )  # fmt: skip
        done = self._completed_among({before for _, task in numbered for before in task[3]}, batch)
        edges = [(batch, b, n) for n, task in numbered for b in task[3] if b not in done]
        waits: dict[int, int] = {}
        for _, _, number in edges:
            waits[number] = waits.get(number, 0) + 1
        self._insert_many(
            schema.queue,
            ((batch, n, task[1], waits.get(n, 0), engine, token) for n, task in numbered),
        )
        self._insert_many(schema.edges, edges)
        self.update_batch(batch, total=row.total + len(numbered), finished=None)

    def claim(self, batch: int, engine: int, want: int, *, listed: bool) -> Claim | None:
        faults.point("claim")
        found = self._claim_listed if listed else self._claim_range
        return found(batch, engine, max(1, want), secrets.token_hex(8))

    def take(self, batch: int, engine: int, token: str, tasks: Sequence[int]) -> None:
        for task in tasks:
            row = self._get(QueueRow, schema.queue, batch, task)
            if row is not None:
                mine = msgspec.structs.replace(row, engine=engine, token=token)
                self._put(schema.queue, mine)

    def holds(self, claim: Claim, tasks: Sequence[int] = ()) -> bool:
        if tasks and claim.id == 0:
            rows = (self._get(QueueRow, schema.queue, claim.batch, task) for task in tasks)
            return all(row is None or row.token == claim.token for row in rows)
        if claim.id == 0:
            table = schema.queue
            where = table.c.batch == claim.batch, table.c.token == claim.token
            query = select(func.count()).select_from(table).where(*where)
            return bool(self._connection.scalar(query))
        row = self._get(ClaimRow, schema.claims, claim.id)
        return row is not None and row.token == claim.token

    def release(self, claim: Claim, *, finished: bool) -> None:
        if claim.id == 0:
            table = schema.queue
            for row in self._all(QueueRow, table, table.c.batch == claim.batch,
                                 table.c.token == claim.token):  # fmt: skip
                free = msgspec.structs.replace(row, engine=None, token=None)
                self._put(table, free)
            return
        table = schema.claims
        for held in self._all(ClaimRow, table, table.c.batch == claim.batch,
                              table.c.token == claim.token):  # fmt: skip
            if finished:
                self._drop(table, held.id)
            else:
                self._put(table, msgspec.structs.replace(held, engine=None))

    def record(self, batch: int, rows: Sequence[OutcomeRow], *, listed: bool) -> int:
        if not rows:
            return 0
        counted: dict[str, int] = {}
        rows = Rows.of(rows)
        codes = rows.statuses
        for code in codes:
            of_kind = rows if len(codes) == 1 else rows.only(lambda row: row.status == code)  # noqa: B023
            name = Status.of(code).value
            counted[name] = self._insert_outcomes(self._connection, batch, code, of_kind)
        if listed:
            for row in rows:
                self._drop(schema.queue, batch, row[0])
        found = self.batch_by_id(batch)
        assert found is not None
        changes: dict[str, Any] = {n: getattr(found, n) + k for n, k in counted.items()}
        if found.done + sum(counted.values()) == found.total:
            changes["finished"] = clock.now()
        self._put(schema.batches, msgspec.structs.replace(found, **changes))
        return sum(counted.values())

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
        self._insert_many(schema.attempts, (msgspec.structs.astuple(a) for a in attempts))

    def requeue(self, batch: int, tasks: Sequence[int], *, listed: bool) -> None:
        record = self.batch_by_id(batch)
        assert record is not None
        lost = {status.value: 0 for status in FINAL_STATES}
        numbers = []
        for number in sorted(tasks):
            row = self.outcome(batch, number)
            if row is not None:
                numbers.append(number)
                lost[Status.of(row.status).value] += 1
                self._drop(schema.outcomes, batch, number)
                where = schema.attempts.c.batch == batch, schema.attempts.c.task == number
                self._connection.execute(delete(schema.attempts).where(*where))
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

    def sign_off(self, engine: int) -> None:
        self._drop(schema.engines, engine)

    def _claim_range(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        free = first_free(self.claims(batch), self._is_free, want)
        if free:
            left = []
            for row in free:
                mine = msgspec.structs.replace(row, engine=engine, token=token)
                self._put(schema.claims, mine)
                left += gaps(row.low, row.high, self._done_in(batch, row.low, row.high))
            return Claim(free[0].id, batch, token, left, {})
        found = self.batch_by_id(batch)
        if found is None or found.frontier >= found.total:
            return None
        high = min(found.frontier + want, found.total)
        row = self._insert_claim(batch, found.frontier, high, engine, token)
        self.update_batch(batch, frontier=high)
        return Claim(
            row.id,
            batch,
            token,
            gaps(row.low, row.high, self._done_in(batch, row.low, row.high)),
            {},
        )

    def _claim_listed(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        table = schema.queue
        held = select(table.c.engine).where(table.c.batch == batch, table.c.engine.is_not(None))
        for other in self._connection.scalars(held.distinct()).all():
            if not self._alive(other):
                for row in self._all(QueueRow, table, table.c.batch == batch,
                                     table.c.engine == other):  # fmt: skip
                    free = msgspec.structs.replace(row, engine=None, token=None)
                    self._put(table, free)
        ready = self._all(
            QueueRow,
            table,
            table.c.batch == batch,
            table.c.engine.is_(None),
            table.c.waiting == 0,
            order=[table.c.priority.desc(), table.c.task],
            limit=want,
        )
        contents = {}
        for row in ready:
            mine = msgspec.structs.replace(row, engine=engine, token=token)
            self._put(table, mine)
            listed = self.task(batch, row.task)
            if listed is None:
                raise damaged("tasks", f"task {row.task}")
            contents[row.task] = listed.content
        return Claim(0, batch, token, [], contents) if contents else None

    def _is_free(self, claim: ClaimRow) -> bool:
        return claim.engine is None or not self._alive(claim.engine)

    def _waits(self, row: TaskRow) -> int:
        edges = schema.edges
        query = select(func.count()).select_from(edges)
        where = edges.c.batch == row.batch, edges.c.task == row.task
        return self._connection.scalar(query.where(*where)) or 0

    def _insert_claim(
        self, batch: int, low: int, high: int, engine: int | None, token: str
    ) -> ClaimRow:
        columns = {"batch": batch, "low": low, "high": high, "engine": engine, "token": token}
        return self._insert(ClaimRow, schema.claims, columns)

    def _done_in(self, batch: int, low: int, high: int) -> list[int]:
        table = schema.outcomes
        query = (
            select(table.c.task)
            .where(table.c.batch == batch, table.c.task >= low, table.c.task < high)
            .order_by(table.c.task)
        )
        found = list(self._connection.scalars(query))
        if found and (found[0] < low or found[-1] >= high or found != sorted(set(found))):
            raise damaged("outcomes", f"the order of tasks {low} to {high}")
        return found

    def _completed_among(self, numbers: set[int], batch: int) -> set[int]:
        return {
            n
            for n in numbers
            if (row := self.outcome(batch, n)) is not None and row.status == COMPLETED
        }

    def _insert(self, kind: type[R], table: Table, columns: dict[str, Any]) -> R:
        """Insert a row whose number the database gives, then seal it with that number."""
        given = {**columns, "checksum": 0}
        key = self._connection.execute(insert(table).values(given)).inserted_primary_key
        assert key is not None
        row = kind(**{**columns, "id": key[0]})
        self._put(table, row)
        return row

    def _put(self, table: Table, row: msgspec.Struct) -> None:
        """Write a row that is there already, by its key."""
        values = msgspec.structs.asdict(row)
        sealed = seal(table, tuple(values.values()))
        keys = {f"key_{c.name}": values[c.name] for c in table.primary_key}
        run(self._connection, statements(table).put, **keys, **values, checksum=sealed)

    def _drop(self, table: Table, *key: Any) -> None:
        run(self._connection, statements(table).drop, **keyed(table, key))

    def _insert_many(self, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
        names = [c.name for c in table.c]
        sealed = [dict(zip(names, (*row, seal(table, row)), strict=True)) for row in rows]
        if sealed:
            self._connection.execute(insert(table), sealed)

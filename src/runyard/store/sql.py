"""Writes, in SQLAlchemy Core. What differs between databases lives in their files."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, insert, select

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
from runyard.store.statements import (
    checked,
    keyed,
    run,
    seal,
    statements,
)

R = TypeVar("R", bound=msgspec.Struct)
Values = tuple[Any, ...]
WISHES = {"control", "total", "finished"}
"""What of a batch engines want to hear of when it changes."""

MANY = 2000
"""Numbers in one statement."""


class SqlTransaction(SqlSnapshot, ABC):
    """Reads and writes over one connection, inside one database transaction.

    Where transactions of several engines overlap, a claim's rows and then the batch's are locked:
    whoever reads one of them here reads what will still be so when this transaction commits.
    """

    def __init__(self, connection: Connection, alive: Callable[[int], bool]) -> None:
        super().__init__(connection)
        self._alive = alive

    @abstractmethod
    def _insert_outcomes(self, batch: int, status: int, rows: Rows) -> int:
        """Insert rows of one status where there is none yet; how many went in."""

    @abstractmethod
    def _insert_sealed(self, table: Table, rows: Sequence[Values], *, absent: bool) -> None:
        """Insert whole rows; with `absent` those alone whose key is not there."""

    @abstractmethod
    def _put_sealed(self, table: Table, rows: Sequence[Values]) -> None:
        """Write whole rows that are there already, by their keys."""

    @abstractmethod
    def _drop_many(self, table: Table, keys: Sequence[Values]) -> None:
        """Delete rows by their keys."""

    @abstractmethod
    def _among(self, column: Column[int], numbers: Sequence[int]) -> ColumnElement[bool]:
        """Whether the column is one of these."""

    def _notify(self, batch: int) -> None:
        """Tell whoever waits for news of this batch, once this is committed."""

    def batch_by_id(self, batch: int) -> BatchRow | None:
        return self._get_locked(BatchRow, schema.batches, batch)

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
        created = clock.now()
        numbered = list(enumerate(tasks, start=row.next_task))
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
        total, end = row.total + len(numbered), row.next_task + len(numbered)
        self.update_batch(batch, total=total, frontier=end, finished=None)

    def forget(self, batch: int) -> int:
        row = self.batch_by_id(batch)
        assert row is not None
        outcomes = schema.outcomes
        ended = select(outcomes.c.task).where(outcomes.c.batch == batch)
        for table, task in (
            (schema.tasks, schema.tasks.c.task),
            (schema.attempts, schema.attempts.c.task),
            (schema.edges, schema.edges.c.before),
            (schema.edges, schema.edges.c.task),
            (outcomes, outcomes.c.task),
        ):
            gone = delete(table).where(table.c.batch == batch)
            self._connection.execute(gone if table is outcomes else gone.where(task.in_(ended)))
        none = {status.value: 0 for status in FINAL_STATES}
        self.update_batch(batch, **none, total=row.pending, frontier=row.next_task)
        return row.done

    def claim(
        self,
        batch: int,
        engine: int,
        want: int,
        *,
        listed: bool,
        token: str | None = None,
        again: bool = False,
    ) -> Claim | None:
        faults.point("claim")
        token = token or secrets.token_hex(8)
        if again:
            found = self._claimed(batch, engine, token, listed=listed)
            if found is not None:
                return found
        take = self._claim_listed if listed else self._claim_range
        return take(batch, engine, max(1, want), token)

    def take(self, batch: int, engine: int, token: str, tasks: Sequence[int]) -> None:
        self._give(self._queued(batch, tasks), engine, token)

    def holds(self, claim: Claim, tasks: Sequence[int] = ()) -> bool:
        if tasks and claim.id == 0:
            tokens = self._tokens(claim.batch, tasks)
            ended = sorted(task for task in tasks if task not in tokens)
            mine = all(token == claim.token for token in tokens.values())
            return mine and self._ended(claim.batch, ended)
        if claim.id == 0:
            table = schema.queue
            where = table.c.batch == claim.batch, table.c.token == claim.token
            query = select(func.count()).select_from(table).where(*where)
            return bool(self._connection.scalar(query))
        row = self._get_locked(ClaimRow, schema.claims, claim.id)
        return row is not None and row.token == claim.token

    def release(self, claim: Claim, *, finished: bool) -> None:
        if not finished:
            self._notify(claim.batch)
        if claim.id == 0:
            table = schema.queue
            where = table.c.batch == claim.batch, table.c.token == claim.token
            self._give(self._all(QueueRow, table, *where), None, None)
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
            counted[name] = self._insert_outcomes(batch, code, of_kind)
        if listed:
            self._drop_many(schema.queue, [(batch, task) for task in rows.tasks])
        found = self.batch_by_id(batch)
        assert found is not None
        changes: dict[str, Any] = {n: getattr(found, n) + k for n, k in counted.items()}
        if found.done + sum(counted.values()) == found.total:
            changes["finished"] = clock.now()
            self._notify(batch)
        self._put(schema.batches, msgspec.structs.replace(found, **changes))
        return sum(counted.values())

    def leaders(self, batch: int, tasks: Sequence[int]) -> set[int]:
        edges, found = schema.edges, set()
        for some in _batched(tasks):
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
        self._insert_many(schema.attempts, rows, absent=True)

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

    def _claimed(self, batch: int, engine: int, token: str, *, listed: bool) -> Claim | None:
        """What this engine took under this token before, where it never heard that it did."""
        table = schema.queue if listed else schema.claims
        where = table.c.batch == batch, table.c.engine == engine, table.c.token == token
        if listed:
            order = [table.c.priority.desc(), table.c.task]
            rows = self._all(QueueRow, table, *where, order=order)
            return self._listed_claim(batch, token, rows)
        ranges = self._all(ClaimRow, table, *where, order=[table.c.low])
        return self._range_claim(batch, token, ranges, again=True)

    def _claim_range(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        table = schema.claims
        free = first_free(self.claims(batch), self._is_free, want)
        if free:
            of_free = table.c.id.in_([row.id for row in free])
            locked = self._all(ClaimRow, table, of_free, order=[table.c.low], skip_locked=True)
            free = [row for row in locked if self._is_free(row)]
            mine = [msgspec.structs.replace(row, engine=engine, token=token) for row in free]
            self._put_many(table, mine)
        if free:
            return self._range_claim(batch, token, free, again=True)
        found = self.batch_by_id(batch)
        if found is None or found.frontier >= found.total:
            return None
        high = min(found.frontier + want, found.total)
        row = self._insert_claim(batch, found.frontier, high, engine, token)
        self._put(schema.batches, msgspec.structs.replace(found, frontier=high))
        return self._range_claim(batch, token, [row])

    def _range_claim(
        self, batch: int, token: str, rows: list[ClaimRow], *, again: bool = False
    ) -> Claim | None:
        left = []
        for row in rows:
            left += gaps(row.low, row.high, self._done_in(batch, row.low, row.high))
        return Claim(rows[0].id, batch, token, left, {}, again) if rows else None

    def _claim_listed(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        table = schema.queue
        held = select(table.c.engine).where(table.c.batch == batch, table.c.engine.is_not(None))
        for other in self._connection.scalars(held.distinct()).all():
            if not self._alive(other):
                where = table.c.batch == batch, table.c.engine == other
                self._give(self._all(QueueRow, table, *where, skip_locked=True), None, None)
        ready = self._all(
            QueueRow,
            table,
            table.c.batch == batch,
            table.c.engine.is_(None),
            table.c.waiting == 0,
            order=[table.c.priority.desc(), table.c.task],
            limit=want,
            skip_locked=True,
        )
        self._give(ready, engine, token)
        return self._listed_claim(batch, token, ready)

    def _listed_claim(self, batch: int, token: str, rows: list[QueueRow]) -> Claim | None:
        table = schema.tasks
        found: dict[int, bytes] = {}
        for some in _batched([row.task for row in rows]):
            where = table.c.batch == batch, self._among(table.c.task, some)
            found |= {task.task: task.content for task in self._all(TaskRow, table, *where)}
        for row in rows:
            if row.task not in found:
                raise damaged("tasks", f"task {row.task}")
        contents = {row.task: found[row.task] for row in rows}  # best first
        return Claim(0, batch, token, [], contents, again=True) if contents else None

    def _queued(self, batch: int, tasks: Sequence[int]) -> list[QueueRow]:
        """Those of the tasks that have no outcome, locked."""
        table, rows = schema.queue, []
        for some in _batched(tasks):
            where = table.c.batch == batch, self._among(table.c.task, some)
            rows += self._all(QueueRow, table, *where, locked=True)
        return rows

    def _tokens(self, batch: int, tasks: Sequence[int]) -> dict[int, str | None]:
        """Under which token each of the tasks without an outcome is held, locked."""
        table, found = schema.queue, dict[int, str | None]()
        for some in _batched(tasks):
            where = table.c.batch == batch, self._among(table.c.task, some)
            query = select(table.c.task, table.c.token).where(*where).with_for_update()
            found |= dict(self._fetched(query))
        return found

    def _ended(self, batch: int, tasks: Sequence[int]) -> bool:
        """Whether all of these have an outcome: none of them was forgotten."""
        table, count = schema.outcomes, 0
        for some in _batched(tasks):
            where = table.c.batch == batch, self._among(table.c.task, some)
            query = select(func.count()).select_from(table).where(*where)
            count += self._connection.scalar(query) or 0
        return count == len(tasks)

    def _give(self, rows: list[QueueRow], engine: int | None, token: str | None) -> None:
        """Let listed tasks be an engine's, or nobody's."""
        self._put_many(
            schema.queue,
            [msgspec.structs.replace(row, engine=engine, token=token) for row in rows],
        )

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

    def _get_locked(self, kind: type[R], table: Table, *key: Any) -> R | None:
        """The row with this key, as it stays until this transaction ends."""
        row = run(self._connection, statements(table).lock, **keyed(table, key)).fetchone()
        return None if row is None else checked(kind, table, row)

    def _put(self, table: Table, row: msgspec.Struct) -> None:
        """Write a row that is there already, by its key."""
        values = msgspec.structs.asdict(row)
        keys = {f"key_{c.name}": values[c.name] for c in table.primary_key}
        sealed = seal(table, tuple(values.values()))
        run(self._connection, statements(table).put, **keys, **values, checksum=sealed)

    def _put_many(self, table: Table, rows: Sequence[msgspec.Struct]) -> None:
        values = [msgspec.structs.astuple(row) for row in rows]
        if values:
            self._put_sealed(table, [(*row, seal(table, row)) for row in values])

    def _drop(self, table: Table, *key: Any) -> None:
        run(self._connection, statements(table).drop, **keyed(table, key))

    def _insert_many(
        self, table: Table, rows: Iterable[tuple[Any, ...]], *, absent: bool = False
    ) -> None:
        """Insert rows; with `absent` those alone whose key is not there."""
        sealed = [(*row, seal(table, row)) for row in rows]
        if sealed:
            self._insert_sealed(table, sealed, absent=absent)


def _batched(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[at : at + MANY] for at in range(0, len(numbers), MANY))

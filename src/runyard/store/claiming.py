"""Which tasks are whose: claims taken, held, given back."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import msgspec
from sqlalchemy import Connection, func, select

from runyard import faults
from runyard.spec.outcome import damaged
from runyard.store import schema
from runyard.store.rows import (
    Claim,
    ClaimRow,
    QueueRow,
    TaskRow,
    first_free,
    gaps,
)
from runyard.store.statements import with_checksum
from runyard.store.writing import SqlWriter, batched


class SqlClaims(SqlWriter):
    """Ranges of described batches, and rows of listed ones, in the hands of engines."""

    def __init__(self, connection: Connection, alive: Callable[[int], bool]) -> None:
        super().__init__(connection)
        self._alive = alive

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
            if self._held(claim, tasks) == len(tasks):
                return True
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
        for some in batched([row.task for row in rows]):
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
        for some in batched(tasks):
            where = table.c.batch == batch, self._among(table.c.task, some)
            rows += self._all(QueueRow, table, *where, locked=True)
        return rows

    def _held(self, claim: Claim, tasks: Sequence[int]) -> int:
        """How many of the tasks are held under the claim's token, locked."""
        table, count = schema.queue, 0
        for some in batched(tasks):
            where = table.c.batch == claim.batch, self._among(table.c.task, some)
            mine = select(table.c.task).where(*where, table.c.token == claim.token)
            query = select(func.count()).select_from(mine.with_for_update().subquery())
            count += self._connection.scalar(query) or 0
        return count

    def _tokens(self, batch: int, tasks: Sequence[int]) -> dict[int, str | None]:
        """Under which token each of the tasks without an outcome is held, locked."""
        table, found = schema.queue, dict[int, str | None]()
        for some in batched(tasks):
            where = table.c.batch == batch, self._among(table.c.task, some)
            query = select(table.c.task, table.c.token).where(*where).with_for_update()
            found |= dict(self._fetched(query))
        return found

    def _ended(self, batch: int, tasks: Sequence[int]) -> bool:
        """Whether all of these have an outcome: none of them was forgotten."""
        table, count = schema.outcomes, 0
        for some in batched(tasks):
            where = table.c.batch == batch, self._among(table.c.task, some)
            query = select(func.count()).select_from(table).where(*where)
            count += self._connection.scalar(query) or 0
        return count == len(tasks)

    def _give(self, rows: list[QueueRow], engine: int | None, token: str | None) -> None:
        """Let listed tasks be an engine's, or nobody's."""
        given = [(r.batch, r.task, r.priority, r.waiting, engine, token) for r in rows]
        if given:
            self._put_rows(schema.queue, with_checksum(schema.queue, given))

    def _is_free(self, claim: ClaimRow) -> bool:
        return claim.engine is None or not self._alive(claim.engine)

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

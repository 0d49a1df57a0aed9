"""Reads, in SQLAlchemy Core. What differs between databases lives in their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Table, func, select

from runyard.spec.outcome import OutcomeRow, Printed, check_all, workers_of
from runyard.spec.status import CANCELLED
from runyard.store import schema
from runyard.store.pieces import IN_PIECES
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    CancelRow,
    ClaimRow,
    EdgeRow,
    EngineRow,
    OutputRow,
    PieceRow,
    QueueRow,
    TaskRow,
    Timings,
)
from runyard.store.statements import checked, checked_all, keyed, run, run_text, statements

R = TypeVar("R", bound=msgspec.Struct)
_VALUE = OutcomeRow._fields.index("value")
FIRST_PAGE, MOST_ROWS = 64, 1000
PAGE_BYTES = 8 * 1024 * 1024
"""About so much of a batch's outcomes is in memory at once, unless values are suddenly larger: then
a page of what fits into rows."""


class SqlSnapshot:
    """Reads over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def batch(self, name: str) -> BatchRow | None:
        return self._one(BatchRow, schema.batches, schema.batches.c.name == name)

    def batch_by_id(self, batch: int) -> BatchRow | None:
        return self._get(BatchRow, schema.batches, batch)

    def batches(self) -> list[BatchRow]:
        return self._all(BatchRow, schema.batches, order=[schema.batches.c.id])

    def outcome(self, batch: int, task: int) -> OutcomeRow | None:
        return next(self.outcomes(batch, after=task - 1, limit=1, up_to=task), None)

    def outcomes(
        self,
        batch: int,
        *,
        after: int = -1,
        limit: int | None = None,
        statuses: Sequence[int] | None = None,
        up_to: int | None = None,
    ) -> Iterator[OutcomeRow]:
        table = schema.outcomes
        columns = [c for c in table.c if c.name != "batch"]
        query = select(*columns).where(table.c.batch == batch).order_by(table.c.task)
        if statuses is not None:
            query = query.where(table.c.status.in_(list(statuses)))
        if up_to is not None:
            query = query.where(table.c.task <= up_to)
        left, page = limit, FIRST_PAGE
        while left is None or left > 0:
            page = page if left is None else min(page, left)
            rows = self._fetched(query.where(table.c.task > after).limit(page))
            yield from self._whole(batch, rows)
            if len(rows) < page:
                return
            after = rows[-1][0]
            left = None if left is None else left - page
            page = _next_page(rows)

    def latest(self, batch: int, limit: int) -> list[OutcomeRow]:
        table = schema.outcomes
        columns = [c for c in table.c if c.name != "batch"]
        query = select(*columns).where(table.c.batch == batch).order_by(table.c.task.desc())
        return list(self._whole(batch, self._fetched(query.limit(limit))))

    def made_by(self, batch: int, low: int, high: int) -> list[int]:
        table = schema.outcomes
        query = select(table.c.task).where(
            table.c.batch == batch,
            table.c.worker.between(*workers_of(low, high)),
            table.c.status != CANCELLED,
        )
        return list(self._connection.scalars(query.order_by(table.c.task)))

    def by_end(
        self,
        batch: int,
        limit: int,
        *,
        offset: int = 0,
        statuses: Sequence[int] | None = None,
        latest_first: bool = False,
    ) -> list[OutcomeRow]:
        table = schema.outcomes
        columns = [c for c in table.c if c.name != "batch"]
        order = [table.c.started + table.c.seconds, table.c.task]
        if latest_first:
            order = [column.desc() for column in order]
        query = select(*columns).where(table.c.batch == batch).order_by(*order)
        if statuses is not None:
            query = query.where(table.c.status.in_(list(statuses)))
        return list(self._whole(batch, self._fetched(query.offset(offset).limit(limit))))

    def attempts(self, batch: int, task: int | None = None) -> list[AttemptRow]:
        table = schema.attempts
        where = [table.c.batch == batch] + ([] if task is None else [table.c.task == task])
        return self._all(AttemptRow, table, *where, order=[table.c.task, table.c.number])

    def printed(self, batch: int, task: int) -> list[Printed]:
        table = schema.outputs
        where = table.c.batch == batch, table.c.task == task
        rows = self._all(OutputRow, table, *where, order=[table.c.attempt])
        return [Printed(row.task, row.attempt, row.stdout, row.stderr) for row in rows]

    def task(self, batch: int, task: int) -> TaskRow | None:
        return self._get(TaskRow, schema.tasks, batch, task)

    def tasks(self, batch: int, *, after: int = -1, limit: int | None = None) -> list[TaskRow]:
        table = schema.tasks
        return self._all(
            TaskRow,
            table,
            table.c.batch == batch,
            table.c.task > after,
            order=[table.c.task],
            limit=limit,
        )

    def queue(
        self, batch: int, *, engine: int | None = None, limit: int | None = None
    ) -> list[QueueRow]:
        table = schema.queue
        order = [table.c.priority.desc(), table.c.task]
        where = [table.c.batch == batch] + ([] if engine is None else [table.c.engine == engine])
        return self._all(QueueRow, table, *where, order=order, limit=limit)

    def queued(self, batch: int, task: int) -> QueueRow | None:
        return self._get(QueueRow, schema.queue, batch, task)

    def has_priorities(self, batch: int) -> bool:
        table = schema.queue
        ends = select(func.min(table.c.priority), func.max(table.c.priority))
        low, high = self._connection.execute(ends.where(table.c.batch == batch)).one()
        return bool(low != high)

    def next_free(self, batch: int) -> QueueRow | None:
        table = schema.queue
        where = table.c.batch == batch, table.c.engine.is_(None), table.c.waiting == 0
        order = [table.c.priority.desc(), table.c.task]
        return next(iter(self._all(QueueRow, table, *where, order=order, limit=1)), None)

    def ahead(self, row: QueueRow) -> int:
        table = schema.queue
        earlier = (table.c.priority == row.priority) & (table.c.task < row.task)
        before = (table.c.priority > row.priority) | earlier
        where = table.c.batch == row.batch, table.c.waiting == 0, before
        return self._connection.scalar(select(func.count()).select_from(table).where(*where)) or 0

    def claims(self, batch: int) -> list[ClaimRow]:
        table = schema.claims
        return self._all(ClaimRow, table, table.c.batch == batch, order=[table.c.low])

    def engines(self) -> list[EngineRow]:
        return self._all(EngineRow, schema.engines, order=[schema.engines.c.id])

    def edges(self, batch: int) -> list[EdgeRow]:
        table = schema.edges
        return self._all(
            EdgeRow, table, table.c.batch == batch, order=[table.c.before, table.c.task]
        )

    def cancel_requests(self, batch: int) -> list[int]:
        table = schema.cancels
        rows = self._all(CancelRow, table, table.c.batch == batch, order=[table.c.task])
        return [row.task for row in rows]

    def timings(self, batch: int) -> Timings:
        table, batches = schema.outcomes, schema.batches
        begun = select(batches.c.started).where(batches.c.id == batch).scalar_subquery()
        query = select(
            func.count(),
            func.coalesce(func.avg(table.c.seconds), 0.0),
            func.coalesce(func.max(table.c.seconds), 0.0),
            func.coalesce(func.avg(table.c.started - begun), 0.0),
        ).where(table.c.batch == batch, table.c.status != CANCELLED)
        return Timings._make(self._connection.execute(query).one())

    def _whole(self, batch: int, rows: Sequence[Any]) -> Iterator[OutcomeRow]:
        """Rows as they were recorded, checked; each with its value when its turn comes."""
        check_all([row for row in rows if row[_VALUE] != IN_PIECES], batch)
        for row in map(OutcomeRow._make, rows):
            if row.value == IN_PIECES:
                yield row._replace(value=b"".join(self.pieces(batch, row.task))).check(batch)
            else:
                yield row

    def pieces(self, batch: int, task: int) -> Iterator[bytes]:
        """The parts of a value that is too large for its row."""
        for number in count():
            piece = self._get(PieceRow, schema.pieces, batch, task, number)
            if piece is None:
                return
            yield piece.data

    def _get(self, kind: type[R], table: Table, *key: Any) -> R | None:
        """The row with this key."""
        row = run(self._connection, statements(table).get, **keyed(table, key)).fetchone()
        return None if row is None else checked(kind, table, row)

    def _one(self, kind: type[R], table: Table, *where: Any) -> R | None:
        row = self._connection.execute(select(table).where(*where)).one_or_none()
        return None if row is None else checked(kind, table, row)

    def _all(
        self,
        kind: type[R],
        table: Table,
        *where: Any,
        order: Sequence[Any] = (),
        limit: int | None = None,
        locked: bool = False,
        skip_locked: bool = False,
    ) -> list[R]:
        """Rows; `locked` until the transaction ends, `skip_locked` without those others lock."""
        query = select(table).where(*where).order_by(*order).limit(limit)
        if locked or skip_locked:
            query = query.with_for_update(skip_locked=skip_locked)
        return checked_all(kind, table, self._fetched(query))

    def _sql(self, text: str, **values: Any) -> Any:
        """Execute plain text; see `statements`."""
        return run_text(self._connection, text, values)

    def _fetched(self, query: Any) -> Sequence[Any]:
        """Everything that a query finds, past SQLAlchemy's own rows."""
        found = self._connection.execute(query)
        rows = found.cursor.fetchall() if found.cursor is not None else []
        found.close()
        return rows


def _next_page(rows: Sequence[Any]) -> int:
    """How many rows to read next, if they are as large as these."""
    size = sum(len(row[_VALUE]) for row in rows if row[_VALUE] is not None)
    return max(1, min(MOST_ROWS, len(rows) * PAGE_BYTES // (size + 1)))

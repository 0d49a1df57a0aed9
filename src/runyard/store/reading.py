"""Reads in SQL for both databases; differences are in `sqlite` and `postgres`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec

from runyard.spec.outcome import OutcomeRow, Printed, check_all, workers_of
from runyard.spec.status import CANCELLED
from runyard.store import schema
from runyard.store.pieces import IN_PIECES
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    ClaimRow,
    EdgeRow,
    EngineRow,
    QueueRow,
    TaskRow,
    Timings,
)
from runyard.store.schema import Table

R = TypeVar("R", bound=msgspec.Struct)
_VALUE = OutcomeRow._fields.index("value")
FIRST_PAGE, MOST_ROWS = 64, 1000
PAGE_BYTES = 8 * 1024 * 1024
"""Roughly how many bytes of outcomes are in memory at once; more if values suddenly get larger, up
to a page of values that fit into rows."""

_OUTCOMES = f"SELECT {', '.join(OutcomeRow._fields)} FROM outcomes WHERE batch = :batch"
_MADE_BY = f"""
    SELECT task FROM outcomes
    WHERE batch = :batch AND worker BETWEEN :first AND :last AND status <> {CANCELLED}
    ORDER BY task
"""
_PRIORITIES = "SELECT min(priority), max(priority) FROM queue WHERE batch = :batch"
_AHEAD = """
    SELECT count(*) FROM queue WHERE batch = :batch AND waiting = 0
    AND (priority > :priority OR (priority = :priority AND task < :task))
"""
_TIMINGS = f"""
    SELECT count(*), coalesce(avg(seconds), 0.0), coalesce(max(seconds), 0.0),
        coalesce(avg(started - (SELECT started FROM batches WHERE id = :batch)), 0.0)
    FROM outcomes WHERE batch = :batch AND status <> {CANCELLED}
"""
BEST_FIRST = "priority DESC, task"
OF_BATCH = "batch = :batch"


class Snapshot(ABC):
    """Reads over one connection."""

    @abstractmethod
    def run(self, text: str, **values: Any) -> Any:
        """Execute a statement (see `statements`) and return the driver's cursor."""

    @abstractmethod
    def stream(self, text: str) -> Iterable[tuple[Any, ...]]:
        """All rows of a query, with few of them in memory at once."""

    def batch(self, name: str) -> BatchRow | None:
        """The batch with this name."""
        found = self._all(schema.batches, "name = :name", name=name)
        return found[0] if found else None

    def batch_by_id(self, batch: int) -> BatchRow | None:
        """The batch with this number."""
        return self._get(schema.batches, batch)

    def batches(self) -> list[BatchRow]:
        """Every batch, oldest first."""
        return self._all(schema.batches, order="id")

    def outcome(self, batch: int, task: int) -> OutcomeRow | None:
        """One task's outcome."""
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
        """Outcomes with numbers above `after`, in order, with their checksums verified."""
        values: dict[str, Any] = {"batch": batch}
        query = _OUTCOMES + " AND task > :after" + _with_status(statuses, values)
        if up_to is not None:
            query += " AND task <= :up_to"
            values["up_to"] = up_to
        query += " ORDER BY task LIMIT :page"
        left, page = limit, FIRST_PAGE
        while left is None or left > 0:
            page = page if left is None else min(page, left)
            rows = self.run(query, after=after, page=page, **values).fetchall()
            yield from self._whole(batch, rows)
            if len(rows) < page:
                return
            after = rows[-1][0]
            left = None if left is None else left - page
            page = _next_page(rows)

    def latest(self, batch: int, limit: int) -> list[OutcomeRow]:
        """The outcomes with the highest numbers, highest first."""
        query = f"{_OUTCOMES} ORDER BY task DESC LIMIT :page"
        return list(self._whole(batch, self.run(query, batch=batch, page=limit).fetchall()))

    def made_by(self, batch: int, low: int, high: int) -> list[int]:
        """Tasks completed or failed by engines from `low` up to, but not including, `high`."""
        first, last = workers_of(low, high)
        return [task for (task,) in self.run(_MADE_BY, batch=batch, first=first, last=last)]

    def by_end(
        self,
        batch: int,
        limit: int,
        *,
        offset: int = 0,
        statuses: Sequence[int] | None = None,
        latest_first: bool = False,
    ) -> list[OutcomeRow]:
        """Outcomes in the order in which they ended; ties are ordered by number."""
        values: dict[str, Any] = {"batch": batch, "page": limit, "skip": offset}
        order = " DESC" if latest_first else ""
        query = (
            f"{_OUTCOMES}{_with_status(statuses, values)} "
            f"ORDER BY started + seconds{order}, task{order} LIMIT :page OFFSET :skip"
        )
        return list(self._whole(batch, self.run(query, **values).fetchall()))

    def attempts(self, batch: int, task: int | None = None) -> list[AttemptRow]:
        """Attempts that did not end their task."""
        where, of_task = OF_BATCH, dict[str, Any]()
        if task is not None:
            where, of_task = f"{OF_BATCH} AND task = :task", {"task": task}
        return self._all(schema.attempts, where, order="task, number", batch=batch, **of_task)

    def printed(self, batch: int, task: int) -> list[Printed]:
        """The output of a task's attempts, without those that printed nothing."""
        where = "batch = :batch AND task = :task"
        rows = self._all(schema.outputs, where, order="attempt", batch=batch, task=task)
        return [Printed(row.task, row.attempt, row.stdout, row.stderr) for row in rows]

    def task(self, batch: int, task: int) -> TaskRow | None:
        """One task of a list."""
        return self._get(schema.tasks, batch, task)

    def tasks(self, batch: int, *, after: int = -1, limit: int | None = None) -> list[TaskRow]:
        """Tasks of a list with numbers above `after`, in order."""
        where = "batch = :batch AND task > :after"
        return self._all(schema.tasks, where, order="task", limit=limit, batch=batch, after=after)

    def queue(
        self, batch: int, *, engine: int | None = None, limit: int | None = None
    ) -> list[QueueRow]:
        """Tasks of a list without an outcome, the next one first; or those that an engine holds."""
        where, of_engine = OF_BATCH, dict[str, Any]()
        if engine is not None:
            where, of_engine = f"{OF_BATCH} AND engine = :engine", {"engine": engine}
        return self._all(
            schema.queue, where, order=BEST_FIRST, limit=limit, batch=batch, **of_engine
        )

    def queued(self, batch: int, task: int) -> QueueRow | None:
        """One task of a list, if it has no outcome yet."""
        return self._get(schema.queue, batch, task)

    def has_priorities(self, batch: int) -> bool:
        """Whether the waiting tasks of a list have different priorities."""
        low, high = self.run(_PRIORITIES, batch=batch).fetchone()
        return bool(low != high)

    def next_free(self, batch: int) -> QueueRow | None:
        """The task of a list that the next claim would get."""
        where = "batch = :batch AND engine IS NULL AND waiting = 0"
        found = self._all(schema.queue, where, order=BEST_FIRST, limit=1, batch=batch)
        return found[0] if found else None

    def ahead(self, row: QueueRow) -> int:
        """The number of tasks without an outcome before this one, running or not."""
        of_row = {"batch": row.batch, "priority": row.priority, "task": row.task}
        return int(self.run(_AHEAD, **of_row).fetchone()[0])

    def claims(self, batch: int) -> list[ClaimRow]:
        """Claimed ranges of a grid."""
        return self._all(schema.claims, OF_BATCH, order="low", batch=batch)

    def engines(self) -> list[EngineRow]:
        """Engines that signed on to this store and have not signed off."""
        return self._all(schema.engines, order="id")

    def edges(self, batch: int) -> list[EdgeRow]:
        """Dependencies between tasks of a list that are still pending."""
        return self._all(schema.edges, OF_BATCH, order="before, task", batch=batch)

    def cancel_requests(self, batch: int) -> list[int]:
        """Tasks with a pending request to cancel them while an engine runs them."""
        rows = self._all(schema.cancels, OF_BATCH, order="task", batch=batch)
        return [row.task for row in rows]

    def timings(self, batch: int) -> Timings:
        """Durations of the batch's tasks."""
        return Timings._make(self.run(_TIMINGS, batch=batch).fetchone())

    def pieces(self, batch: int, task: int) -> Iterator[bytes]:
        """The pieces of a value that is too large for its row."""
        for number in count():
            piece = self._get(schema.pieces, batch, task, number)
            if piece is None:
                return
            yield piece.data

    def _whole(self, batch: int, rows: Sequence[Any]) -> Iterator[OutcomeRow]:
        """Rows with their checksums verified; large values are read one at a time."""
        check_all([row for row in rows if row[_VALUE] != IN_PIECES], batch)
        for row in map(OutcomeRow._make, rows):
            if row.value == IN_PIECES:
                yield row._replace(value=b"".join(self.pieces(batch, row.task))).check(batch)
            else:
                yield row

    def _get(self, table: Table[R], *key: Any, lock: str = "") -> R | None:
        """The row with this key."""
        values = {f"key{at}": value for at, value in enumerate(key)}
        row = self.run(f"{table.select} WHERE {table.by_key} {lock}", **values).fetchone()
        return None if row is None else table.checked([row])[0]

    def _all(
        self,
        table: Table[R],
        where: str = "",
        *,
        order: str = "",
        limit: int | None = None,
        lock: str = "",
        **values: Any,
    ) -> list[R]:
        """All matching rows; with `lock`, they can't change until this transaction ends."""
        query = table.select
        if where:
            query += f" WHERE {where}"
        if order:
            query += f" ORDER BY {order}"
        if limit is not None:
            query += " LIMIT :limit"
            values["limit"] = limit
        return table.checked(self.run(f"{query} {lock}", **values).fetchall())


def _with_status(statuses: Sequence[int] | None, values: dict[str, Any]) -> str:
    """The SQL condition for outcomes with one of these statuses."""
    if statuses is None:
        return ""
    values["statuses"] = list(statuses)
    return " AND status = ANY(:statuses)"


def _next_page(rows: Sequence[Any]) -> int:
    """The number of rows to read next, assuming they are as large as these."""
    size = sum(len(row[_VALUE]) for row in rows if row[_VALUE] is not None)
    return max(1, min(MOST_ROWS, len(rows) * PAGE_BYTES // (size + 1)))

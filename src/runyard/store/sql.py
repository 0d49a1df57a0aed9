"""A unit of work that writes, in SQL for both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

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
    Recording,
    after_incomplete,
    gaps,
    runs,
    unclaimed,
)

WISHES = {"control", "total", "finished", "priority"}
"""Columns of a batch whose changes are notified to engines."""


_UNQUEUE = "DELETE FROM queue WHERE batch = :batch AND task = ANY(:tasks)"
_QUEUED = """
    SELECT batch, task, priority, waiting, engine, token, checksum FROM queue
    WHERE batch = :batch AND task = ANY(:tasks)
"""
_STATUSES = "SELECT task, status FROM outcomes WHERE batch = :batch AND task = ANY(:tasks)"
_OF_TASKS = "batch = :batch AND task = ANY(:tasks)"
_WAITS = """
    SELECT task, count(*) FROM edges WHERE batch = :batch AND task = ANY(:tasks) GROUP BY task
"""
_ANY_EDGE = "SELECT 1 FROM edges WHERE batch = :batch LIMIT 1"
_AFTER = """
    SELECT batch, before, task, checksum FROM edges WHERE batch = :batch AND before = ANY(:tasks)
"""
_DROP_AFTER = "DELETE FROM edges WHERE batch = :batch AND before = ANY(:tasks)"
_ALL_AFTER = """
    WITH RECURSIVE lost(batch, before, task, checksum) AS (
        SELECT e.batch, e.before, e.task, e.checksum FROM edges e
        JOIN queue q ON q.batch = e.batch AND q.task = e.task
        WHERE e.batch = :batch AND e.before = ANY(:tasks)
        UNION
        SELECT e.batch, e.before, e.task, e.checksum FROM lost
        JOIN edges e ON e.batch = lost.batch AND e.before = lost.task
        JOIN queue q ON q.batch = e.batch AND q.task = e.task
    )
    SELECT batch, before, task, checksum FROM lost
"""
_INCOMPLETE = """
    SELECT DISTINCT e.before FROM edges e
    JOIN outcomes o ON o.batch = e.batch AND o.task = e.before
    WHERE e.batch = :batch AND o.status <> :completed
"""


class Transaction(SqlClaims):
    """Reads and writes over one connection, inside one database transaction."""

    def create_batch(self, **columns: Any) -> BatchRow:
        """Record a new batch."""
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
        row = self._insert(schema.batches, {**fresh, **columns})
        self._notify(row.id)
        return row

    def update_batch(self, batch: int, **columns: Any) -> BatchRow:
        """Change columns of a batch."""
        row = self.batch_by_id(batch)
        if row is None:
            raise NotFound(f"batch number {batch} is gone from the store")
        changed = self._put_batch(msgspec.structs.replace(row, **columns))
        if columns.keys() & WISHES:
            self._notify(batch)
        return changed

    def delete_batch(self, batch: int) -> None:
        """Delete a batch and everything recorded about it."""
        for table in schema.OF_BATCHES:
            self.run(f"DELETE FROM {table.name} WHERE batch = :batch", batch=batch)
        self._drop(schema.batches, batch)
        self._locked.pop(batch, None)

    def add_tasks(
        self,
        batch: int,
        tasks: Sequence[tuple[str | None, int, bytes, Sequence[int]]],
        *,
        engine: int | None = None,
        token: str | None = None,
    ) -> None:
        """Append tasks to a list: name, priority, content, and the numbers they depend on.

        With an engine and a token, they are claimed by that engine from the start.
        """
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
        """Remove the tasks of a list that have an outcome, and return how many there were.

        Their numbers are not reused.
        """
        row = self.batch_by_id(batch)
        assert row is not None
        of_ended = "IN (SELECT task FROM outcomes WHERE batch = :batch)"
        for name in ("tasks", "attempts", "outputs", "pieces"):
            query = f"DELETE FROM {name} WHERE batch = :batch AND task {of_ended}"
            self.run(query, batch=batch)
        at_ends = f"(before {of_ended} OR task {of_ended})"
        self.run(f"DELETE FROM edges WHERE batch = :batch AND {at_ends}", batch=batch)
        self.run("DELETE FROM outcomes WHERE batch = :batch", batch=batch)
        none = {status.value: 0 for status in FINAL_STATES}
        self.update_batch(batch, **none, total=row.pending, frontier=row.next_task)
        return row.done

    def record(self, batch: int, rows: Sequence[OutcomeRow]) -> Recording:
        """Insert outcomes for tasks that have none yet, and settle the followers of these tasks.

        Followers of completed tasks wait for one task less; followers of all others, direct and
        indirect, are recorded as cancelled. Updates the batch's counts.
        """
        if not rows:
            return Recording(0)
        rows, counts = Rows.of(rows), Counter[str]()
        for page in rows.pages():
            light, heavy = lightened(page)
            counts += self._insert_all(batch, light)
            for row in heavy:
                self._insert_pieces(batch, row)
        listed = self._is_listed(batch)
        found = self.batch_by_id(batch)  # locks the row while followers are settled
        assert found is not None
        freed: list[int] = []
        if listed and self._has_edges(batch):
            ended = self._ended_as(batch, rows, whole=sum(counts.values()) == len(rows))
            lost = [task for task, status in ended.items() if status != COMPLETED]
            counts += self._insert_all(batch, Rows.of(self._doomed(batch, lost)))
            completed = [task for task, status in ended.items() if status == COMPLETED]
            freed = self._settle(batch, completed)
        self._count(found, counts)
        return Recording(sum(counts.values()), freed)

    def cancel_doomed(self, batch: int) -> int:
        """Cancel the followers of tasks that did not complete; return how many."""
        lost = [task for (task,) in self.run(_INCOMPLETE, batch=batch, completed=COMPLETED)]
        doomed = self._doomed(batch, lost)
        return self.record(batch, doomed).count if doomed else 0

    def _insert_all(self, batch: int, rows: Rows) -> Counter[str]:
        """Insert rows without large values; return how many of each status were new."""
        counts, codes = Counter[str](), rows.statuses
        for code in codes:
            of_kind = rows if len(codes) == 1 else rows.only(lambda row: row.status == code)  # noqa: B023
            counts[Status.of(code).value] = self._insert_outcomes(batch, of_kind)
        if rows and self._is_listed(batch):
            self.run(_UNQUEUE, batch=batch, tasks=rows.tasks)
        return counts

    def _count(self, found: BatchRow, counts: Counter[str]) -> None:
        """Add the inserted outcomes to the counts of a batch."""
        changes: dict[str, Any] = {n: getattr(found, n) + k for n, k in counts.items()}
        if found.done + sum(counts.values()) == found.total:
            changes["finished"] = clock.now()
            self._notify(found.id)
        self._put_batch(msgspec.structs.replace(found, **changes))

    def _has_edges(self, batch: int) -> bool:
        return self.run(_ANY_EDGE, batch=batch).fetchone() is not None

    def _ended_as(self, batch: int, rows: Rows, *, whole: bool) -> dict[int, int]:
        """The recorded statuses of these tasks: those of `rows` if all of them were new."""
        if whole:
            return {row.task: row.status for row in rows}
        return dict(self.run(_STATUSES, batch=batch, tasks=rows.tasks).fetchall())

    def _doomed(self, batch: int, lost: Sequence[int]) -> list[OutcomeRow]:
        """The outcomes of all followers, direct and indirect, of tasks that did not complete."""
        found: dict[int, int] = {}
        edges = self.run(_ALL_AFTER, batch=batch, tasks=list(lost)).fetchall() if lost else ()
        for edge in schema.edges.checked(edges):
            found[edge.task] = min(edge.before, found.get(edge.task, edge.before))
        return [after_incomplete(batch, task, before) for task, before in sorted(found.items())]

    def _settle(self, batch: int, completed: Sequence[int]) -> list[int]:
        """Count completed tasks down at their followers; return the followers now ready."""
        rows = self.run(_AFTER, batch=batch, tasks=list(completed)).fetchall() if completed else ()
        if not rows:
            return []
        edges = schema.edges.checked(rows)
        fewer = Counter(edge.task for edge in edges)
        table = schema.queue
        queued = self.run(_QUEUED, batch=batch, tasks=sorted(fewer)).fetchall()
        changed = [
            msgspec.structs.replace(row, waiting=row.waiting - fewer[row.task])
            for row in table.checked(queued)
        ]
        self._put_many(table, changed)
        self.run(_DROP_AFTER, batch=batch, tasks=list(completed))
        return sorted(row.task for row in changed if not row.waiting)

    def add_attempts(self, attempts: Iterable[AttemptRow]) -> None:
        """Record attempts that did not end their task."""
        rows = (msgspec.structs.astuple(a) for a in attempts)
        self._insert_many(schema.attempts, rows, clash="keep")

    def keep_printed(self, batch: int, printed: Sequence[Printed]) -> None:
        """Record the output of attempts, replacing what was recorded for them before."""
        last = {(each.task, each.attempt): each for each in printed}
        self._insert_many(schema.outputs, ((batch, *each) for each in last.values()), clash="put")

    def requeue(self, batch: int, tasks: Sequence[int]) -> None:
        """Delete outcomes with all attempts and their output, so that the tasks run again."""
        record = self.batch_by_id(batch)
        assert record is not None
        lost = {status.value: 0 for status in FINAL_STATES}
        found = self.run(_STATUSES, batch=batch, tasks=list(tasks)).fetchall()
        numbers = sorted(task for task, _ in found)
        for _, status in found:
            lost[Status.of(status).value] += 1
        for name in ("outcomes", "attempts", "outputs", "pieces") if numbers else ():
            query = f"DELETE FROM {name} WHERE batch = :batch AND task = ANY(:tasks)"
            self.run(query, batch=batch, tasks=numbers)
        self._notify(batch)
        if self._is_listed(batch):
            rows = self._all(schema.tasks, _OF_TASKS, order="task", batch=batch, tasks=numbers)
            waits = dict(self.run(_WAITS, batch=batch, tasks=numbers).fetchall())
            self._insert_many(
                schema.queue,
                ((batch, r.task, r.priority, waits.get(r.task, 0), None, None) for r in rows),
            )
        else:
            for low, high in runs(unclaimed(numbers, record.frontier, self.claims(batch))):
                self._insert_claim(batch, low, high, None, "")
        kept = {name: getattr(record, name) - count for name, count in lost.items()}
        self.update_batch(batch, **kept, finished=None, control=None)

    def pending(self, batch: int) -> list[tuple[int, int]]:
        """Ranges of tasks without an outcome, claimed or not."""
        if self._is_listed(batch):
            return runs(sorted(row.task for row in self.queue(batch)))
        found = self.batch_by_id(batch)
        assert found is not None
        spans = [(claim.low, claim.high) for claim in self.claims(batch)]
        spans += [(found.frontier, found.total)]
        return [
            gap for low, high in spans for gap in gaps(low, high, self._done_in(batch, low, high))
        ]

    def request_cancel(self, batch: int, task: int) -> None:
        """Ask the engine that runs this task to cancel it."""
        self.clear_cancel(batch, task)
        self._insert_many(schema.cancels, [(batch, task)])
        self._notify(batch)

    def clear_cancel(self, batch: int, task: int) -> None:
        """Remove a request to cancel that has been handled."""
        self._drop(schema.cancels, batch, task)

    def sign_on(self, host: str, pid: int, backend: str, workers: int) -> int:
        """Register a new engine and return its number."""
        columns = {
            "host": host, "pid": pid, "started": clock.now(), "batch": None,
            "backend": backend, "workers": workers, "running": 0, "rate": 0.0, "stop": 0,
        }  # fmt: skip
        return self._insert(schema.engines, columns).id

    def update_engine(self, engine: int, **columns: Any) -> None:
        """Record what the engine is doing, or ask it to stop."""
        row = self._get(schema.engines, engine)
        if row is not None:
            self._put(schema.engines, msgspec.structs.replace(row, **columns))
            if columns.keys() & {"stop", "batch"}:
                self._notify(row.batch or 0)

    def sign_off(self, engine: int) -> None:
        """Remove an engine that no longer uses this store."""
        self._drop(schema.engines, engine)

    def _insert_pieces(self, batch: int, row: OutcomeRow) -> None:
        """Insert the large value of an outcome, unless the task has a different outcome."""
        query = "SELECT checksum FROM outcomes WHERE batch = :batch AND task = :task"
        found = self.run(query, batch=batch, task=row.task).fetchone()
        if found is not None and found[0] == row.checksum:
            for number, data in cut(row.value or b""):
                self._insert_many(schema.pieces, [(batch, row.task, number, data)], clash="keep")

    def _completed_among(self, numbers: set[int], batch: int) -> set[int]:
        found = (
            self.run(_STATUSES, batch=batch, tasks=sorted(numbers)).fetchall() if numbers else ()
        )
        return {task for task, status in found if status == COMPLETED}

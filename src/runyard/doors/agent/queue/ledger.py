"""The queue on record: a listed batch of the yard, with a row for each task.

Everything here reads or writes the store and may block: call it from a thread.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runyard import clock
from runyard.attempt.lane_status import IDLE, LaneStatus, LaneStatusFile
from runyard.doors.agent.functions.registry import Functions, own_limit
from runyard.doors.agent.inputs.arguments import DEFAULT_QUEUE, BadCall
from runyard.doors.agent.inputs.settings import Settings, read_settings
from runyard.doors.agent.queue.model import BatchTask, Priority, TaskStatus
from runyard.errors import NotFound, SpecChanged
from runyard.spec.batch import decode_listed
from runyard.spec.codec import decode_as
from runyard.spec.names import safe_name
from runyard.spec.options import Options
from runyard.spec.outcome import ErrorInfo, OutcomeRow, decoding_stored
from runyard.spec.status import COMPLETED
from runyard.store.base import Snapshot
from runyard.store.rows import AttemptRow, BatchRow, EngineRow, QueueRow, TaskRow
from runyard.store.stored_batch import StoredBatch
from runyard.yard import Yard

OWNER = "runyard.doors.agent"
"""Marks a recorded batch as an agent's queue."""

OPTIONS = Options(backoff=0.5, never_retry=("UsageError", "BadCall"))
"""How tasks of a queue run; an invalid call is not retried."""


ORDERS = ("added", "ended", "latest")
"""Orders of results: as tasks were added, as they ended, or the latest end first."""

Running = Mapping[int, LaneStatus | None]
"""Running tasks, with their lane status if the worker is on this machine."""


class Ledger:
    """A queue of one yard."""

    def __init__(self, yard: Yard, name: str = DEFAULT_QUEUE) -> None:
        self.yard = yard
        self.name = safe_name(name, "queue name")
        self.settings: Settings = read_settings(yard.folder)
        self.functions = Functions(self.settings, os.getcwd())

    # Names

    def id_of(self, number: int) -> str:
        """How actions name a task."""
        return f"{self.name}/{number}"

    def number_of(self, task_id: str) -> int:
        """The inverse of `id_of`; the number alone is accepted too."""
        queue, _, number = task_id.strip().rpartition("/")
        if queue not in ("", self.name) or not number.isdecimal() or len(number) > 18:
            raise BadCall(
                f"{task_id[:60]!r} is not a task id", hint=f"task ids look like {self.id_of(0)}"
            )
        return int(number)

    def _check_owner(self, row: BatchRow) -> None:
        if OWNER not in StoredBatch(row).versions:
            raise SpecChanged(
                f"{self.name!r} is recorded as another batch, not as a queue",
                hint="choose another name for the queue",
            )

    # Looking

    def exists(self, view: Snapshot) -> bool:
        """Whether any task was ever added."""
        found = view.batch(self.name)
        if found is not None:
            self._check_owner(found)
        return found is not None

    def row(self, view: Snapshot) -> BatchRow:
        """The queue's row; NotFound if no task was ever added."""
        found = view.batch(self.name)
        if found is None:
            raise NotFound("the queue is empty", hint="add a task first")
        self._check_owner(found)
        return found

    def engines(self, view: Snapshot, row: BatchRow) -> list[EngineRow]:
        """Workers that serve the queue now."""
        return [engine for engine in self._holders(view, row) if engine.workers]

    def _holders(self, view: Snapshot, row: BatchRow) -> list[EngineRow]:
        """Workers, and hosts that claim tasks themselves."""
        alive = self.yard.store.alive
        return [e for e in view.engines() if e.batch == row.id and alive(e.id)]

    def own(self, engines: Sequence[EngineRow]) -> list[EngineRow]:
        """The workers whose files are in this machine's folder of the yard."""
        return [e for e in engines if self._status_file(e).exists()]

    def _status_file(self, engine: EngineRow) -> Path:
        return self.yard.folder / "run" / f"{engine.id}.slots"

    def under_way(self, view: Snapshot, row: BatchRow) -> Running:
        """The running tasks, with their lane status if the worker is on this machine.

        Of a worker elsewhere only their number is known: they are the first of those it holds.
        """
        found: dict[int, LaneStatus | None] = {}
        for engine in self._holders(view, row):
            running = self._lane_statuses(engine, row)
            if running is None:
                most = engine.running if engine.workers else None
                held = view.queue(row.id, engine=engine.id, limit=most)
                running = {queued.task: None for queued in held}
            found |= running
        return found

    def _lane_statuses(
        self, engine: EngineRow, row: BatchRow
    ) -> dict[int, LaneStatus | None] | None:
        """What a worker on this machine runs; None for one elsewhere, and for a host."""
        try:
            lane_status = LaneStatusFile(self._status_file(engine), 0, create=False)
        except (OSError, ValueError):  # or it has just been removed
            return None
        statuses = [lane_status.read(lane) for lane in range(lane_status.lanes)]
        lane_status.close()
        return {n.task: n for n in statuses if n.task != IDLE and n.batch == row.id}

    def position(self, view: Snapshot, queued: QueueRow, under_way: Running) -> int:
        """A task's position among those that have not started; the next one is 1."""
        running = [view.queued(queued.batch, number) for number in under_way]
        mine = -queued.priority, queued.task
        ahead = sum(r is not None and (-r.priority, r.task) < mine for r in running)
        return max(1, view.ahead(queued) - ahead + 1)

    def task(
        self, view: Snapshot, row: BatchRow, number: int, under_way: Running | None = None
    ) -> BatchTask:
        """One task as it is now; pass `under_way` if it is known already."""
        found = view.task(row.id, number)
        if found is None:
            raise NotFound(
                f"there is no task {self.id_of(number)}", hint="`status` lists the queue"
            )
        if under_way is None:
            under_way = self.under_way(view, row)
        failed = [each for each in view.attempts(row.id, number) if not each.crash]
        return self._read(found, view.outcome(row.id, number), under_way, failed)

    def queued(
        self, view: Snapshot, row: BatchRow, under_way: Running, offset: int, limit: int
    ) -> list[QueueRow]:
        """A page of the tasks that have not started, the next one first."""
        found = view.queue(row.id, limit=offset + limit + len(under_way))
        return [q for q in found if q.task not in under_way][offset : offset + limit]

    def tasks(
        self,
        view: Snapshot,
        row: BatchRow,
        status: TaskStatus | None,
        offset: int,
        limit: int,
        order: str = "added",
    ) -> list[BatchTask]:
        """A page of tasks with a status (None: those that have ended), in one of `ORDERS`."""
        if status is None or status.code >= COMPLETED:
            if order == "added":
                return list(islice(self.ended(view, row, status), offset, offset + limit))
            outcomes = view.by_end(
                row.id, limit, offset=offset, statuses=None if status is None else [status.code],
                latest_first=order == "latest",
            )  # fmt: skip
            rows = ((view.task(row.id, outcome.task), outcome) for outcome in outcomes)
            return [self._read(task, outcome) for task, outcome in rows if task is not None]
        under_way = self.under_way(view, row)
        if status is TaskStatus.RUNNING:
            numbers = sorted(n for n in under_way if view.queued(row.id, n) is not None)
            numbers = numbers[offset : offset + limit]
        else:
            numbers = [q.task for q in self.queued(view, row, under_way, offset, limit)]
        return [self.task(view, row, number, under_way) for number in numbers]

    def ended(
        self, view: Snapshot, row: BatchRow, status: TaskStatus | None
    ) -> Iterator[BatchTask]:
        """Tasks that have ended, streamed in the order in which they were added."""
        codes = None if status is None else [status.code]
        tasks = _Tasks(view, row.id)
        for outcome in view.outcomes(row.id, statuses=codes):
            yield self._read(tasks.get(outcome.task), outcome)

    def every(self, view: Snapshot, row: BatchRow) -> Iterator[BatchTask]:
        """Every task, streamed in the order in which they were added."""
        under_way = self.under_way(view, row)
        failed: dict[int, list[AttemptRow]] = defaultdict(list)
        for attempt in view.attempts(row.id):
            if not attempt.crash:
                failed[attempt.task].append(attempt)
        outcomes = view.outcomes(row.id)
        outcome = next(outcomes, None)
        for task in _Tasks(view, row.id):
            if outcome is not None and outcome.task == task.task:
                yield self._read(task, outcome)
                outcome = next(outcomes, None)
            else:
                yield self._read(task, None, under_way, failed.get(task.task, ()))

    def _read(
        self,
        task: TaskRow,
        outcome: OutcomeRow | None,
        under_way: Running = MappingProxyType({}),
        failed: Sequence[AttemptRow] = (),
    ) -> BatchTask:
        """A recorded task as an agent sees it; `failed` are its earlier attempts."""
        with decoding_stored(f"task {task.task}"):
            listed = decode_listed(task.content)
        function = self.functions.name_of(listed.target)
        seen: dict[str, Any] = {
            "task_id": self.id_of(task.task),
            "name": task.name or "",
            "function": function,
            "params": listed.params,
            "priority": Priority(task.priority),
            "created_at": task.created,
            "max_retries": listed.retries or 0,
            "timeout": own_limit(function, listed.params, listed.timeout),
            "depends_on": [self.id_of(number) for number in listed.after],
        }
        if outcome is not None:
            return BatchTask(**seen, **_ended(outcome))
        status = under_way.get(task.task)
        error, trace = _error_and_trace(failed[-1].error if failed else None)
        return BatchTask(
            **seen,
            error=error,
            trace=trace,
            status=TaskStatus.RUNNING if task.task in under_way else TaskStatus.QUEUED,
            started_at=None if status is None else clock.now() - status.seconds,
            retry_count=len(failed),
        )


class _Tasks:
    """Task rows in ascending order, read a page at a time."""

    def __init__(self, view: Snapshot, batch: int) -> None:
        self._view = view
        self._batch = batch
        self._page: dict[int, TaskRow] = {}

    def get(self, number: int) -> TaskRow:
        if number not in self._page:
            self._load(number)
        return self._page[number]

    def __iter__(self) -> Iterator[TaskRow]:
        last = -1
        while rows := self._load(last + 1):
            yield from rows
            last = rows[-1].task

    def _load(self, number: int) -> list[TaskRow]:
        rows = self._view.tasks(self._batch, after=number - 1, limit=500)
        self._page = {row.task: row for row in rows}
        return rows


def _ended(outcome: OutcomeRow) -> dict[str, Any]:
    error, trace = _error_and_trace(outcome.error)
    return {
        "status": TaskStatus.of(outcome.status),
        "started_at": outcome.started,
        "completed_at": outcome.started + outcome.seconds,
        "result": None if outcome.value is None else decode_as("msgpack", outcome.value),
        "error": error,
        "trace": trace,
        "retry_count": outcome.attempt,
    }


def _error_and_trace(error: bytes | None) -> tuple[str | None, str | None]:
    """An error in a sentence, and its traceback."""
    if error is None:
        return None, None
    info = ErrorInfo.decode(error)
    return f"{info.kind}: {info.message}", info.trace or None

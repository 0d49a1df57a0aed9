"""The queue on record: one listed batch of the yard, a row for each task.

Everything here reads or writes the store and may wait for it: call it from a thread.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from runyard import clock
from runyard.attempt.slots import IDLE, Note, Slots
from runyard.doors.agent.arguments import BadCall, Wanted
from runyard.doors.agent.functions import RUN_CODE, Functions
from runyard.doors.agent.model import BatchTask, Priority, TaskStatus
from runyard.doors.agent.settings import Settings, read_settings
from runyard.errors import NotFound, SpecChanged, UsageError
from runyard.schedule.enroll import enroll
from runyard.spec.batch import Batch, ListedTask, decode_listed, encode_listed
from runyard.spec.codec import decode_as
from runyard.spec.names import safe_name
from runyard.spec.outcome import ErrorInfo, OutcomeRow, sound
from runyard.spec.status import COMPLETED
from runyard.spec.task import Options
from runyard.store.base import Snapshot, Transaction
from runyard.store.recorded import Recorded
from runyard.store.rows import BatchRow, EngineRow, QueueRow, TaskRow
from runyard.yard import Yard

NAME = "queue"
OWNER = "runyard.doors.agent"
"""Marks a recorded batch as an agent's queue."""

OPTIONS = Options(backoff=0.5, never_retry=("UsageError", "BadCall"))
"""How tasks of a queue run: a call that can't work is not tried again."""


_BEFORE = "name a task by its id, or by the name of an earlier one in this call"


class Refused(NamedTuple):
    """A task that was not added."""

    place: int  # in the list that was given
    name: str
    reason: str


class Settled(NamedTuple):
    """A task that can be added if what it depends on is there."""

    name: str
    priority: int
    content: bytes
    depends_on: tuple[str, ...]


class Added(NamedTuple):
    """What became of tasks that somebody wanted to add."""

    numbers: list[int]
    refused: list[Refused]


class Ledger:
    """A queue of one yard."""

    def __init__(self, yard: Yard, name: str = NAME) -> None:
        self.yard = yard
        self.name = safe_name(name, "queue name")
        self.settings: Settings = read_settings(yard.folder)
        self.functions = Functions(self.settings, os.getcwd())

    # Names

    def id_of(self, number: int) -> str:
        """How actions name a task."""
        return f"{self.name}/{number}"

    def number_of(self, task_id: str) -> int:
        """The inverse of `id_of`; the number alone will do."""
        queue, _, number = task_id.strip().rpartition("/")
        if queue not in ("", self.name) or not number.isdecimal() or len(number) > 18:
            raise BadCall(f"{task_id[:60]!r} is no task", hint=f"tasks are named {self.id_of(0)}")
        return int(number)

    # Adding

    def add(self, wanted: Iterable[Wanted | Refused]) -> Added:
        """Append tasks in one go; those that can't be are left out, with the reason for each."""
        with _unswept():
            settled = [self._settled(at, each) for at, each in enumerate(wanted)]
            return self.yard.store.write(lambda tx: self._add(tx, settled))

    def _settled(self, at: int, each: Wanted | Refused) -> Settled | Refused:
        if isinstance(each, Refused):
            return each
        try:
            known = self.functions.find(each.function)
            self.functions.check(known, each.params)
            timeout = each.timeout
            if timeout is None and known.name in RUN_CODE:
                timeout = self.settings.limits.wall
            task = ListedTask(
                known.target, each.params, each.name, (), int(each.priority), timeout,
                each.max_retries,
            )  # fmt: skip
            # Nothing but text and numbers: of those there may be a hundred thousand.
            return Settled(each.name, task.priority, encode_listed(task), tuple(each.depends_on))
        except UsageError as error:
            return Refused(at, each.name, one_line(error))

    def _add(self, tx: Transaction, settled: list[Settled | Refused]) -> Added:
        row = self._row(tx)
        start = row.next_task
        rows, refused = [], []
        names: dict[str, int | None] = {}  # of tasks that came before in this call
        for at, each in enumerate(settled):
            if isinstance(each, Refused):
                names[each.name] = None
                refused.append(each)
                continue
            content = each.content
            after: Sequence[int] = ()
            try:
                if each.depends_on:
                    after = sorted({self._before(tx, row, names, b) for b in each.depends_on})
                    listed = msgspec.structs.replace(decode_listed(content), after=tuple(after))
                    content = encode_listed(listed)
                rows.append((each.name, each.priority, content, after))
                names[each.name] = start + len(rows) - 1
            except UsageError as error:
                names[each.name] = None
                refused.append(Refused(at, each.name, one_line(error)))
        if rows:
            tx.add_tasks(row.id, rows)
        return Added(list(range(start, start + len(rows))), refused)

    def _before(
        self, tx: Transaction, row: BatchRow, names: dict[str, int | None], text: str
    ) -> int:
        """The number of a task that another one is to come after."""
        if text in names:
            found = names[text]
            if found is None:
                raise BadCall(f"it depends on {text!r}, which was refused")
            return found
        try:
            number = self.number_of(text)
        except BadCall:
            raise BadCall(
                f"it depends on {text[:60]!r}, which is not there", hint=_BEFORE
            ) from None
        if tx.task(row.id, number) is None:
            raise BadCall(
                f"it depends on {text!r}, which is not there",
                hint=_BEFORE,
            )
        ended = tx.outcome(row.id, number)
        if ended is not None and ended.status != COMPLETED:
            status = TaskStatus.of(ended.status)
            raise BadCall(f"it depends on {self.id_of(number)}, which is {status}")
        return number

    def _row(self, tx: Transaction) -> BatchRow:
        """The queue's row, made if need be, and nobody else's until the transaction ends."""
        found = tx.batch(self.name)
        if found is None:
            batch = Batch(None, None, (), self.name, None, "msgpack", OPTIONS)
            return enroll(tx, batch, root=os.getcwd(), code={OWNER: ""}).row
        self._check_owner(found)
        locked = tx.batch_by_id(found.id)
        assert locked is not None
        return locked

    def _check_owner(self, row: BatchRow) -> None:
        if OWNER not in Recorded(row).versions:
            raise SpecChanged(
                f"another batch is recorded as {self.name!r}, which is no queue",
                hint="choose another name for the queue",
            )

    # Looking

    def row(self, view: Snapshot) -> BatchRow:
        """The queue's row; NotFound where nothing was ever added."""
        found = view.batch(self.name)
        if found is None:
            raise NotFound("the queue is empty", hint="add a task first")
        self._check_owner(found)
        return found

    def engines(self, view: Snapshot, row: BatchRow) -> list[EngineRow]:
        """Workers that serve the queue now."""
        alive = self.yard.store.alive
        return [e for e in view.engines() if e.batch == row.id and e.workers and alive(e.id)]

    def own(self, engines: Sequence[EngineRow]) -> list[EngineRow]:
        """Those of the workers that have their files where this machine keeps the yard's."""
        return [e for e in engines if self._slots(e).exists()]

    def _slots(self, engine: EngineRow) -> Path:
        return self.yard.folder / "run" / f"{engine.id}.slots"

    def under_way(self, row: BatchRow, engines: Sequence[EngineRow]) -> dict[int, Note]:
        """The tasks that workers of this machine run at this moment."""
        found: dict[int, Note] = {}
        for engine in engines:
            try:
                slots = Slots(self._slots(engine), 0, create=False)
            except (OSError, ValueError):  # on another machine, or gone this very moment
                continue
            notes = [slots.read(lane) for lane in range(slots.lanes)]
            slots.close()
            found |= {n.task: n for n in notes if n.task != IDLE and n.batch == row.id}
        return found

    def position(self, view: Snapshot, queued: QueueRow, under_way: dict[int, Note]) -> int:
        """Where a task stands in the line of those that have not started; the next one is 1."""
        running = [view.queued(queued.batch, number) for number in under_way]
        mine = -queued.priority, queued.task
        ahead = sum(r is not None and (-r.priority, r.task) < mine for r in running)
        return max(1, view.ahead(queued) - ahead + 1)

    def task(
        self, view: Snapshot, row: BatchRow, number: int, under_way: dict[int, Note] | None = None
    ) -> BatchTask:
        """One task as it stands; `under_way` where that has been looked at already."""
        found = view.task(row.id, number)
        if found is None:
            raise NotFound(f"there is no task {self.id_of(number)}", hint="status lists the queue")
        engines = self.engines(view, row)
        held = view.queued(row.id, number)
        if under_way is None:
            under_way = self.under_way(row, engines)
        return self.read(
            found, view.outcome(row.id, number), held, under_way,
            len(view.attempts(row.id, number)), {e.id for e in engines},
        )  # fmt: skip

    def tasks(
        self, view: Snapshot, row: BatchRow, status: TaskStatus | None, offset: int, limit: int
    ) -> list[BatchTask]:
        """A page of tasks of a status, in the order in which they were added; None: ended ones."""
        if status is None or status.code >= COMPLETED:
            return list(islice(self.ended(view, row, status), offset, offset + limit))
        engines = self.engines(view, row)
        under_way = self.under_way(row, engines)
        local = {e.id for e in engines}
        found: list[BatchTask] = []
        for queued in view.queue(row.id):
            task = view.task(row.id, queued.task)
            if task is None or (queued.task in under_way) != (status is TaskStatus.RUNNING):
                continue
            found.append(self.read(task, None, queued, under_way, 0, local))
            if len(found) >= offset + limit:
                break
        return found[offset:]

    def ended(
        self, view: Snapshot, row: BatchRow, status: TaskStatus | None
    ) -> Iterator[BatchTask]:
        """Tasks that have ended, streamed."""
        codes = None if status is None else [status.code]
        tasks = _Tasks(view, row.id)
        for outcome in view.outcomes(row.id, statuses=codes):
            yield self.read(tasks.get(outcome.task), outcome, None, {}, 0, set())

    def read(
        self,
        task: TaskRow,
        outcome: OutcomeRow | None,
        queued: QueueRow | None,
        under_way: dict[int, Note],
        attempts: int,
        workers: set[int],
    ) -> BatchTask:
        """What is on record of a task, as an agent sees it."""
        with sound(f"task {task.task}"):
            listed = decode_listed(task.content)
        seen: dict[str, Any] = {
            "task_id": self.id_of(task.task),
            "name": task.name or "",
            "function": self.functions.name_of(listed.target),
            "params": listed.params,
            "priority": Priority(task.priority),
            "created_at": task.created,
            "max_retries": listed.retries or 0,
            "timeout": listed.timeout,
            "depends_on": [self.id_of(number) for number in listed.after],
        }
        if outcome is not None:
            return BatchTask(**seen, **_ended(outcome))
        note = under_way.get(task.task)
        elsewhere = queued is not None and queued.engine in workers and not under_way
        is_running = note is not None or elsewhere
        return BatchTask(
            **seen,
            status=TaskStatus.RUNNING if is_running else TaskStatus.QUEUED,
            started_at=None if note is None else clock.now() - note.seconds,
            retry_count=attempts,
        )


@contextmanager
def _unswept() -> Iterator[None]:
    """Without garbage collection: thousands of tasks make no cycles, and sweeping takes long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Tasks:
    """Task rows in rising order, read a page at a time."""

    def __init__(self, view: Snapshot, batch: int) -> None:
        self._view = view
        self._batch = batch
        self._page: dict[int, TaskRow] = {}

    def get(self, number: int) -> TaskRow:
        if number not in self._page:
            rows = self._view.tasks(self._batch, after=number - 1, limit=500)
            self._page = {row.task: row for row in rows}
        return self._page[number]


def _ended(outcome: OutcomeRow) -> dict[str, Any]:
    is_completed = outcome.status == COMPLETED
    error = None
    if outcome.error is not None:
        info = ErrorInfo.decode(outcome.error)
        error = f"{info.kind}: {info.message}"
    return {
        "status": TaskStatus.of(outcome.status),
        "started_at": outcome.started,
        "completed_at": outcome.started + outcome.seconds,
        "result": decode_as("msgpack", outcome.value or b"") if is_completed else None,
        "error": error,
        "retry_count": outcome.attempt,
    }


def one_line(error: UsageError) -> str:
    """An error as one sentence with what to do."""
    return f"{error.message}; {error.hint}" if error.hint else error.message

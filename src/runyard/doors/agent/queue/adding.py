"""Adding tasks to a queue: read and prepared one by one, appended in one transaction."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from runyard.doors.agent.functions.registry import RUN_CODE, engine_limit
from runyard.doors.agent.inputs.arguments import MOST_NAME, BadCall, TaskRequest, spelled, task_of
from runyard.doors.agent.queue.ledger import OPTIONS, OWNER, Ledger
from runyard.errors import UsageError
from runyard.schedule.registration import register
from runyard.spec.batch import Batch, ListedTask, decode_listed, encode_listed
from runyard.spec.status import COMPLETED
from runyard.spec.status import Status as TaskStatus
from runyard.store.base import Transaction
from runyard.store.rows import BatchRow

_BEFORE = "name a task by its id, or by the name of an earlier one in this call"


class RefusedTask(NamedTuple):
    """A task that was not added."""

    place: int  # in the given list
    name: str
    reason: str


class PreparedTask(NamedTuple):
    """A task that can be added if its dependencies exist."""

    name: str
    priority: int
    content: bytes
    depends_on: tuple[str, ...]


class Added(NamedTuple):
    """The tasks of one call: those that were added, and those that were refused."""

    numbers: list[int]
    refused: list[RefusedTask]


def add(ledger: Ledger, wanted: Iterable[TaskRequest | RefusedTask]) -> Added:
    """Append tasks in one transaction; those that can't be added are returned with a reason."""
    with _without_gc():
        prepared = [_prepared(ledger, at, each) for at, each in enumerate(wanted)]
        return ledger.yard.store.write(lambda tx: _append(ledger, tx, prepared))


def read_task(place: int, given: Any) -> TaskRequest | RefusedTask:
    """Read one task of a list, or say why it is refused."""
    try:
        return task_of(given)
    except BadCall as error:
        name = spelled(given.get("name", ""))[:MOST_NAME] if isinstance(given, dict) else ""
        return RefusedTask(place, name, _one_line(error))


def _one_line(error: UsageError) -> str:
    """An error and its hint as one sentence."""
    separator = " " if error.message.endswith("?") else "; "
    return f"{error.message}{separator}{error.hint}" if error.hint else error.message


def _prepared(
    ledger: Ledger, at: int, each: TaskRequest | RefusedTask
) -> PreparedTask | RefusedTask:
    if isinstance(each, RefusedTask):
        return each
    try:
        known = ledger.functions.find(each.function)
        ledger.functions.check(known, each.params)
        timeout = each.timeout
        if timeout is None and known.name in RUN_CODE:
            timeout = ledger.settings.limits.wall
        timeout = engine_limit(known.name, each.params, timeout)
        task = ListedTask(
            known.target, each.params, each.name, (), int(each.priority), timeout,
            each.max_retries,
        )  # fmt: skip
        # Only text and numbers are kept: there may be a hundred thousand tasks.
        return PreparedTask(each.name, task.priority, encode_listed(task), tuple(each.depends_on))
    except UsageError as error:
        return RefusedTask(at, each.name, _one_line(error))


def _append(ledger: Ledger, tx: Transaction, prepared: list[PreparedTask | RefusedTask]) -> Added:
    row = _row(ledger, tx)
    start = row.next_task
    rows, refused = [], []
    names: dict[str, int | None] = {}  # tasks earlier in this call; None: refused
    for at, each in enumerate(prepared):
        if isinstance(each, RefusedTask):
            names[each.name] = None
            refused.append(each)
            continue
        content = each.content
        after: Sequence[int] = ()
        try:
            if each.depends_on:
                after = sorted({_dependency(ledger, tx, row, names, b) for b in each.depends_on})
                listed = msgspec.structs.replace(decode_listed(content), after=tuple(after))
                content = encode_listed(listed)
            rows.append((each.name, each.priority, content, after))
            names[each.name] = start + len(rows) - 1
        except UsageError as error:
            names[each.name] = None
            refused.append(RefusedTask(at, each.name, _one_line(error)))
    if rows:
        tx.add_tasks(row.id, rows)
    return Added(list(range(start, start + len(rows))), refused)


def _dependency(
    ledger: Ledger, tx: Transaction, row: BatchRow, names: dict[str, int | None], text: str
) -> int:
    """The number of a task that another one depends on."""
    if text in names:
        found = names[text]
        if found is None:
            raise BadCall(f"it depends on {text!r}, which was refused")
        return found
    try:
        number = ledger.number_of(text)
    except BadCall:
        raise BadCall(f"it depends on {text[:60]!r}, which does not exist", hint=_BEFORE) from None
    if tx.task(row.id, number) is None:
        raise BadCall(f"it depends on {text!r}, which does not exist", hint=_BEFORE)
    ended = tx.outcome(row.id, number)
    if ended is not None and ended.status != COMPLETED:
        status = TaskStatus.of(ended.status)
        raise BadCall(f"it depends on {ledger.id_of(number)}, which is {status}")
    return number


def _row(ledger: Ledger, tx: Transaction) -> BatchRow:
    """The queue's row, made if necessary, and locked until the transaction ends."""
    if not ledger.exists(tx):
        batch = Batch(None, None, (), ledger.name, None, "msgpack", OPTIONS)
        return register(tx, batch, root=os.getcwd(), code={OWNER: ""}).row
    locked = tx.batch_by_id(ledger.row(tx).id)
    assert locked is not None
    return locked


@contextmanager
def _without_gc() -> Iterator[None]:
    """Pause garbage collection: thousands of tasks have no cycles, and scanning them is slow."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

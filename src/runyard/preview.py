"""What a run would do and how long it would take, without running anything.

The batch is recorded in a yard in memory, with a copy of what the real yard has of it. So mistakes
are refused as in a real run, and nothing is written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from runyard.attempt.shell import filled
from runyard.backends import unopened
from runyard.errors import NotFound
from runyard.reports.estimate import RunEstimate, estimate
from runyard.reports.result import Result
from runyard.schedule.budget import Budget
from runyard.schedule.changed import CodeChange, find_change
from runyard.schedule.engine import check_options
from runyard.schedule.registration import code_of
from runyard.schedule.targets import check_targets
from runyard.spec.batch import Batch, decode_listed
from runyard.spec.option_kinds import TASKS
from runyard.spec.task import Target
from runyard.store.base import Snapshot, Transaction
from runyard.store.rows import TaskRow, runs
from runyard.store.stored_batch import StoredBatch
from runyard.yard import Yard

LOCAL = {"ray": "processes"}
"""Backends that are not started for a preview, and what stands in for them."""

SHOWN = 10
"""How many calls a preview contains."""


class PlannedCall(NamedTuple):
    """What one task would call."""

    task: str
    call: str  # a shell command, or a function call
    replicate: int | None


@dataclass(frozen=True)
class Preview:
    """What a run would do."""

    batch: str
    total: int
    recorded: int  # outcomes that stay
    left: int
    seed: int | None  # None: the first run chooses one
    calls: list[PlannedCall]  # the first ones
    estimate: RunEstimate
    notices: list[str]
    forgotten: int  # outcomes that would be deleted to start over

    def to_data(self) -> dict[str, Any]:
        """The preview as JSON."""
        return {
            "batch": self.batch,
            "total": self.total,
            "recorded": self.recorded,
            "left": self.left,
            "seed": self.seed,
            "calls": [call._asdict() for call in self.calls],
            **self.estimate.to_data(),
        }


def preview(
    yard: Yard, batch: Batch, *, backend: str, workers: int | None, fresh: bool = False
) -> Preview:
    """What a run of the batch in this yard would do."""
    with Yard("memory:") as scratch:
        result = recorded_result(yard, batch)
        kept = None if fresh or result is None else result.recorded
        if kept is not None:
            _copy(scratch, yard, kept)
        planned = scratch.recorded(scratch.submit(batch))
        place = unopened(LOCAL.get(backend, backend), workers)
        notices = list(place.notices)
        notices += [notice.text for notice in check_options(planned, place.kind, scratch.folder)]
        change = None if kept is None else _change(yard, kept, batch)
        again = [] if change is None else change.again
        notices += [] if change is None else [change.event.text]
        ranges = _left(yard, kept, planned, again)
        numbers = (n for low, high in ranges for n in range(low, high))
        with scratch.store.snapshot() as view:
            calls = [_call(view, planned, number) for number in islice(numbers, SHOWN)]
    left = sum(high - low for low, high in ranges)
    done = 0 if kept is None else kept.row.done - len(again)
    ahead = max(0, int(min(left, batch.options.budget.get(TASKS, done + left) - done)))
    rest = RunEstimate(0, ahead, place.lanes)
    if kept is not None and ahead and not again:
        _check_metrics(kept, batch, result)
    if result is not None:
        rest = estimate(yard.store, result, ahead, place.lanes, batch.options.metrics)
    return Preview(
        planned.name, planned.row.total, done, left, batch.seed if kept is None else kept.seed,
        calls, rest, notices, result.stats.done if fresh and result is not None else 0,
    )  # fmt: skip


def recorded_result(yard: Yard, batch: Batch) -> Result | None:
    """The recorded outcomes of the batch."""
    try:
        return yard.results(batch.record_name, codec=batch.codec)
    except NotFound:
        return None


def _copy(scratch: Yard, yard: Yard, recorded: StoredBatch) -> None:
    """Copy a recorded batch into the yard in memory, without its outcomes."""
    with yard.store.snapshot() as view:
        listed = view.tasks(recorded.id) if recorded.listed else []
    columns = {k: v for k, v in msgspec.structs.asdict(recorded.row).items() if k != "id"}
    if recorded.listed:
        columns |= {"total": 0, "frontier": 0}

    def put(tx: Transaction) -> None:
        made = tx.create_batch(**columns)
        if listed:
            tx.add_tasks(made.id, [_again(row) for row in listed])

    scratch.store.write(put)


def _again(row: TaskRow) -> tuple[str | None, int, bytes, tuple[int, ...]]:
    return row.name, row.priority, row.content, decode_listed(row.content).after


def _change(yard: Yard, kept: StoredBatch, batch: Batch) -> CodeChange | None:
    """Recorded outcomes that were made by other code than the present."""
    code = code_of(batch, check_targets(batch, os.getcwd()), "serial").fingerprints
    with yard.store.snapshot() as view:
        return find_change(view, kept, code, batch.options.changed)


def _left(
    yard: Yard, kept: StoredBatch | None, planned: StoredBatch, again: list[int]
) -> list[tuple[int, int]]:
    """Ranges of tasks that have no outcome, or whose outcome will be deleted."""
    if kept is None:
        return [(0, planned.row.total)]
    found = yard.store.write(lambda tx: tx.pending(kept.id))
    return sorted([*found, *runs(again), (kept.row.next_task, planned.row.next_task)])


def _check_metrics(kept: StoredBatch, batch: Batch, result: Result | None) -> None:
    """Refuse metrics that the recorded outcomes lack, as the run would."""
    if result is None or not batch.options.metrics:
        return
    budget, shown = batch.options.budget, batch.options.metric
    meter = Budget(budget, shown, kept.codec, done=0, seconds=0.0, rows=result.rows())
    missing = meter.missing()
    if missing is not None:
        raise meter.error(kept.name, missing)


def _call(view: Snapshot, planned: StoredBatch, number: int) -> PlannedCall:
    plan = planned.plan
    if plan is None:
        task = planned.task(view, number)
        return PlannedCall(f"{planned.name}/{number}", _text(task.target, task.params), None)
    assert planned.target is not None
    replicate = plan.replicate(number) if plan.replicates > 1 else None
    text = _text(planned.target, plan.params(number))
    return PlannedCall(f"{planned.name}/{number}", text, replicate)


def _text(target: Target, params: dict[str, Any]) -> str:
    if target.kind == "shell":
        return filled(target.ref, params)
    return f"{target.label}({', '.join(f'{name}={value!r}' for name, value in params.items())})"

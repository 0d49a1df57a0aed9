"""`runyard run --dry-run` and `--try`: what would run, and how long it would take.

A dry run records the batch in a yard in memory, with a copy of what the real yard has of it. So
mistakes are refused as in a real run, and nothing is written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runyard.backends import backend_class, check_workers
from runyard.cli.estimate import RunEstimate, estimate
from runyard.cli.running import EXIT_FAILED, final_document, say_result
from runyard.cli.session import Session
from runyard.errors import NotFound
from runyard.format import count
from runyard.spec.batch import decode_listed
from runyard.spec.option_kinds import TASKS
from runyard.spec.options import SPECS
from runyard.store.rows import runs

if TYPE_CHECKING:
    from runyard.backends.base import Backend
    from runyard.reports.result import Result
    from runyard.schedule.changed import CodeChange
    from runyard.spec.batch import Batch
    from runyard.spec.task import Target
    from runyard.store.base import Snapshot, Transaction
    from runyard.store.rows import TaskRow
    from runyard.store.stored_batch import StoredBatch
    from runyard.yard import Yard

SHOWN = 10
"""Calls shown by a dry run."""

WIDTH = 200
"""Characters shown of a call."""


class PlannedCall(NamedTuple):
    """What one task would call."""

    task: str
    text: str  # a shell command, or a function call
    replicate: int | None

    def line(self) -> str:
        """The call as text."""
        text = self.text if len(self.text) <= WIDTH else self.text[: WIDTH - 1] + "…"
        return f"{self.task}  {text}" + (
            "" if self.replicate is None else f"  replicate {self.replicate}"
        )


def preview(session: Session, batch: Batch, *, fresh: bool, **place: Any) -> int:
    """Show what a run would do, without running anything."""
    from runyard.yard import Yard

    with contextlib.ExitStack() as stack:
        yard = stack.enter_context(session.yard()) if session.has_yard() else None
        scratch = stack.enter_context(Yard("memory:"))
        result = None if yard is None else _recorded(yard, batch)
        kept = None if fresh or result is None else result.recorded
        if kept is not None and yard is not None:
            _copy(scratch, yard, kept)
        planned = scratch.recorded(scratch.submit(batch))
        backend, lanes = _unopened(**place)
        _check(session, scratch, planned, backend)
        change = None if yard is None or kept is None else _change(yard, kept, batch)
        again = [] if change is None or change.event.action == "keep" else change.tasks
        ranges = _left(yard, kept, planned, again)
        left = sum(high - low for low, high in ranges)
        numbers = (n for low, high in ranges for n in range(low, high))
        with scratch.store.snapshot() as view:
            calls = [_call(view, planned, number) for number in islice(numbers, SHOWN)]
        done = 0 if kept is None else kept.row.done - len(again)
        runs = max(0, int(min(left, batch.options.budget.get(TASKS, done + left) - done)))
        rest = RunEstimate(0, runs, lanes)
        if kept is not None and runs and not again:
            _check_metrics(kept, batch, result)
        if yard is not None and result is not None:
            rest = estimate(yard, result, runs, lanes, batch.options.metrics)
        seed = batch.seed if kept is None else kept.seed
        _say(session, batch, planned, calls, left, seed, rest)
        if change is not None:
            session.note(change.event.text)
        if fresh and result is not None and result.stats.done:
            session.say(f"  --fresh would delete {count(result.stats.done, 'outcome')}")
    session.document(
        {
            "batch": planned.name, "total": planned.row.total, "recorded": done, "left": left,
            "seed": seed,
            "calls": [{"task": c.task, "call": c.text, "replicate": c.replicate} for c in calls],
            **rest.document(),
        }
    )  # fmt: skip
    return 0


def after_trial(
    yard: Yard, batch: Batch, *, fresh: bool, **place: Any
) -> Callable[[Session, Result], int]:
    """A function that shows the result of a trial and estimates the rest of its batch."""
    before = None if fresh else _recorded(yard, batch)
    failed, done = (before.stats.failed, before.stats.done) if before else (0, 0)

    def tell(session: Session, result: Result) -> int:
        code, stats = say_result(session, result), result.stats
        left = stats.total - stats.done
        _, lanes = _unopened(**place)
        rest = estimate(yard, result, left, lanes, batch.options.metrics)
        for line in rest.lines(batch.options.budget) if left else ():
            session.say(f"  {line}")
        session.document(
            {
                **final_document(result), "tried": stats.done - done, "left": left,
                "estimate": rest.document(),
            }
        )  # fmt: skip
        return 0 if code == EXIT_FAILED and stats.failed == failed else code

    return tell


def _say(
    session: Session,
    batch: Batch,
    planned: StoredBatch,
    calls: list[PlannedCall],
    left: int,
    seed: int | None,
    rest: RunEstimate,
) -> None:
    total = planned.row.total
    seeded = "the first run chooses a seed" if seed is None else f"seed {seed}"
    counts = f"{count(total, 'task')}, {total - left:,} recorded, {left:,} left to run"
    session.say(f"{planned.name}: {counts}; {seeded}")
    for call in calls:
        session.say(f"  {call.line()}")
    if left > len(calls):
        session.say(f"  and {left - len(calls):,} more")
    if rest.left < left:
        session.say(f"  the budget ends the run after {rest.left:,} of them")
    for name, value in batch.options.given().items():
        if SPECS[name].preview:
            session.say(f"  {SPECS[name].preview.format(value)}")
    for line in rest.lines(batch.options.budget) if left else ():
        session.say(f"  {line}")
    session.note("dry run: nothing was run")


def _recorded(yard: Yard, batch: Batch) -> Result | None:
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
    from runyard.schedule.changed import find_change
    from runyard.schedule.registration import code_of
    from runyard.schedule.targets import check_targets

    code = code_of(batch, check_targets(batch, os.getcwd()), "serial").fingerprints
    with yard.store.snapshot() as view:
        return find_change(view, kept, code, batch.options.changed)


def _left(
    yard: Yard | None, kept: StoredBatch | None, planned: StoredBatch, again: list[int]
) -> list[tuple[int, int]]:
    """Ranges of tasks that have no outcome, or whose outcome will be deleted."""
    if yard is None or kept is None:
        return [(0, planned.row.total)]
    found = yard.store.write(lambda tx: tx.pending(kept.id))
    return sorted([*found, *runs(again), (kept.row.next_task, planned.row.next_task)])


def _unopened(backend: str, workers: int | None, **_: Any) -> tuple[type[Backend], int]:
    """The backend, not started, and its number of lanes; for Ray, those of local processes."""
    kind = backend_class("processes" if backend == "ray" else backend)
    check_workers(workers)
    default = kind.default_workers()
    return kind, default if workers is None or kind.name == "serial" else workers


def _check(session: Session, scratch: Yard, planned: StoredBatch, backend: type[Backend]) -> None:
    """Refuse options that the backend can't follow."""
    from runyard.schedule.engine import check_options

    for notice in check_options(planned, backend, scratch.folder):
        session.note(notice.text)


def _check_metrics(kept: StoredBatch, batch: Batch, result: Result | None) -> None:
    """Refuse metrics that the recorded outcomes lack, as the run would."""
    from runyard.schedule.budget import Budget

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
        from runyard.attempt.shell import filled

        return filled(target.ref, params)
    return f"{target.label}({', '.join(f'{name}={value!r}' for name, value in params.items())})"

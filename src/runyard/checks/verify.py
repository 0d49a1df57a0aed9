"""Rerun a sample of a batch in a temporary yard, and compare the outcomes."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, takewhile
from typing import Any

from runyard.backends import backend_class
from runyard.checks.outcomes import ShownOutcome, shown
from runyard.errors import NotFound, UsageError
from runyard.events import Event
from runyard.reports.progress import ShowProgress, show
from runyard.schedule.changed import present_code
from runyard.spec.outcome import ErrorInfo, OutcomeRow, digest_content
from runyard.spec.status import CANCELLED
from runyard.store.base import Snapshot, Transaction
from runyard.store.rows import TaskRow
from runyard.store.stored_batch import StoredBatch, encode_options
from runyard.store.versions import MixedCode, hash_seed_of, mixed_code, outdated
from runyard.yard import Yard

RUNS = 128
"""The most runs of neighbouring tasks in a sample; each is one claim."""

DEADLY = frozenset({"WorkerDied", "TaskOutOfMemory", "TaskTimeout"})
"""Errors whose tasks are rerun only on backends where they can't kill this process."""


@dataclass(frozen=True)
class Verified:
    """A sample of a batch as it was recorded, and as it ended when it was rerun."""

    recorded: StoredBatch
    backend: str
    chosen: dict[int, OutcomeRow]
    again: dict[int, OutcomeRow]
    outdated: int  # outcomes of the sample made by other code
    mixed: MixedCode
    codec: str  # "pickle" if recorded values may be unpickled

    @cached_property
    def different(self) -> list[int]:
        """The tasks whose outcomes differ."""
        return [
            task
            for task, row in sorted(self.again.items())
            if digest_content(row) != digest_content(self.chosen[task])
        ]

    @property
    def hash_seed(self) -> str:
        """The hash seed that the sample was rerun with."""
        return backend_class(self.backend).hash_seed()

    @cached_property
    def other_hash_seeds(self) -> list[str]:
        """The hash seeds of those tasks that differ and were recorded with another one."""
        workers = (self.chosen[task].worker >> 16 for task in self.different)
        seeds = [hash_seed_of(self.recorded, engine) for engine in workers]
        return [seed for seed in seeds if seed not in ("", self.hash_seed)]

    @cached_property
    def first(self) -> tuple[ShownOutcome, ShownOutcome] | None:
        """The first task that differs: as recorded, and now."""
        for task in self.different:
            before = shown(self.chosen[task], self.recorded.codec, self.codec)
            return before, shown(self.again[task], self.recorded.codec, "pickle")
        return None

    def to_data(self) -> dict[str, Any]:
        """All figures as plain JSON values."""
        name, first = self.recorded.name, None
        if self.first is not None:
            before, now = self.first
            task = f"{name}/{self.different[0]}"
            first = {"task": task, "recorded": before.to_data(), "now": now.to_data()}
        return {
            "batch": name,
            "backend": self.backend,
            "sampled": len(self.chosen),
            "same": len(self.again) - len(self.different),
            "different": len(self.different),
            "other_code": self.outdated,
            "other_hash_seed": len(self.other_hash_seeds),
            "mixed_code": {
                function: [version._asdict() for version in versions]
                for function, versions in self.mixed.items()
            },
            "first": first,
        }


def verify(
    yard: Yard,
    name: str,
    sample: float | int,
    backend: str,
    workers: int | None = None,
    *,
    codec: str = "msgpack",
    progress: ShowProgress = None,
) -> Verified:
    """Rerun a sample of a batch on a backend; `sample` is as `read_sample` returns it."""
    yard.refuse_by_value(name)
    recorded = yard.recorded(name)
    with (
        tempfile.TemporaryDirectory(prefix="runyard-verify-") as place,
        Yard(place) as elsewhere,
    ):
        with yard.store.snapshot() as view, elsewhere.store.transaction() as tx:
            chosen = _choose(view, recorded, sample, backend)
            copy_sample(tx, view, recorded, sorted(chosen))
        with show(elsewhere.bus, progress, _of_sample(recorded, chosen)):
            result = elsewhere.resume(name, backend=backend, workers=workers, progress=False)
        with elsewhere.store.snapshot() as view:
            rows = [view.outcome(result.recorded.id, task) for task in chosen]
    with yard.store.snapshot() as view:
        others = outdated(view, recorded, present_code(view, recorded, "serial").fingerprints)
        made_by_others = len(set().union(*others.values()).intersection(chosen))
        mixed = mixed_code(view, recorded)
    again = {row.task: row for row in rows if row is not None}
    return Verified(recorded, backend, chosen, again, made_by_others, mixed, codec)


def read_sample(text: str) -> float | int:
    """The size of a sample: a share such as `10%`, or a number of tasks."""
    number = text.removesuffix("%")
    try:
        share = float(number) / 100 if text.endswith("%") else int(number)
    except ValueError:
        share = 0
    if not share > 0 or (isinstance(share, float) and share > 1):
        raise UsageError(
            f"not a valid sample: {text}", hint="use a number of tasks, or a share such as 10%"
        )
    return share


def copy_sample(tx: Transaction, view: Snapshot, recorded: StoredBatch, chosen: list[int]) -> None:
    """Copy a batch to another store, with these tasks left to run and all others done."""
    row = recorded.row
    columns: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("name", "identity", "plan", "code", "seed", "root", "priority")
    }
    columns["options"] = encode_options(recorded.options.for_verify())
    if recorded.listed:
        made = tx.create_batch(**columns, total=0)
        listed = view.tasks(recorded.id)
        for first, tasks in _neighbours(listed):
            tx.update_batch(made.id, frontier=first)  # earlier tasks may have been removed
            tx.add_tasks(made.id, [(task.name, task.priority, task.content, ()) for task in tasks])
        wanted = set(chosen)
        others = [OutcomeRow.cancelled(made.id, t.task) for t in listed if t.task not in wanted]
        tx.record(made.id, others)
        return
    # The tasks of a grid are not listed: all others count as cancelled, without a row.
    left_out = row.total - len(chosen)
    made = tx.create_batch(**columns, total=row.total, frontier=row.total, cancelled=left_out)
    tx.record(made.id, [OutcomeRow.cancelled(made.id, task) for task in chosen])
    tx.requeue(made.id, chosen)


def _neighbours(listed: list[TaskRow]) -> Iterator[tuple[int, list[TaskRow]]]:
    """Runs of tasks without gaps in their numbers, each with its first number."""
    for _, run in groupby(enumerate(listed), lambda at: at[1].task - at[0]):
        tasks = [task for _, task in run]
        yield tasks[0].task, tasks


def _of_sample(recorded: StoredBatch, chosen: Collection[int]) -> Callable[[Event], Event]:
    """Make events count the sample only."""
    left_out = recorded.row.total - len(chosen)

    def seen_as(event: Event) -> Event:
        changes: dict[str, Any] = {}
        if hasattr(event, "total"):
            changes["total"] = event.total - left_out
        if hasattr(event, "cancelled"):
            changes["cancelled"] = event.cancelled - left_out
        return replace(event, **changes)

    return seen_as


def _choose(
    view: Snapshot, recorded: StoredBatch, share: float | int, backend: str
) -> dict[int, OutcomeRow]:
    """The sample: runs of neighbouring tasks, chosen by the seed."""
    abilities = backend_class(backend).capabilities
    careful = not (abilities.survives_crash and abilities.hard_kill)
    numbers: Sequence[int] = range(recorded.row.total)
    if recorded.listed:  # some may have been removed
        numbers = [task.task for task in view.tasks(recorded.id)]
    most = share if isinstance(share, int) else max(1, math.ceil(share * recorded.row.done))
    size = max(1, math.ceil(min(most, len(numbers)) / RUNS))

    def lot(run: int) -> bytes:
        return hashlib.sha256(f"{recorded.seed}/{run}".encode()).digest()

    chosen: dict[int, OutcomeRow] = {}
    for run in sorted(range(math.ceil(len(numbers) / size)), key=lot):
        part = numbers[run * size : (run + 1) * size]
        rows = view.outcomes(recorded.id, after=part[0] - 1, limit=size)
        for row in takewhile(lambda row: row.task <= part[-1], rows):  # noqa: B023
            if len(chosen) < most and _is_repeatable(row, careful):
                chosen[row.task] = row
        if len(chosen) >= most:
            break
    if not chosen:
        raise NotFound(f"{recorded.name} has no outcomes that can be rerun on {backend}")
    return chosen


def _is_repeatable(row: OutcomeRow, careful: bool) -> bool:
    if row.error is None:
        return True
    if row.status == CANCELLED:
        return False
    return not careful or ErrorInfo.decode(row.error).kind not in DEADLY

"""Which batch of a shared store a worker runs next: by priority, then the oldest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

from runyard.spec.batch import targets_of
from runyard.spec.outcome import decoding_stored
from runyard.spec.task import Target
from runyard.store.base import Snapshot
from runyard.store.rows import BatchRow
from runyard.store.stored_batch import StoredBatch


def unfinished(view: Snapshot, without: Collection[int] = ()) -> list[BatchRow]:
    """Batches with tasks that have no outcome, the most urgent first."""
    rows = [row for row in view.batches() if row.pending and row.id not in without]
    return sorted(rows, key=lambda row: (-row.priority, row.id))


def has_work(view: Snapshot, alive: Callable[[int], bool], row: BatchRow) -> bool:
    """Whether some of the batch's tasks are free."""
    lives = cache(alive)
    if row.plan is not None:
        free = (c.engine is None or not lives(c.engine) for c in view.claims(row.id))
        return row.frontier < row.total or any(free)
    if view.next_free(row.id) is not None:
        return True
    left = (task.engine for task in view.queue(row.id) if not task.waiting)
    return any(engine is None or not lives(engine) for engine in left)


def targets(view: Snapshot, row: BatchRow) -> set[Target]:
    """The targets that the batch's tasks call."""
    recorded = StoredBatch(row)
    if recorded.target is not None:
        return {recorded.target}
    with decoding_stored(f"the tasks of {row.name}"):
        return targets_of(task.content for task in view.tasks(row.id))


def by_value(view: Snapshot, row: BatchRow) -> str | None:
    """A function of the batch that can't be found by name: only its script can run it."""
    return next((each.ref for each in targets(view, row) if each.kind == "value"), None)


def next_batch(
    view: Snapshot,
    alive: Callable[[int], bool],
    *,
    above: int | None = None,
    without: Collection[int] = (),
) -> BatchRow | None:
    """The most urgent batch with free tasks, `above` a priority if one is given."""
    for row in unfinished(view, without):
        if above is not None and row.priority <= above:
            return None
        if has_work(view, alive, row):
            return row
    return None

"""What a worker that shares a store with others goes on with: priority first, then the oldest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

from runyard.spec.batch import decode_listed
from runyard.spec.outcome import sound
from runyard.store.base import Snapshot
from runyard.store.recorded import Recorded
from runyard.store.rows import BatchRow


def unfinished(view: Snapshot, without: Collection[int] = ()) -> list[BatchRow]:
    """Batches with tasks that have no outcome, the most urgent first."""
    rows = [row for row in view.batches() if row.pending and row.id not in without]
    return sorted(rows, key=lambda row: (-row.priority, row.id))


def has_work(view: Snapshot, alive: Callable[[int], bool], row: BatchRow) -> bool:
    """Whether some of the batch's tasks are nobody's."""
    lives = cache(alive)
    if row.plan is not None:
        free = (c.engine is None or not lives(c.engine) for c in view.claims(row.id))
        return row.frontier < row.total or any(free)
    return any(
        not task.waiting and (task.engine is None or not lives(task.engine))
        for task in view.queue(row.id)
    )


def travels(view: Snapshot, row: BatchRow) -> bool:
    """Whether the batch's functions can be found by name: no others are in the store."""
    recorded = Recorded(row)
    if not recorded.listed:
        return recorded.target is not None and recorded.target.kind != "value"
    with sound(f"the tasks of {row.name}"):
        tasks = (decode_listed(task.content) for task in view.tasks(row.id))
        return all(task.target.kind != "value" for task in tasks)


def next_batch(
    view: Snapshot,
    alive: Callable[[int], bool],
    *,
    above: int | None = None,
    without: Collection[int] = (),
) -> BatchRow | None:
    """The most urgent batch that has something to take, `above` a priority if one is given."""
    for row in unfinished(view, without):
        if above is not None and row.priority <= above:
            return None
        if has_work(view, alive, row):
            return row
    return None

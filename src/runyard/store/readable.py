"""Check that stored data can be decoded; checksums only show that it is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runyard.errors import RunyardError
from runyard.spec.batch import decode_listed
from runyard.spec.codec import decode
from runyard.spec.outcome import ErrorInfo, OutcomeRow
from runyard.spec.status import CANCELLED, COMPLETED, FAILED
from runyard.store.base import Snapshot
from runyard.store.rows import BatchRow
from runyard.store.stored_batch import StoredBatch

PAGE = 1000


def unreadable(view: Snapshot) -> Iterator[str]:
    """Data that can't be decoded in a store with intact rows, one sentence each.

    Pickles are not decoded, since that would run their code.
    """
    for row in view.batches():
        recorded, codec = StoredBatch(row), ""
        try:
            codec = recorded.codec
            _ = recorded.plan, recorded.options, recorded.versions, recorded.seed
        except (RunyardError, ValueError) as error:
            yield f"batch {row.name}: {error}".splitlines()[0]
        yield from _tasks(view, row)
        for outcome in view.outcomes(row.id):
            if not _is_readable(outcome, codec):
                yield f"batch {row.name}: the outcome of task {outcome.task} can't be read"


def _tasks(view: Snapshot, row: BatchRow) -> Iterator[str]:
    after = -1
    while page := view.tasks(row.id, after=after, limit=PAGE):
        after = page[-1].task
        for task in page:
            if not _reads(decode_listed, task.content):
                yield f"batch {row.name}: task {task.task} can't be read"


def _is_readable(row: OutcomeRow, codec: str) -> bool:
    return (
        row.status in (COMPLETED, FAILED, CANCELLED)
        and (row.error is None or _reads(ErrorInfo.decode, row.error))
        and (row.value is None or codec != "msgpack" or _reads(decode, row.value))
    )


def _reads(reader: Callable[[bytes], object], data: bytes) -> bool:
    try:
        reader(data)
    except (RunyardError, ValueError, TypeError):
        return False
    return True

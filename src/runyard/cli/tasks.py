"""How the command line names tasks: BATCH/NUMBER."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.store.stored_batch import StoredBatch
    from runyard.yard import Yard


def task_of(text: str) -> tuple[str, int]:
    """Read BATCH/NUMBER."""
    batch, _, number = text.rpartition("/")
    if not batch or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise UsageError(f"{text!r} is not a task", hint="write BATCH/NUMBER, such as walks/17")
    return batch, int(number)


def batch_with(yard: Yard, name: str, number: int) -> StoredBatch:
    """The recorded batch, checked to have a task of this number."""
    recorded = yard.recorded(name)
    with yard.store.snapshot() as view:
        recorded.check_task(view, number)
    return recorded

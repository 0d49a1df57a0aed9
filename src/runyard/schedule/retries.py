"""Attempts that did not complete: which tasks get another one, and when.

A task's own errors (it raised, ran too long, used too much memory) count against `retries`. Deaths
of its worker count against `crash_attempts`. The two are counted apart, so that a crash never
changes what a task sees.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runyard.spec.options import Options
from runyard.spec.status import Status
from runyard.store.base import Transaction
from runyard.store.rows import AttemptRow
from runyard.store.stored_batch import StoredBatch


class Attempts(NamedTuple):
    """How many attempts at a task have not completed."""

    errors: int = 0  # of its own
    crashes: int = 0  # of its worker

    @property
    def total(self) -> int:
        """Both."""
        return self.errors + self.crashes


class AttemptHistory:
    """Earlier attempts at tasks that have no outcome yet."""

    def __init__(self, rows: Iterable[AttemptRow] = ()) -> None:
        self._by_task: dict[int, Attempts] = {}
        self._sorted: list[int] | None = None  # its tasks; None: not up to date
        self.add_rows(rows)

    def add_rows(self, rows: Iterable[AttemptRow]) -> None:
        """Take over what the store knows of tasks; replaces what was known."""
        found: dict[int, Attempts] = {}
        for row in rows:
            before = found.get(row.task, Attempts())
            found[row.task] = _after(before, is_crash=bool(row.crash))
        self._by_task |= found
        self._sorted = None

    def of(self, task: int) -> Attempts:
        """The attempts at one task."""
        return self._by_task.get(task, Attempts())

    def add(self, task: int, *, is_crash: bool) -> Attempts:
        """Count one more; all of them."""
        self._by_task[task] = _after(self.of(task), is_crash=is_crash)
        self._sorted = None
        return self._by_task[task]

    def forget(self, task: int) -> None:
        """The task has an outcome, or starts over."""
        self._by_task.pop(task, None)
        self._sorted = None

    def within(self, low: int, high: int) -> list[int]:
        """The tasks in [low, high) with earlier attempts, in order."""
        if self._sorted is None:
            self._sorted = sorted(self._by_task)
        return self._sorted[bisect_left(self._sorted, low) : bisect_left(self._sorted, high)]


def _after(attempts: Attempts, *, is_crash: bool) -> Attempts:
    return Attempts(attempts.errors + (not is_crash), attempts.crashes + is_crash)


def wants_retry(options: Options, retries: int, attempt: int, classes: list[str]) -> bool:
    """Whether an error that a task raised is worth another attempt."""
    if attempt >= retries:
        return False
    if any(name in options.never_retry for name in classes):
        return False
    return not options.retry_on or any(name in options.retry_on for name in classes)


def retry_delay(options: Options, root_seed: int, task: int, attempt: int) -> float:
    """Seconds before the next attempt: exponential, with jitter derived from the seed."""
    try:
        most = min(options.backoff_max, options.backoff * options.backoff_factor**attempt)
    except OverflowError:
        most = options.backoff_max
    noise = hashlib.sha256(f"{root_seed}/{task}/{attempt}".encode()).digest()
    return most * (0.5 + 0.5 * int.from_bytes(noise[:4], "big") / 2**32)


def survives_crash(options: Options, crashes: int) -> bool:
    """Whether a task gets another attempt after this many deaths of its worker."""
    return crashes < options.crash_attempts


# From outside the engine: let tasks that have an outcome run again


def requeue_status(tx: Transaction, batch: StoredBatch, status: Status) -> list[int]:
    """Forget the outcomes of one status; the tasks that will run again."""
    tasks = [row.task for row in tx.outcomes(batch.id, statuses=[status.code])]
    return requeue(tx, batch, tasks)


def requeue(tx: Transaction, batch: StoredBatch, tasks: Sequence[int]) -> list[int]:
    """Forget the outcomes of these tasks, and of those cancelled because one of them failed."""
    again = list(tasks)
    if batch.listed:
        again += [
            row.task
            for row in tx.outcomes(batch.id, statuses=[Status.CANCELLED.code])
            if row.error is not None and b"DependencyFailed" in row.error
        ]
    if again:
        tx.requeue(batch.id, again)
    for task in set(again).intersection(tx.cancel_requests(batch.id)):
        tx.clear_cancel(batch.id, task)
    return again

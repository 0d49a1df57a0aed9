"""The rows of all tables but outcomes, as frozen structs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from runyard.clock import Pauses
from runyard.spec.outcome import OutcomeRow


class BatchRow(msgspec.Struct, frozen=True):
    """A recorded batch."""

    id: int
    name: str
    identity: bytes  # target and codec
    plan: bytes | None  # None: a list
    options: bytes
    code: bytes  # versions of its functions; see `StoredBatch.versions`
    seed: str  # as text: a seed may exceed the database's integers
    root: str  # the folder that targets are relative to
    total: int
    frontier: int  # first task never claimed; of a list: first number never used
    completed: int
    failed: int
    cancelled: int
    priority: int
    created: float
    started: float | None
    finished: float | None
    seconds: float  # during which at least one engine ran it, over all runs
    control: str | None  # a request to the engines that run it: cancel
    counted: float | None  # wall time up to which `seconds` counts; None: never run

    @property
    def done(self) -> int:
        """The number of tasks with an outcome."""
        return self.completed + self.failed + self.cancelled

    @property
    def pending(self) -> int:
        """The number of tasks without an outcome."""
        return self.total - self.done

    @property
    def mean_rate(self) -> float:
        """Outcomes per second, over the time during which engines ran the batch."""
        return self.done / self.seconds if self.seconds else 0.0

    def ran_until(self, now: float, pauses: Pauses | None = None) -> BatchRow:
        """The row with its running time counted up to `now`.

        Pauses of the engine itself are not counted.
        """
        since = now if self.counted is None else self.counted
        passed = max(0.0, now - since)
        seconds = self.seconds + passed - (pauses.within(passed) if pauses else 0.0)
        return msgspec.structs.replace(self, seconds=seconds, counted=max(now, since))

    @property
    def next_task(self) -> int:
        """The number of the next task added; above `total` if tasks were deleted."""
        return max(self.frontier, self.total)


class ClaimRow(msgspec.Struct, frozen=True):
    """Tasks [low, high) of a grid, held by an engine or free to take.

    Ranges that were taken together share a token.
    """

    id: int
    batch: int
    low: int
    high: int
    engine: int | None  # None: free
    token: str


class TaskRow(msgspec.Struct, frozen=True):
    """One task of a list; never changes."""

    batch: int
    task: int
    name: str | None
    priority: int
    content: bytes
    created: float


class QueueRow(msgspec.Struct, frozen=True):
    """A task of a list that has no outcome yet."""

    batch: int
    task: int
    priority: int
    waiting: int  # number of tasks that it still waits for
    engine: int | None
    token: str | None


class EdgeRow(msgspec.Struct, frozen=True):
    """A task of a list that depends on another one, `before`, which has not completed yet."""

    batch: int
    before: int
    task: int


class CancelRow(msgspec.Struct, frozen=True):
    """A request to cancel a task that an engine holds."""

    batch: int
    task: int


class PieceRow(msgspec.Struct, frozen=True):
    """A piece of a value that is too large for its row; see `pieces`."""

    batch: int
    task: int
    number: int  # from 0
    data: bytes


class AttemptRow(msgspec.Struct, frozen=True):
    """An attempt that did not end its task: an error before a retry, or a dead worker."""

    batch: int
    task: int
    number: int  # counted for each task
    crash: int  # 1: the worker died; 0: the task raised
    error: bytes
    started: float
    seconds: float


class OutputRow(msgspec.Struct, frozen=True):
    """The output of an attempt; see `Printed`."""

    batch: int
    task: int
    attempt: int
    stdout: bytes | None
    stderr: bytes | None


class EngineRow(msgspec.Struct, frozen=True):
    """An engine that is signed on to this store."""

    id: int
    host: str
    pid: int
    started: float
    batch: int | None
    backend: str
    workers: int
    running: int
    rate: float  # outcomes per second
    stop: int  # 1: asked to stop


class Claim(NamedTuple):
    """Tasks that one engine may run now."""

    id: int  # 0: tasks of a list
    batch: int
    token: str
    ranges: list[tuple[int, int]]  # of a grid: tasks without an outcome
    tasks: dict[int, bytes]  # of a list: number and content, in the order in which they run
    again: bool = False  # some may have been started before
    awaited: frozenset[int] = frozenset()  # those that have followers

    @property
    def size(self) -> int:
        """The number of tasks in the claim."""
        return len(self.tasks) + sum(high - low for low, high in self.ranges)

    def __contains__(self, task: object) -> bool:
        """Whether this task is part of the claim."""
        return task in self.tasks or any(task in range(*each) for each in self.ranges)


class Recording(msgspec.Struct, frozen=True):
    """The result of recording outcomes."""

    count: int  # outcomes inserted, including those of cancelled followers
    freed: list[int] = []  # followers that have become ready, in order


def after_incomplete(batch: int, task: int, before: int) -> OutcomeRow:
    """The outcome of a follower of a task that did not complete."""
    reason = f"task {before}, which it comes after, did not complete"
    return OutcomeRow.cancelled(batch, task, "DependencyFailed", reason)


def gaps(low: int, high: int, done: list[int]) -> list[tuple[int, int]]:
    """The ranges that remain of [low, high) without the sorted numbers in `done`."""
    found, start = [], low
    for number in done:
        if number > start:
            found.append((start, number))
        start = number + 1
    if start < high:
        found.append((start, high))
    return found


def first_free(
    claims: list[ClaimRow], is_free: Callable[[ClaimRow], bool], want: int
) -> list[ClaimRow]:
    """The first free claims, with at least `want` tasks in all if there are that many."""
    found: list[ClaimRow] = []
    size = 0
    for claim in claims:
        if size >= want:
            break
        if is_free(claim):
            found.append(claim)
            size += claim.high - claim.low
    return found


def unclaimed(numbers: list[int], frontier: int, claims: list[ClaimRow]) -> list[int]:
    """Those of the sorted numbers that are below the frontier and in no claim."""
    spans = sorted((claim.low, claim.high) for claim in claims)
    starts = [low for low, _ in spans]
    found = []
    for number in numbers:
        at = bisect_right(starts, number) - 1
        if number < frontier and (at < 0 or number >= spans[at][1]):
            found.append(number)
    return found


def runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Sorted numbers as ranges [low, high)."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found


class Timings(NamedTuple):
    """Durations of a batch's tasks that have an outcome."""

    tasks: int
    mean_seconds: float
    max_seconds: float
    mean_wait: float  # from the start of the batch to that of the task

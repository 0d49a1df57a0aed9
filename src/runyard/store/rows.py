"""What the store keeps besides outcomes, as frozen rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from runyard.clock import Pauses
from runyard.spec.outcome import OutcomeRow


class BatchRow(msgspec.Struct, frozen=True):
    """A batch as recorded."""

    id: int
    name: str
    identity: bytes  # what it is: target and codec
    plan: bytes | None  # None: listed
    options: bytes
    code: bytes  # the versions of its functions, see `StoredBatch.versions`
    seed: str  # text: a seed may be larger than a database's integers
    root: str  # the folder that targets are relative to
    total: int
    frontier: int  # tasks from here on were never claimed; of a listed batch: never added
    completed: int
    failed: int
    cancelled: int
    priority: int
    created: float
    started: float | None
    finished: float | None
    seconds: float  # during which at least one engine ran it, over all runs
    control: str | None  # what somebody asks of the engines that run it: cancel
    counted: float | None  # wall time up to which `seconds` counts; None: it was never run

    @property
    def done(self) -> int:
        """How many tasks have an outcome."""
        return self.completed + self.failed + self.cancelled

    @property
    def pending(self) -> int:
        """How many have none."""
        return self.total - self.done

    @property
    def mean_rate(self) -> float:
        """Outcomes a second, over the time during which engines have run the batch."""
        return self.done / self.seconds if self.seconds else 0.0

    def ran_until(self, now: float, pauses: Pauses | None = None) -> BatchRow:
        """The row with the time counted in during which engines have run the batch until now.

        An engine leaves out its own pauses.
        """
        since = now if self.counted is None else self.counted
        passed = max(0.0, now - since)
        seconds = self.seconds + passed - (pauses.within(passed) if pauses else 0.0)
        return msgspec.structs.replace(self, seconds=seconds, counted=max(now, since))

    @property
    def next_task(self) -> int:
        """The number that a further task gets; above `total` where some were forgotten."""
        return max(self.frontier, self.total)


class ClaimRow(msgspec.Struct, frozen=True):
    """Numbers [low, high) of a described batch, held by an engine or free to take.

    Ranges that were taken together have one token.
    """

    id: int
    batch: int
    low: int
    high: int
    engine: int | None  # None: free
    token: str


class TaskRow(msgspec.Struct, frozen=True):
    """One task of a listed batch; never changes."""

    batch: int
    task: int
    name: str | None
    priority: int
    content: bytes
    created: float


class QueueRow(msgspec.Struct, frozen=True):
    """A listed task that has no outcome yet."""

    batch: int
    task: int
    priority: int
    waiting: int  # how many tasks it still comes after
    engine: int | None
    token: str | None


class EdgeRow(msgspec.Struct, frozen=True):
    """One listed task comes after another that has not completed yet."""

    batch: int
    before: int
    task: int


class CancelRow(msgspec.Struct, frozen=True):
    """Somebody asks for a task that an engine holds to be cancelled."""

    batch: int
    task: int


class PieceRow(msgspec.Struct, frozen=True):
    """A part of a value that is too large for its row; see `pieces`."""

    batch: int
    task: int
    number: int  # from 0
    data: bytes


class AttemptRow(msgspec.Struct, frozen=True):
    """An attempt that did not end its task: an error before a retry, or a dead worker."""

    batch: int
    task: int
    number: int  # counts up per task
    crash: int  # 1: the worker died; 0: the task raised
    error: bytes
    started: float
    seconds: float


class OutputRow(msgspec.Struct, frozen=True):
    """What an attempt printed; see `Printed`."""

    batch: int
    task: int
    attempt: int
    stdout: bytes | None
    stderr: bytes | None


class EngineRow(msgspec.Struct, frozen=True):
    """An engine that has this store open."""

    id: int
    host: str
    pid: int
    started: float
    batch: int | None
    backend: str
    workers: int
    running: int
    rate: float  # outcomes a second
    stop: int  # 1: somebody asked it to stop


class Claim(NamedTuple):
    """Tasks that one engine may run now."""

    id: int  # 0: tasks of a listed batch
    batch: int
    token: str
    ranges: list[tuple[int, int]]  # described: what is still to do
    tasks: dict[int, bytes]  # listed: number and content, best first
    again: bool = False  # others had some of them before
    awaited: frozenset[int] = frozenset()  # those that other tasks come after

    @property
    def size(self) -> int:
        """How many tasks it holds."""
        return len(self.tasks) + sum(high - low for low, high in self.ranges)

    def __contains__(self, task: object) -> bool:
        """Whether it holds this task."""
        return task in self.tasks or any(task in range(*each) for each in self.ranges)


class Recording(msgspec.Struct, frozen=True):
    """What became of outcomes that were recorded."""

    count: int  # outcomes that went in, those of cancelled followers included
    freed: list[int] = []  # listed tasks that wait for no other any more, in order


def after_incomplete(batch: int, task: int, before: int) -> OutcomeRow:
    """The outcome of a listed task that comes after one which did not complete."""
    reason = f"task {before}, which it comes after, did not complete"
    return OutcomeRow.cancelled(batch, task, "DependencyFailed", reason)


def gaps(low: int, high: int, done: list[int]) -> list[tuple[int, int]]:
    """The ranges of [low, high) that are left when sorted `done` is taken out."""
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
    """The first claims that nobody holds, about so many tasks in all."""
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
    """Those of the sorted numbers that lie below the frontier and in no claim."""
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
    """How long a batch's tasks took, over those with an outcome."""

    tasks: int
    mean_seconds: float
    max_seconds: float
    mean_wait: float  # from the batch's start to theirs

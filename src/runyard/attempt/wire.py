"""What is sent between the engine and the lanes.

    engine ── Job (once a batch), Chunk … ──▶ lane
    engine ◀── Report … ─────────────────────  lane

A lane runs one attempt at a time, and its chunks in order.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, Self

import msgspec

from runyard import clock
from runyard.attempt.lane_status import IDLE, LaneStatus
from runyard.attempt.system_failure import SystemFailure
from runyard.spec.options import Options
from runyard.spec.outcome import WIDTH, OutcomeRow, Printed
from runyard.spec.task import Target


class Job(msgspec.Struct, frozen=True):
    """What a lane needs to know about a batch."""

    batch: int
    name: str
    seed: str
    target: Target | None  # None: each item has its own
    plan: bytes | None  # None: each item has its own parameters
    functions: dict[str, bytes]  # pickled, those sent by value
    codec: str
    root: str  # the folder that targets are relative to
    path: tuple[str, ...]  # the engine's module path
    folder: str  # of the batch's files
    engine: int
    lane_status: str  # path of the LaneStatusFile
    spool: str  # the folder for captured output
    options: Options = Options()
    files_travel: bool = False  # `folder` is a stand-in, of which tasks' files are sent to the yard
    first_lane: int = 0  # the engine's number of the first of these lanes
    code: dict[str, str] = {}  # fingerprints of the functions that workers import


class Item(NamedTuple):
    """One task of a chunk that is not just a range of numbers at their first attempt."""

    task: int
    attempt: int
    content: bytes | None  # of a listed task
    call: bytes | None = None  # what it calls, if that is not on record; see `packed`


class Chunk(NamedTuple):
    """ReadyTask for a lane: numbers [low, high) at their first attempt, or items."""

    id: int
    low: int
    high: int
    items: list[Item] | None = None
    careful: bool = False  # check after each task whether it changed the process

    def after(self, position: int) -> Chunk:
        """The rest of the chunk after this many tasks."""
        if self.items is None:
            return self._replace(low=self.low + position)
        return self._replace(items=self.items[position:])

    @property
    def size(self) -> int:
        """How many tasks the chunk holds."""
        return self.high - self.low if self.items is None else len(self.items)

    def tasks(self) -> range | list[int]:
        """The numbers of its tasks, in order."""
        if self.items is None:
            return range(self.low, self.high)
        return [item.task for item in self.items]

    def item(self, position: int) -> Item:
        """The task at this position."""
        if self.items is not None:
            return self.items[position]
        return Item(self.low + position, 0, None)


class Completed(NamedTuple):
    """An attempt that completed and printed something. One that printed nothing is just its row."""

    row: OutcomeRow
    printed: Printed


class Failure(NamedTuple):
    """An attempt that raised."""

    row: OutcomeRow  # the outcome if this attempt is the last
    classes: list[str]  # the error's class and its base classes
    raised: bytes | None = None  # the pickled error, if the task is a packed call
    printed: Printed | None = None
    late: OutcomeRow | None = None  # it returned past its limit; pauses may excuse it


AttemptResult = OutcomeRow | Completed | Failure
"""The result of an attempt. A row is a plain tuple."""


class AttemptResults(NamedTuple):
    """Results of attempts as a report holds them."""

    rows: list[Any]  # flat, as in `Rows`
    failures: list[Failure]
    printed: list[Printed]  # by the tasks of these rows

    @classmethod
    def none(cls) -> AttemptResults:
        """No result yet."""
        return cls([], [], [])

    def add(self, result: AttemptResult) -> None:
        """Add the result of an attempt."""
        if isinstance(result, Failure):
            self.failures.append(result)
        elif isinstance(result, Completed):
            self.rows.extend(result.row)
            self.printed.append(result.printed)
        else:
            self.rows.extend(result)

    def take(self, others: AttemptResults) -> None:
        """Move all others here."""
        self.rows.extend(others.rows)
        self.failures.extend(others.failures)
        self.printed.extend(others.printed)
        others.drop(others)

    def drop(self, first: AttemptResults) -> None:
        """Drop the first ones."""
        del self.rows[: len(first.rows)]
        del self.failures[: len(first.failures)]
        del self.printed[: len(first.printed)]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.rows) // WIDTH + len(self.failures)

    @property
    def tasks(self) -> list[int]:
        """The numbers of their tasks."""
        return [each.row[0] for each in self.failures] + self.rows[::WIDTH]

    def halves(self) -> tuple[AttemptResults, AttemptResults]:
        """Two parts of at least one result each, if there are two."""
        rows, failures, printed = self
        if rows and failures:
            return AttemptResults(rows, [], printed), AttemptResults([], failures, [])
        row, failure, text = len(rows) // WIDTH // 2 * WIDTH, len(failures) // 2, len(printed) // 2
        return (
            AttemptResults(rows[:row], failures[:failure], printed[:text]),
            AttemptResults(rows[row:], failures[failure:], printed[text:]),
        )

    @property
    def seconds(self) -> float:
        """How long the attempts took together."""
        return float(sum(self.rows[6::WIDTH]) + sum(each.row[6] for each in self.failures))


class Emission(NamedTuple):
    """An event emitted by a task."""

    task: int
    attempt: int
    at: float
    kind: str
    data: bytes


class StateChange(NamedTuple):
    """A task changed the state that all tasks of its process share."""

    task: int
    what: str
    is_undone: bool  # otherwise the process is replaced


class Report(NamedTuple):
    """What a lane's chunk has brought since the last report."""

    lane: int
    chunk: int
    done: int  # how many of the chunk's tasks have ended
    rows: list[Any] | bytes  # flat, as in `Rows`
    failures: list[Failure]
    printed: list[Printed]  # output of the tasks of these rows
    emitted: list[Emission]
    seconds: float  # spent in tasks since the last report
    finished: bool  # the last report of this chunk
    change: StateChange | None = None  # the first by a task of this process
    system_failure: SystemFailure | None = None  # why the rest of the chunk did not run


class LossCause(enum.Enum):
    """Why a lane was lost. The value is the error class recorded for the task that it ran."""

    WORKER_DIED = "WorkerDied"
    TIMEOUT = "TaskTimeout"
    OUT_OF_MEMORY = "TaskOutOfMemory"
    CANCELLED = "TaskCancelled"
    DEADLINE = "Deadline"  # the run ended; the task stays in the queue


class Loss(NamedTuple):
    """A lane died or was ended. A fresh one takes its place."""

    lane: int
    task: int | None  # what it was running, if anything
    attempt: int
    started: float  # wall time
    seconds: float
    cause: LossCause
    reason: str  # for people
    printed: Printed | None = None  # by what it was running
    shared: bool = False  # other lanes died with it, so the task may not be to blame
    clean_exit: bool = False  # the worker exited with code 0

    @classmethod
    def of(
        cls,
        lane: int,
        status: LaneStatus,
        cause: LossCause,
        reason: str,
        *,
        printed: Printed | None = None,
        shared: bool = False,
        clean_exit: bool = False,
    ) -> Self:
        """The loss of a lane that was running what its status says."""
        running = status.task != IDLE
        seconds = status.seconds if running else 0.0
        return cls(
            lane, status.task if running else None, status.attempt, clock.now() - seconds, seconds,
            cause, reason, printed, shared, clean_exit,
        )  # fmt: skip


encode_report = msgspec.msgpack.Encoder().encode
decode_report = msgspec.msgpack.Decoder(Report).decode
encode_rows = encode_report
encode_chunk = encode_report
decode_chunk = msgspec.msgpack.Decoder(Chunk).decode
encode_job = encode_report
decode_job = msgspec.msgpack.Decoder(Job).decode

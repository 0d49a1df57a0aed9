"""The events of a batch, as frozen data.

A task that completes is a row in the store and no event, so large batches don't flood the log.

    Event ─┬─ BatchStarted, RunDescribed, BatchFinished, BatchStopped
           ├─ TaskEvent ── TaskEmitted, TaskRetried, TaskFailed, TaskWithdrawn
           ├─ WorkerLost, ResultsRefused
           ├─ Notice ───── CodeChanged
           └─ Progress    (live only)
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from runyard import clock
from runyard.events.plain import json_safe


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a batch; the base of all events."""

    live_only: ClassVar[bool] = False
    """True for events that are quickly out of date: neither audited nor kept in the history."""

    batch: str
    at: float = field(default_factory=lambda: clock.now())
    engine: int | None = None  # the engine that published it; None outside a run


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStarted(Event):
    """A batch starts or continues."""

    total: int
    seed: int
    backend: str
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescribed(Event):
    """Where a run comes from: versions, machine, project, git state, command line, hash seed."""

    versions: dict[str, str]
    machine: dict[str, Any]
    project: str
    hash_seed: str  # of its tasks: the value of PYTHONHASHSEED, or random
    git: dict[str, Any] | None  # commit, branch, changed: modified tracked files (None: unknown)
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinished(Event):
    """Every task of the batch has an outcome."""

    completed: int
    failed: int
    cancelled: int
    recorded: int  # by this run
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStopped(Event):
    """The run ended before all tasks did; the batch can be resumed."""

    reason: str
    completed: int
    failed: int
    cancelled: int
    recorded: int  # by this run
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent(Event):
    """Something that happened to one task; the base of the task events."""

    task: int
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEmitted(TaskEvent):
    """The task emitted this, with `ctx.emit(kind, **data)`."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetried(TaskEvent):
    """An attempt failed; the next one starts in `delay` seconds."""

    error: str
    message: str
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(TaskEvent):
    """The task failed permanently, with this class of error at this place in its code."""

    error: str
    message: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWithdrawn(TaskEvent):
    """The task was cancelled, alone or with its batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost(Event):
    """A worker died, while running `task` if that is set."""

    worker: int
    reason: str
    task: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsRefused(Event):
    """Results of this engine came too late: another engine had taken over the tasks."""

    tasks: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """A message for people."""

    text: str
    level: Literal["info", "warning"] = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChanged(Notice):
    """Recorded outcomes were made by code that has changed since."""

    functions: list[str]
    outcomes: int
    action: Literal["keep", "rerun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Event):
    """The current progress of the batch."""

    live_only: ClassVar[bool] = True

    total: int
    completed: int
    failed: int
    cancelled: int
    running: int
    retrying: int
    workers: int
    rate: float
    eta: float | None
    elapsed: float
    metric: tuple[str, float, float] | None = None  # name, mean, half-width of its interval


_FIRST = ("at", "batch", "engine")


def to_record(event: Event) -> dict[str, Any]:
    """Return the event as a JSON-safe dict that starts with its name, time, batch and engine."""
    own = [each.name for each in fields(event) if each.name not in _FIRST]
    first = [name for name in _FIRST if name != "engine" or event.engine is not None]
    values = {name: json_safe(getattr(event, name)) for name in (*first, *own)}
    return {"event": type(event).__name__, **values}

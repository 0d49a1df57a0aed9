"""One root error. Each class says what happened; its message says where, and what to do next.

Errors on the left reach the caller; those under `TaskError` are recorded as a task's outcome,
by class name, and are the same on every backend.

    RunyardError ─┬─ UsageError      the caller asked for something that can't be (exit 2)
                  ├─ NotFound        no such batch or task, or nothing matches (exit 5)
                  ├─ EngineError     the engine or its store can't go on (exit 3)
                  ├─ TasksFailed     some tasks failed (exit 1)
                  └─ TaskError       what became of one task
"""

from __future__ import annotations

import errno

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says where there is no room."""


class RunyardError(Exception):
    """The root of every error that Runyard raises on purpose."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(RunyardError):
    """What was asked for can't be done as asked."""

    exit_code = 2


class BadName(UsageError):
    """A name that could escape its folder or confuse a shell."""


class BadSpec(UsageError):
    """A batch that contradicts itself."""


class BadBatchFile(UsageError):
    """A batch file that can't be read."""


class BadTarget(UsageError):
    """A function or command that can't be found or used."""


class NotEncodable(UsageError):
    """A value that has no place in a record; names the field."""


class ResultTooLarge(NotEncodable):
    """A value that takes more bytes than are recorded of one."""


class ExecutorClosed(UsageError, RuntimeError):
    """The executor takes no more calls."""


class SpecChanged(UsageError):
    """Another batch is recorded under this name; shows the difference."""


class CodeHasChanged(UsageError):
    """Recorded outcomes were made by other code, and the run was told to refuse that."""


class CodeChangedWarning(UserWarning):
    """Recorded outcomes were made by code that has changed since, and are kept."""


class MetricMissing(UsageError):
    """Tasks don't return the metric that a budget or the progress view was given."""


class NotFound(RunyardError):
    """No such batch or task, or nothing matches."""

    exit_code = 5


class EngineError(RunyardError):
    """The engine can't go on; what is recorded stays."""


class StoreError(EngineError):
    """The store can't be opened, read or written."""


class StoreForbidden(StoreError):
    """Whoever runs this may not read the store, or may not write to it."""


class StoreDamaged(StoreError):
    """Stored bytes are not what was written."""


class StoreGone(StoreError):
    """The files or tables of the store were removed or replaced while it was in use."""


class StoreUnready(StoreError):
    """The store can take nothing at the moment; that may pass."""

    patience = 5.0
    """Seconds that an engine waits for that."""

    waiting = "the store takes nothing at the moment"


class StoreFull(StoreUnready):
    """No room left on the disk."""

    waiting = "the disk is full: nothing more is started until there is room"


class StoreAway(StoreUnready):
    """The database server can't be reached."""

    patience = 120.0
    last_seconds = 3.0
    """The same, where this process is to end at once."""

    waiting = "the database can't be reached: nothing more is started until it is back"


class StoreConflict(StoreError):
    """Two engines got in each other's way; the same once more goes through."""


class ClaimLost(StoreError):
    """Another engine took these tasks over; what this one brings now is refused."""


class BackendError(EngineError):
    """Workers can't be started or reached."""


class TasksFailed(RunyardError):
    """Raised by `map` when some of the tasks failed; `result` holds everything."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, result: object = None) -> None:
        super().__init__(message, hint=hint)
        self.result = result


class TaskError(RunyardError):
    """What became of one task, other than an error of its own.

    `value` is what the task has to show although it failed, and is recorded with the error; `trace`
    says where it failed, if that is not where this was raised.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        value: object = None,
        trace: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.value = value
        self.trace = trace


class TaskTimeout(TaskError):
    """The task ran longer than its limit and was ended."""


class TaskOutOfMemory(TaskError):
    """The task used more memory than its limit and was ended."""


class WorkerDied(TaskError):
    """The process that ran the task died, as often as `crash_attempts` allows."""


class TaskCancelled(TaskError):
    """Somebody cancelled the task."""


class DependencyFailed(TaskError):
    """A task that this one comes after did not complete."""


class CommandFailed(TaskError):
    """A shell task ended with another exit code than 0."""

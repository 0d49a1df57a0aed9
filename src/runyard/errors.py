"""The errors that Runyard raises: the class says what happened, the message where and what to do.

Errors on the left reach the caller; those under `TaskError` are recorded as a task's outcome,
by class name, and are the same on every backend.

    RunyardError ─┬─ UsageError      the request can't be carried out as given (exit 2)
                  ├─ NotFound        no such batch or task, or nothing matches (exit 5)
                  ├─ EngineError     the engine or its store failed (exit 3)
                  ├─ TasksFailed     some tasks failed (exit 1)
                  └─ TaskError       what became of one task
"""

from __future__ import annotations

import errno

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""System error numbers for a full disk."""


class RunyardError(Exception):
    """The base class of all errors that Runyard raises."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(RunyardError):
    """The request can't be carried out as given."""

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
    """A value that can't be recorded; names the field."""


class ResultTooLarge(NotEncodable):
    """A value larger than the limit for one outcome."""


class ExecutorClosed(UsageError, RuntimeError):
    """The executor is closed."""


class SpecChanged(UsageError):
    """Another batch is recorded under this name; shows the difference."""


class CodeHasChanged(UsageError):
    """Recorded outcomes were made by other code, and `changed` is `refuse`."""


class CodeChangedWarning(UserWarning):
    """Recorded outcomes were made by code that has changed since, and are kept."""


class MetricMissing(UsageError):
    """Tasks don't return a metric that a budget, the progress view or `until` needs."""


class NotFound(RunyardError):
    """No such batch or task, or nothing matches."""

    exit_code = 5


class EngineError(RunyardError):
    """The engine can't continue; recorded outcomes are kept."""


class StoreError(EngineError):
    """The store can't be opened, read or written."""


class StoreForbidden(StoreError):
    """This user has no permission to read the store, or to write to it."""


class StoreDamaged(StoreError):
    """Stored bytes are not what was written."""


class StoreGone(StoreError):
    """The files or tables of the store were removed or replaced while it was in use."""


class StoreUnready(StoreError):
    """The store can't be written to at the moment."""

    patience = 5.0
    """Seconds that an engine waits for it."""

    waiting = "the store can't be written to at the moment"


class StoreFull(StoreUnready):
    """No room left on the disk."""

    waiting = "the disk is full: no new tasks are started until there is room"


class StoreAway(StoreUnready):
    """The database server can't be reached."""

    patience = 120.0
    last_seconds = 3.0
    """The same while this process is ending."""

    waiting = "the database can't be reached: no new tasks are started until it is back"


class StoreConflict(StoreError):
    """Transactions conflicted; retrying is safe."""


class ClaimLost(StoreError):
    """Another engine has taken these tasks over; late outcomes are refused."""


class BackendError(EngineError):
    """Workers can't be started or reached."""


class TasksFailed(RunyardError):
    """Some tasks of a `map` failed; `result` has all outcomes."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, result: object = None) -> None:
        super().__init__(message, hint=hint)
        self.result = result


class TaskError(RunyardError):
    """A task failed.

    `value` is recorded with the error; `trace` says where the task failed, if that is not where
    this error was raised.
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
    """The worker died while it ran the task, `crash_attempts` times."""


class TaskCancelled(TaskError):
    """The task was cancelled."""


class DependencyFailed(TaskError):
    """A task that this one comes after did not complete."""


class CommandFailed(TaskError):
    """A shell command ended with an exit code other than 0."""


class ModelError(TaskError):
    """A language model gave no usable answer."""


class NotRecorded(TaskError):
    """A tape is replayed and has no answer to this request; shows what differs."""


class BudgetReached(TaskError):
    """The dollars for calls of language models are used up; ends the run, and can be resumed."""

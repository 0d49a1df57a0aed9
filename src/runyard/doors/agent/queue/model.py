"""What agents see of a queue: tasks, statistics and responses."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from runyard.spec.shown import jsonable
from runyard.spec.status import FINAL_STATES, Priority
from runyard.spec.status import Status as TaskStatus

__all__ = ["BatchStats", "BatchTask", "Priority", "Response", "TaskStatus"]


@dataclass(frozen=True)
class BatchTask:
    """One task of the queue, as recorded."""

    task_id: str  # as other actions take it: queue/17
    name: str
    function: str
    params: dict[str, Any]
    priority: Priority
    status: TaskStatus
    created_at: float
    started_at: float | None = None
    completed_at: float | None = None
    result: Any = None  # of code that failed: its output until then
    error: str | None = None  # before a retry: why the last attempt failed
    trace: str | None = None  # where the error came from
    retry_count: int = 0
    max_retries: int = 3
    timeout: float | None = None
    depends_on: list[str] = field(default_factory=list)

    @property
    def execution_time(self) -> float | None:
        """Seconds that the last attempt took."""
        if self.started_at is None or self.completed_at is None:
            return None
        return self.completed_at - self.started_at

    @property
    def wait_time(self) -> float | None:
        """Seconds from when it was added to the start of the last attempt."""
        return None if self.started_at is None else max(0.0, self.started_at - self.created_at)

    def document(self) -> dict[str, Any]:
        """The task as plain JSON."""
        found = {**asdict(self), "priority": self.priority.name.lower(), "status": str(self.status)}
        times = {"execution_time": self.execution_time, "wait_time": self.wait_time}
        return {**jsonable(found), **times}


@dataclass(frozen=True)
class BatchStats:
    """The statistics of a queue."""

    total_tasks: int = 0
    queued: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    start_time: float | None = None  # when work on the queue first began
    end_time: float | None = None  # when it last had nothing left to do
    total_execution_time: float = 0.0  # seconds during which workers served it
    average_task_time: float = 0.0  # over the latest tasks
    estimated_time_remaining: float | None = None  # seconds, while a worker runs

    @property
    def finished(self) -> int:
        """How many tasks have ended, successfully or not."""
        return sum(getattr(self, status.value) for status in FINAL_STATES)

    @property
    def progress_percentage(self) -> float:
        """The share of tasks that have ended, in percent."""
        return 100.0 * self.finished / self.total_tasks if self.total_tasks else 0.0

    def document(self) -> dict[str, Any]:
        """The statistics as plain JSON."""
        return {**asdict(self), "progress_percentage": round(self.progress_percentage, 2)}


@dataclass(frozen=True)
class Response:
    """The response to an action: text for an agent to read, and the same as data."""

    message: str
    break_loop: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    ok: bool = True  # whether the action was carried out

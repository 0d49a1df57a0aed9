"""The agent's batch executor: queue work, run it in parallel, collect the results.

    from runyard.doors.agent import BatchExecutor

    executor = BatchExecutor()
    await executor.execute("add", name="count", function="simulate", params={"duration": 1})
    await executor.execute("start", max_concurrent=5)

Everything an agent adds is in the yard's store, and `start` leaves a worker process behind: so
a host may come and go with every call.

    agent ── add ──▶ store ◀── claims ── worker (detached) ──▶ functions, each in its own process
      └── status, results ◀── store ◀── outcomes ──┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.doors import lazy_names

if TYPE_CHECKING:
    from runyard.doors.agent.executor import BatchExecutor
    from runyard.doors.agent.queue.async_queue import BatchQueue
    from runyard.doors.agent.queue.model import (
        BatchStats,
        BatchTask,
        Priority,
        Response,
        TaskStatus,
    )

__all__ = ["BatchExecutor", "BatchQueue", "BatchStats", "BatchTask", "Priority", "Response",
           "TaskStatus"]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "executor": "BatchExecutor",
        "queue.async_queue": "BatchQueue",
        "queue.model": "BatchStats BatchTask Priority Response TaskStatus",
    },
)

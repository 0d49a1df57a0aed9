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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runyard.doors.agent.executor import BatchExecutor
    from runyard.doors.agent.model import BatchStats, BatchTask, Priority, Response, TaskStatus
    from runyard.doors.agent.queue import BatchQueue

__all__ = ["BatchExecutor", "BatchQueue", "BatchStats", "BatchTask", "Priority", "Response",
           "TaskStatus"]  # fmt: skip

_HOMES = {"BatchExecutor": "executor", "BatchQueue": "queue"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'model')}"), name)

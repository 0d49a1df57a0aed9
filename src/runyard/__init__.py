"""Run thousands of isolated, reproducible tasks in parallel.

import runyard as ry

def toss(ctx: ry.Context, coins: int) -> dict:
    return {"heads": int(ctx.rng.integers(0, 2, coins).sum())}

result = ry.run(ry.grid(toss, coins=[10, 100], replicates=1000, seed=7))
print(result.summary())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from runyard.adapters.hook import watch_joblib

if TYPE_CHECKING:
    from runyard.adapters.executor import Executor
    from runyard.adapters.hook import register_joblib
    from runyard.attempt.context import Context, context
    from runyard.errors import CodeChangedWarning, RunyardError, TasksFailed
    from runyard.events import Event, EventBus
    from runyard.reports.result import Outcome, Result
    from runyard.shortcuts import map, run  # noqa: A004
    from runyard.spec.batch import Batch, batch, grid, tasks
    from runyard.spec.options import Options
    from runyard.spec.records import Record
    from runyard.spec.status import Priority, Status
    from runyard.spec.task import Task, shell, task
    from runyard.yard import Yard

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022  grouped: what to run, running it, inside a task, what came out
    "grid", "batch", "tasks", "task", "shell", "Batch", "Task", "Options", "Priority",
    "run", "map", "Yard", "Executor", "register_joblib",
    "Context", "context",
    "Result", "Outcome", "Status", "Record",
    "Event", "EventBus",
    "RunyardError", "TasksFailed", "CodeChangedWarning",
]  # fmt: skip

_HOMES = {
    "runyard.spec.batch": ("grid", "batch", "tasks", "Batch"),
    "runyard.spec.options": ("Options",),
    "runyard.spec.task": ("task", "shell", "Task"),
    "runyard.spec.status": ("Priority", "Status"),
    "runyard.spec.records": ("Record",),
    "runyard.shortcuts": ("run", "map"),
    "runyard.yard": ("Yard",),
    "runyard.adapters.executor": ("Executor",),
    "runyard.adapters.hook": ("register_joblib",),
    "runyard.attempt.context": ("Context", "context"),
    "runyard.reports.result": ("Result", "Outcome"),
    "runyard.events": ("Event", "EventBus"),
    "runyard.errors": ("RunyardError", "TasksFailed", "CodeChangedWarning"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

watch_joblib()


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'runyard' has no attribute {name!r}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

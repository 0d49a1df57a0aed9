"""The shortest way in: `run` and `map`, in the default yard."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from runyard.backends.base import Backend
from runyard.errors import BadSpec, TasksFailed
from runyard.execution import OnEvent
from runyard.reports.progress import ShowProgress
from runyard.reports.result import Result
from runyard.spec.batch import Batch, items
from runyard.yard import Yard


def run(
    batch: Batch,
    *,
    backend: str | Backend = "processes",
    workers: int | None = None,
    ray_address: str | None = None,
    fallback: str | None = None,
    yard: Yard | str | Path | None = None,
    progress: ShowProgress = None,
    on_event: OnEvent | None = None,
    fresh: bool = False,
    **options: Any,
) -> Result:
    """Run a batch in the default yard or in `yard`; see `Yard.run`."""
    place = yard if isinstance(yard, Yard) else Yard(yard)
    return place.run(
        batch, backend=backend, workers=workers, ray_address=ray_address, fallback=fallback,
        progress=progress, on_event=on_event, fresh=fresh, **options,
    )  # fmt: skip


def map(  # noqa: A001
    fn: Callable[..., Any],
    values: Iterable[Any],
    *,
    seed: int | None = None,
    name: str | None = None,
    **run_options: Any,
) -> list[Any]:
    """Call the function for each item; return the values in order, or raise if a call failed."""
    batch = items(fn, values, parameter=_first_parameter(fn), seed=seed, name=name)
    result = run(batch, **run_options)
    stats = result.stats
    if stats.completed != stats.total:
        groups = result.failures()
        first = f"; first: {groups[0].kind}: {groups[0].message}" if groups else ""
        raise TasksFailed(
            f"{stats.total - stats.completed} of {stats.total} tasks did not complete{first}",
            hint=f"the others are recorded; see: runyard results {result.name} --failures",
            result=result,
        )
    plan = result.recorded.plan
    order = plan.in_order() if plan is not None else range(0)
    if isinstance(order, range):
        return list(result.values())
    return [result.outcome(task).value for task in order]


def _first_parameter(fn: Callable[..., Any]) -> str:
    names = [n for n in inspect.signature(fn).parameters if n != "ctx"]
    if not names:
        raise BadSpec("the function takes no parameter", hint="it gets each item as its first")
    return names[0]

"""Runyard's side of a comparison: a batch with recording on, timed after a warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.work import noop

WORKERS = 2


def seconds_for(
    function: Callable[..., Any],
    folder: str,
    *,
    backend: str = "processes",
    workers: int = WORKERS,
    warm_up: Callable[..., Any] = noop,
    **lists: Any,
) -> float:
    """Seconds for a grid of `function` over `lists`, with workers and imports already there."""
    return timed(function, folder, backend, workers, warm_up, **lists)[0]


def timed(
    function: Callable[..., Any],
    folder: str,
    backend: str = "processes",
    workers: int = WORKERS,
    warm_up: Callable[..., Any] = noop,
    **lists: Any,
) -> tuple[float, Any]:
    """The seconds, and the result."""
    import runyard as ry

    yard = Path(folder, "yard")
    ry.run(
        ry.grid(warm_up, i=range(10), name="warm-up"),
        backend=backend,
        workers=workers,
        yard=yard,
        progress=False,
    )
    grid = ry.grid(function, name="measured", **lists)
    started = time.perf_counter()
    result = ry.run(grid, backend=backend, workers=workers, yard=yard, progress=False)
    seconds = time.perf_counter() - started
    assert result.stats.completed == result.stats.total
    return seconds, result

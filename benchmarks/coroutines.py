"""Many waiting coroutines: the async backend against a bare asyncio worker loop."""

from __future__ import annotations

import asyncio
import time

from benchmarks.figures import Figure, at_least
from benchmarks.ours import seconds_for
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import wait

TASKS = 20_000
CONCURRENCY = 1_000


def measure(rounds: int) -> list[Figure]:
    """20,000 coroutines of 100 ms at concurrency 1,000, against bare asyncio."""
    seconds = in_rounds(
        "coroutines",
        {
            "bare asyncio": lambda _: float(fresh(f"{__name__}:bare")),
            "Runyard": lambda _: float(fresh(f"{__name__}:runyard")),
        },
        rounds,
    )
    share = 100 * median_ratio(seconds["bare asyncio"], seconds["Runyard"])
    note = f"{min(seconds['Runyard']):.2f} s against {min(seconds['bare asyncio']):.2f} s (best)"
    note += f", {spread(seconds['bare asyncio'], seconds['Runyard'])}"
    label = "20,000 coroutines of 100 ms: speed of a bare asyncio loop reached"
    return [Figure("coroutines", label, share, "%", at_least(85), note)]


def runyard(folder: str) -> float:
    """Seconds for the batch, imports paid before."""
    return seconds_for(
        wait, folder, backend="async", workers=CONCURRENCY, warm_up=wait, i=range(TASKS)
    )


def bare(folder: str) -> float:
    """Seconds for a queue emptied by a thousand workers."""
    return asyncio.run(_bare())


async def _bare() -> float:
    started = time.perf_counter()
    queue: asyncio.Queue[int] = asyncio.Queue()
    for i in range(TASKS):
        queue.put_nowait(i)
    await asyncio.gather(*(_worker(queue) for _ in range(CONCURRENCY)))
    return time.perf_counter() - started


async def _worker(queue: asyncio.Queue[int]) -> None:
    while not queue.empty():
        await wait(queue.get_nowait())

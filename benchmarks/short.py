"""Tasks of about a millisecond: Runyard against two bare processes that split the same work."""

from __future__ import annotations

import time
from multiprocessing import Barrier, Process
from multiprocessing.synchronize import Barrier as BarrierType

from benchmarks.figures import Figure, at_least
from benchmarks.ours import WORKERS, seconds_for
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import spin

TASKS = 20_000
TASK_SECONDS = 0.001
TRIAL, TRIALS = 20_000, 1_000  # over a second, so that a busy moment can't set the work


def measure(rounds: int) -> list[Figure]:
    """20,000 tasks of about 1 ms, against two bare processes."""
    iterations = calibrate()
    seconds = in_rounds(
        "short",
        {
            "bare processes": lambda _: float(fresh(f"{__name__}:bare", iterations=iterations)),
            "Runyard": lambda _: float(fresh(f"{__name__}:runyard", iterations=iterations)),
        },
        rounds,
    )
    share = 100 * median_ratio(seconds["bare processes"], seconds["Runyard"])
    ours, theirs = min(seconds["Runyard"]), min(seconds["bare processes"])
    task = 1000 * theirs * WORKERS / TASKS
    note = f"{ours:.2f} s against {theirs:.2f} s (best), {task:.2f} ms a task, "
    note += spread(seconds["bare processes"], seconds["Runyard"])
    label = f"{TASKS:,} tasks of 1 ms: speed of two bare processes reached"
    return [Figure("short", label, share, "%", at_least(97), note)]


def calibrate() -> int:
    """How many iterations take about a millisecond here."""
    return round(TRIAL * TASK_SECONDS / min(_seconds_of(TRIAL) for _ in range(TRIALS)))


def runyard(iterations: int, folder: str) -> float:
    """Seconds for the batch, with warm workers."""
    return seconds_for(spin, folder, i=range(TASKS), iterations=[iterations])


def bare(iterations: int, folder: str) -> float:
    """Seconds from the moment both processes stand ready until both have ended."""
    ready = Barrier(WORKERS + 1)
    processes = [
        Process(target=_split, args=(worker, iterations, ready)) for worker in range(WORKERS)
    ]
    for process in processes:
        process.start()
    ready.wait()
    started = time.perf_counter()
    for process in processes:
        process.join()
    return time.perf_counter() - started


def _split(worker: int, iterations: int, ready: BarrierType) -> None:
    ready.wait()
    for i in range(worker, TASKS, WORKERS):
        spin(i, iterations)


def _seconds_of(iterations: int) -> float:
    started = time.perf_counter()
    spin(0, iterations)
    return time.perf_counter() - started

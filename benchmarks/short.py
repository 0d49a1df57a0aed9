"""Tasks of about a millisecond: Runyard against two bare processes that split the same work.

Where the pace of the cores changes from one second to the next, as on a shared machine, two runs
after one another differ by more than what is measured here. So each task also says how much
processor time it had: the share of the cores' time that went into tasks does not depend on their
pace, and the ratio of two shares is the ratio of two speeds.
"""

from __future__ import annotations

import time
from multiprocessing import Array, Barrier, Process
from multiprocessing.synchronize import Barrier as BarrierType
from statistics import median
from typing import Any

from benchmarks.figures import Figure, at_least
from benchmarks.ours import WORKERS, timed
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import clocked_spin, spin

TASKS = 20_000
TASK_SECONDS = 0.001
TRIAL, TRIALS = 20_000, 1_000  # over a second, so that a busy moment can't set the work


def measure(rounds: int) -> list[Figure]:
    """20,000 tasks of about 1 ms, against two bare processes."""
    iterations = calibrate()
    measured = in_rounds(
        "short",
        {
            "bare processes": lambda _: fresh(f"{__name__}:bare", iterations=iterations),
            "Runyard": lambda _: fresh(f"{__name__}:runyard", iterations=iterations),
        },
        rounds,
    )
    label = f"{TASKS:,} tasks of 1 ms: speed of two bare processes reached"
    ours, theirs = ([wall for wall, _ in measured[name]] for name in ("Runyard", "bare processes"))
    task = 1000 * min(theirs) * WORKERS / TASKS
    note = f"{min(ours):.2f} s against {min(theirs):.2f} s (best), {task:.2f} ms a task, "
    by_clock = 100 * median_ratio(theirs, ours)
    shares = {n: [cpu / WORKERS / wall for wall, cpu in m] for n, m in measured.items()}
    used = shares["Runyard"], shares["bare processes"]
    means = "tasks had {:.1%} of the cores' time, against {:.1%}, ".format(*map(median, used))
    return [
        Figure("short", label, by_clock, "%", None, note + spread(theirs, ours)),
        Figure(
            "short", "the same, at equal pace of the cores", 100 * median_ratio(*used), "%",
            at_least(97), means + spread(*used),
        ),
    ]  # fmt: skip


def calibrate() -> int:
    """How many iterations take about a millisecond here."""
    return round(TRIAL * TASK_SECONDS / min(_seconds_of(TRIAL) for _ in range(TRIALS)))


def runyard(iterations: int, folder: str) -> tuple[float, float]:
    """Seconds for the batch, with warm workers; processor seconds that its tasks had."""
    seconds, result = timed(clocked_spin, folder, i=range(TASKS), iterations=[iterations])
    return seconds, sum(result.values())


def bare(iterations: int, folder: str) -> tuple[float, float]:
    """Seconds from when both processes stand ready until both have ended; as above."""
    ready = Barrier(WORKERS + 1)
    used = Array("d", WORKERS)
    processes = [
        Process(target=_split, args=(worker, iterations, ready, used)) for worker in range(WORKERS)
    ]
    for process in processes:
        process.start()
    ready.wait()
    started = time.perf_counter()
    for process in processes:
        process.join()
    return time.perf_counter() - started, sum(used)


def _split(worker: int, iterations: int, ready: BarrierType, used: Any) -> None:
    ready.wait()
    used[worker] = sum(clocked_spin(i, iterations) for i in range(worker, TASKS, WORKERS))


def _seconds_of(iterations: int) -> float:
    started = time.perf_counter()
    spin(0, iterations)
    return time.perf_counter() - started

"""One long task among many: Runyard's chunks against one-at-a-time dispatch."""

from __future__ import annotations

import time
from functools import partial
from multiprocessing import Pool

from benchmarks.figures import Figure, at_most
from benchmarks.ours import WORKERS, seconds_for
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import nap, noop

TASKS = 200
PLACES = (60, 10, 99, 35, 85, 0)


def measure(rounds: int) -> list[Figure]:
    """200 tasks of 50 ms with one of 2 s, against one-at-a-time dispatch."""
    seconds = in_rounds(
        "straggler",
        {
            "imap_unordered": lambda number: float(
                fresh(f"{__name__}:one_at_a_time", straggler=_place(number))
            ),
            "Runyard": lambda number: float(fresh(f"{__name__}:runyard", straggler=_place(number))),
        },
        rounds,
    )
    ratio = median_ratio(seconds["Runyard"], seconds["imap_unordered"])
    note = f"{min(seconds['Runyard']):.2f} s against {min(seconds['imap_unordered']):.2f} s (best)"
    note += f", {spread(seconds['Runyard'], seconds['imap_unordered'])}"
    label = "200 tasks of 50 ms, one of 2 s: time / one-at-a-time dispatch"
    return [Figure("straggler", label, ratio, target=at_most(1.05), note=note)]


def runyard(straggler: int, folder: str) -> float:
    """Seconds for the batch, with warm workers."""
    return seconds_for(nap, folder, i=range(TASKS), straggler=[straggler])


def one_at_a_time(straggler: int, folder: str) -> float:
    """Seconds for the same naps, each handed to the first free process."""
    with Pool(WORKERS) as pool:
        pool.map(noop, range(100))
        started = time.perf_counter()
        naps = pool.imap_unordered(partial(nap, straggler=straggler), range(TASKS), chunksize=1)
        assert sum(1 for _ in naps) == TASKS
        return time.perf_counter() - started


def _place(number: int) -> int:
    return PLACES[number % len(PLACES)]

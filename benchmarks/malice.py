"""The malice door: runs with both logs beside the bare experiment, and two workers beside one."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.figures import Figure, at_least
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread

RUNS = 2000
TICKETS = 60
WARM_UP = 20
SHARE = 0.5
SPEED_UP = 1.7


def measure(rounds: int) -> list[Figure]:
    """Runs a second: without any log, and as a batch with both, on one worker and on two."""
    found = in_rounds(
        "malice",
        {
            "bare": lambda _: fresh("benchmarks.malice:bare"),
            "one": lambda _: fresh("benchmarks.malice:batch", workers=1),
            "two": lambda _: fresh("benchmarks.malice:batch", workers=2),
        },
        rounds,
    )
    bare, one, two = found["bare"], found["one"], found["two"]
    return [
        _figure("a batch with both logs, beside the bare experiment", one, bare, SHARE),
        _figure("two workers beside one", two, one, SPEED_UP),
    ]


def bare(folder: str) -> float:
    """Runs a second of agents, gates and rules in one process; nothing is logged or recorded."""
    from runyard.doors.malice import Config, MaliceExperiment

    def play(runs: int) -> float:
        begun = time.perf_counter()
        for number in range(runs):
            MaliceExperiment(Config(run_id=number + 1, seed=number, tickets=TICKETS)).run()
        return runs / (time.perf_counter() - begun)

    play(WARM_UP)
    return play(RUNS)


def batch(folder: str, workers: int) -> float:
    """Runs a second of a batch with both logs written, each run recorded, workers warm."""
    from runyard.doors.malice import run_batch
    from runyard.yard import Yard

    with Yard(f"{folder}/warm") as yard:
        run_batch(WARM_UP * workers, TICKETS, workers=workers, seed=1, yard=yard, progress=False)
    with Yard(f"{folder}/yard") as yard:
        found = run_batch(RUNS, TICKETS, workers=workers, seed=7, yard=yard, progress=False)
        logs = len(list(found.folder.rglob("malice_*.jsonl")))
        if logs != 2 * RUNS:
            raise RuntimeError(f"{logs} logs of {RUNS} runs")
        return RUNS / found.result.stats.seconds


def _figure(measured: str, above: list[float], below: list[float], limit: float) -> Figure:
    rates = f"{median(above):,.0f} and {median(below):,.0f} runs/s"
    note = f"{rates}, {spread(above, below)}"
    return Figure("malice", measured, median_ratio(above, below), "×", at_least(limit), note)

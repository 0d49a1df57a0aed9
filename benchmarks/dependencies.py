"""Tasks that wait for others: a chain and a tree, against Dask's distributed scheduler.

Dask keeps everything in memory and records nothing. Both run the same graph of no-ops with two
warm workers; Runyard's time includes recording the tasks and their outcomes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.ours import WORKERS
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import noop

STEPS = 1000
TREE = 8191
LARGE_TREE = 20_000


def measure(rounds: int) -> list[Figure]:
    """A chain of 1,000 and trees of 8,191 and 20,000 no-ops, against Dask and a flat batch."""
    graphs = {"chain": (STEPS, chain(STEPS)), "tree": (TREE, tree(TREE))}
    sides = {
        f"{side} {name}": lambda _, side=side, name=name, size=size: float(
            fresh(f"{__name__}:{side}", shape=name, size=size)
        )
        for name, (size, _) in graphs.items()
        for side in ("runyard", "dask")
    }
    large = {
        f"runyard {shape}": lambda _, shape=shape: float(
            fresh(f"{__name__}:runyard", shape=shape, size=LARGE_TREE)
        )
        for shape in ("large tree", "flat")
    }
    seconds = in_rounds("dependencies", {**sides, **large}, rounds)
    figures = []
    for name, (size, _) in graphs.items():
        ours, theirs = seconds[f"runyard {name}"], seconds[f"dask {name}"]
        note = f"{1000 * min(ours) / size:.2f} ms against {1000 * min(theirs) / size:.2f} ms a task"
        note += f" (best), {spread(theirs, ours)}"
        label = f"{size:,} no-ops in a {name}: rate / Dask's"
        figures.append(
            Figure("dependencies", label, median_ratio(theirs, ours), target=at_least(1), note=note)
        )
    step = 1000 * min(seconds["runyard chain"]) / STEPS
    label = f"{STEPS:,} no-ops in a row: a step"
    figures.append(Figure("dependencies", label, step, unit="ms", target=at_most(3.0)))
    above, below = seconds["runyard flat"], seconds["runyard large tree"]
    label = f"{LARGE_TREE:,} no-ops in a tree: rate / that of a flat list"
    figures.append(
        Figure(
            "dependencies", label, median_ratio(above, below), target=at_least(0.3),
            note=spread(above, below),
        )
    )  # fmt: skip
    return figures


def chain(size: int) -> list[list[int]]:
    """For each task the tasks that it waits for: the one before it."""
    return [[n - 1] if n else [] for n in range(size)]


def tree(size: int) -> list[list[int]]:
    """A binary tree in which each task waits for its two children."""
    return [[n for n in (2 * at + 1, 2 * at + 2) if n < size] for at in range(size)]


SHAPES = {"chain": chain, "tree": tree, "large tree": tree, "flat": lambda n: [[]] * n}


def runyard(shape: str, size: int, folder: str) -> float:
    """Seconds until every outcome is recorded, the tasks' recording included."""
    import runyard as ry

    tasks = [
        ry.Task(noop, {"i": n}, name=f"t{n}", after=[f"t{each}" for each in before])
        for n, before in enumerate(SHAPES[shape](size))
    ]
    settings: dict[str, Any] = {"backend": "processes", "workers": WORKERS, "progress": False}
    with ry.Yard(Path(folder, "yard")) as yard:
        yard.run(ry.grid(noop, i=range(10), name="warm-up"), **settings)
        batch = ry.tasks(tasks, name="measured")
        started = time.perf_counter()
        result = yard.run(batch, **settings)
        seconds = time.perf_counter() - started
        assert result.stats.completed == size
    return seconds


def dask(shape: str, size: int, folder: str) -> float:
    """Seconds until the last task of the same graph has ended, on a local cluster."""
    import dask as library
    from distributed import Client, LocalCluster

    library.config.set({"temporary-directory": folder, "distributed.worker.daemon": True})
    graph = {
        f"t{n}": (_node, n, [f"t{each}" for each in before])
        for n, before in enumerate(SHAPES[shape](size))
    }
    root = f"t{size - 1}" if shape == "chain" else "t0"
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.gather(client.map(noop, range(10)))
        started = time.perf_counter()
        client.get(graph, root)
        return time.perf_counter() - started


def _node(i: int, before: list[None]) -> None:
    noop(i)

"""The backend `ray` beside plain Ray, beside `processes`, and beside an actor pool made by hand.

All of them take turns on one warm Ray in one process: two runs that follow one another meet the
same machine. Runyard records each outcome; plain Ray and the pool keep nothing.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Figure, at_least, rate
from benchmarks.rounds import fresh, median_ratio, spread
from benchmarks.short import calibrate
from benchmarks.work import noop, spin

WORKERS = 2
CORES = 10  # by Ray's count: our two workers have one each, two calls and two actors two each
NOOPS, CALLS = 200_000, 2_000
SHORT = 20_000
TENS, CHUNK = 1_000, 10

Seconds = dict[str, list[float]]


def measure(rounds: int) -> list[Figure]:
    """No-ops, tasks of 1 ms and of 10 ms on a warm Ray, by turns with what they are compared to."""
    found: Seconds = fresh(f"{__name__}:by_turns", turns=rounds, iterations=calibrate())
    ours = [NOOPS / seconds for seconds in found["noop ours"]]
    plain = [CALLS / seconds for seconds in found["noop plain"]]
    return [
        Figure(
            "ray", "no-op tasks: Runyard / plain ray.remote calls", median_ratio(ours, plain),
            target=at_least(50),
            note=f"{rate(median(ours))} against {rate(median(plain))}, {spread(ours, plain)}",
        ),
        _speed(f"{SHORT:,} tasks of 1 ms: speed of `processes` reached", 85, found, "1 ms"),
        _speed(f"{TENS:,} tasks of 10 ms: speed of a hand-made actor pool", 90, found, "10 ms"),
    ]  # fmt: skip


def _speed(label: str, limit: float, found: Seconds, what: str) -> Figure:
    ours, theirs = found[f"{what} ours"], found[f"{what} theirs"]
    note = f"{median(ours):.2f} s against {median(theirs):.2f} s, {spread(theirs, ours)}"
    return Figure("ray", label, 100 * median_ratio(theirs, ours), "%", at_least(limit), note)


def by_turns(folder: str, turns: int, iterations: int) -> Seconds:
    """Seconds of every contestant in every turn; the first one warms up and is not counted."""
    warnings.simplefilter("ignore")
    # By default Ray's workers give way to other processes: to the driver, and to `processes`.
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    ray.init(num_cpus=CORES, include_dashboard=False, log_to_driver=False, logging_level="error")
    tens = [10 * iterations]

    def yard(name: str) -> Path:
        return Path(folder, name)

    contestants: dict[str, Callable[[str], object]] = {
        "noop ours": lambda name: _ours("ray", yard(name), noop, i=range(NOOPS)),
        "noop plain": lambda _: _plain(ray),
        "1 ms ours": lambda name: _ours(
            "ray", yard(name), spin, i=range(SHORT), iterations=[iterations]
        ),
        "1 ms theirs": lambda name: _ours(
            "processes", yard(name), spin, i=range(SHORT), iterations=[iterations]
        ),
        "10 ms ours": lambda name: _ours("ray", yard(name), spin, i=range(TENS), iterations=tens),
        "10 ms theirs": lambda _: pool(tens[0]),
    }
    pool = _Pool(ray)
    seconds: Seconds = {name: [] for name in contestants}
    for turn in range(-1, turns):
        order = list(contestants.items())
        for name, run in order if turn % 2 else reversed(order):
            label = f"{name}-{turn}".replace(" ", "-")
            if name.endswith("ours"):  # which gives its places back while others take their turn
                _ours("ray", yard(f"{label}-warm"), noop, i=range(100))
            begin = time.perf_counter()
            run(label)
            if turn >= 0:
                seconds[name].append(time.perf_counter() - begin)
    ray.shutdown()
    return seconds


def _ours(backend: str, yard: Path, function: Callable[..., Any], **lists: Any) -> None:
    import runyard as ry

    grid = ry.grid(function, name="measured", **lists)
    result = ry.run(grid, backend=backend, workers=WORKERS, yard=yard, progress=False)
    assert result.stats.completed == result.stats.total


def _plain(ray: Any) -> None:
    """One call a task."""
    call = ray.remote(num_cpus=WORKERS)(noop)
    ray.get([call.remote(i) for i in range(CALLS)])


class _Pool:
    """What one writes by hand: two actors, chunks of a size that is known to fit, two in flight."""

    def __init__(self, ray: Any) -> None:
        class Actor:
            def run(self, first: int, last: int, iterations: int) -> list[int]:
                return [spin(i, iterations) for i in range(first, last)]

        self._ray = ray
        made = ray.remote(num_cpus=WORKERS)(Actor)
        self._actors = [made.remote() for _ in range(WORKERS)]

    def __call__(self, iterations: int) -> None:
        chunks = iter(range(0, TENS, CHUNK))
        flying: dict[Any, Any] = {}
        results: list[int] = []

        def send(actor: Any) -> None:
            first = next(chunks, None)
            if first is not None:
                flying[actor.run.remote(first, first + CHUNK, iterations)] = actor

        for actor in self._actors * 2:
            send(actor)
        while flying:
            done, _ = self._ray.wait(list(flying), num_returns=1)
            actor = flying.pop(done[0])
            send(actor)
            results += self._ray.get(done[0])
        assert len(results) == TENS

"""A million tasks: time stays in proportion and the coordinator's memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, at_most
from benchmarks.ours import seconds_for
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import noop

SMALL, MIDDLE, LARGE = 10_000, 100_000, 1_000_000

Run = dict[str, float]


def measure(rounds: int) -> list[Figure]:
    """1,000,000 no-op tasks: time against 100,000, memory against 10,000."""
    sizes = (SMALL, MIDDLE, LARGE)
    runs = in_rounds("million", {f"{size:,}": _run(size) for size in sizes}, rounds)
    small, middle, large = (runs[f"{size:,}"] for size in sizes)
    return [_time(middle, large), _memory(small, large)]


def runyard(count: int, folder: str) -> Run:
    """Seconds with warm workers, and the peak resident memory of this process."""
    seconds = seconds_for(noop, folder, i=range(count))
    return {"seconds": seconds, "peak_mb": _peak_megabytes()}


def _time(middle: list[Run], large: list[Run]) -> Figure:
    whole = [run["seconds"] for run in large]
    ten_times = [run["seconds"] * LARGE / MIDDLE for run in middle]
    note = f"{_median(large, 'seconds'):.2f} s against 10 × {_median(middle, 'seconds'):.2f} s"
    note += f", {spread(whole, ten_times)}"
    label = "1,000,000 no-ops: time / ten times that of 100,000"
    return Figure("million", label, median_ratio(whole, ten_times), target=at_most(1.15), note=note)


def _memory(small: list[Run], large: list[Run]) -> Figure:
    growth = median(b["peak_mb"] - a["peak_mb"] for a, b in zip(small, large, strict=True))
    note = f"{_median(large, 'peak_mb'):.0f} MB against {_median(small, 'peak_mb'):.0f} MB"
    label = "1,000,000 no-ops: coordinator's peak memory above that of 10,000"
    return Figure("million", label, growth, "MB", at_most(60), note)


def _run(size: int) -> Callable[[int], Run]:
    return lambda _: fresh(f"{__name__}:runyard", count=size)


def _median(runs: list[Run], key: str) -> float:
    return median(run[key] for run in runs)


def _peak_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("the peak memory of a process is read from /proc, which is not here")

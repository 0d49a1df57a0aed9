"""Two versions of Runyard, taking turns: is this checkout slower than another one?

python -m benchmarks.versions ../before [--rounds 11]

The other one is a folder with a checkout, made by `git worktree add ../before REVISION`, say.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, at_least, machine, table
from benchmarks.rounds import ROOT, fresh, in_rounds, median_ratio, spread
from benchmarks.short import calibrate

FLOOR = at_least(0.97)
Call = Callable[[], dict[str, float]]


def measure(other: Path, rounds: int) -> list[Figure]:
    """No-ops, short tasks and the import: the speed of this one in that of the other one."""
    iterations = calibrate()
    calls: dict[str, Call] = {
        "200,000 no-ops": lambda: fresh("benchmarks.peers:runyard", count=200_000),
        "20,000 no-ops": lambda: fresh("benchmarks.peers:runyard", count=20_000),
        "20,000 tasks of 1 ms": lambda: _short(iterations),
        "import runyard": lambda: fresh("benchmarks.versions:importing"),
    }
    return [
        figure for name, call in calls.items() for figure in _figures(name, call, other, rounds)
    ]


def importing(folder: str) -> dict[str, float]:
    """How long it takes to import Runyard and all that a run needs."""
    import time

    started = time.perf_counter()
    import runyard

    _ = runyard.run, runyard.grid
    return {"cold": time.perf_counter() - started}


def _short(iterations: int) -> dict[str, float]:
    wall, used = fresh("benchmarks.short:runyard", iterations=iterations)
    # What the tasks had of the cores' time, as the pace of the cores changes.
    return {"warm": wall / used}


def _figures(name: str, call: Call, other: Path, rounds: int) -> list[Figure]:
    def of(checkout: Path) -> Callable[[int], dict[str, float]]:
        return lambda _: _with_sources(checkout, call)

    measured = in_rounds(name, {"before": of(other), "now": of(ROOT)}, rounds)
    figures = []
    for state in measured["now"][0]:
        before, now = ([one[state] for one in measured[which]] for which in ("before", "now"))
        figures.append(
            Figure(
                "versions", f"{name}, {state}: speed of before", median_ratio(before, now),
                target=FLOOR, note=spread(before, now),
            )
        )  # fmt: skip
    return figures


def _with_sources(checkout: Path, call: Call) -> dict[str, float]:
    with _environment(PYTHONPATH=str(checkout / "src")):
        return call()


@contextmanager
def _environment(**variables: str) -> Any:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main() -> int:
    """Show the figures; 1 when this version is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions")
    parser.add_argument("other", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=11, help="paired rounds (default: 11)")
    wanted = parser.parse_args()
    if not (wanted.other / "src" / "runyard").is_dir():
        parser.error(f"no checkout of Runyard in {wanted.other}")
    figures = measure(wanted.other.resolve(), wanted.rounds)
    print(f"{machine()}; {wanted.rounds} paired rounds\n\n{table(figures)}")
    return 1 if any(figure.holds is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())

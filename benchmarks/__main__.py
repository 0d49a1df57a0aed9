"""`python -m benchmarks [NAME ...] [--rounds N] [--json FILE] [--list]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    adapters,
    agent,
    coroutines,
    decide,
    dependencies,
    killed_worker,
    letitride,
    malice,
    million,
    noop,
    scale_ray,
    shared,
    short,
    startup,
    straggler,
    workbench,
)
from benchmarks.figures import Figure, machine, save, table

BENCHMARKS: dict[str, Callable[[int], list[Figure]]] = {
    "noop": noop.measure,
    "short": short.measure,
    "straggler": straggler.measure,
    "million": million.measure,
    "coroutines": coroutines.measure,
    "dependencies": dependencies.measure,
    "startup": startup.measure,
    "killed": killed_worker.measure,
    "adapters": adapters.measure,
    "decide": decide.measure,
    "shared": shared.measure,
    "ray": scale_ray.measure,
    "letitride": letitride.measure,
    "malice": malice.measure,
    "agent": agent.measure,
    "workbench": workbench.measure,
}


def main() -> int:
    """Run the named benchmarks and show their figures; 1 when a target is missed."""
    wanted = _arguments()
    if wanted.list:
        for name, measure in BENCHMARKS.items():
            print(f"{name:<12}{(measure.__doc__ or '').splitlines()[0]}")
        return 0
    figures: list[Figure] = []
    for name in wanted.names or BENCHMARKS:
        figures += BENCHMARKS[name](wanted.rounds)
    print(f"{machine()}; {wanted.rounds} paired rounds\n\n{table(figures)}")
    if wanted.json:
        save(figures, wanted.json)
    return 1 if any(figure.holds is False for figure in figures) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="paired rounds (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    wanted = parser.parse_args()
    unknown = sorted(set(wanted.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if wanted.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return wanted


if __name__ == "__main__":
    sys.exit(main())

"""A grid that grows: estimate π by throwing darts, then double the replicates.

The first run's tasks are not run again: a task's seed is derived from its own parameters and
replicate number, not from its position in the batch.
"""

import tempfile
from statistics import mean, stdev

import runyard as ry


def darts(ctx: ry.Context, thrown: int) -> float:
    """An estimate of π: four times the share of darts that hit the quarter circle."""
    x, y = ctx.rng.random((2, thrown))
    return 4 * float((x * x + y * y < 1).mean())


def show(result: ry.Result) -> None:
    """Print the mean and spread of the estimates, by number of darts."""
    estimates: dict[int, list[float]] = {}
    for outcome in result.outcomes("completed"):
        estimates.setdefault(outcome.params["thrown"], []).append(outcome.value)
    for thrown, found in estimates.items():
        print(f"{thrown:>7,} darts × {len(found)}: {mean(found):.4f} ± {stdev(found):.4f}")


with tempfile.TemporaryDirectory() as folder, ry.Yard(folder) as yard:
    for replicates in (100, 200):
        grid = ry.grid(
            darts, thrown=[100, 3_000, 100_000], replicates=replicates, seed=314, name="darts"
        )
        before = yard.status()[0].stats.done if yard.status() else 0
        result = yard.run(grid)
        print(f"{result.stats.done - before} tasks run, {before} already recorded")
        show(result)

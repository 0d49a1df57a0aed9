"""Common random numbers: two variants serve the same customers, so they can be compared in pairs.

Is a till that is 2% faster worth it? Days differ far more than that: with different customers for
each till the effect is lost in the noise; with the same ones it is clear.
"""

import tempfile
from statistics import mean, stdev

import runyard as ry


def day(ctx: ry.Context, speed: float, demand: float, customers: int = 400) -> float:
    """The mean wait of a day's customers."""
    arrivals = ctx.rng.exponential(1 / demand, customers).cumsum().tolist()
    services = ctx.rng.exponential(1 / speed, customers).tolist()
    waited = free = 0.0
    for arrival, service in zip(arrivals, services, strict=True):
        start = max(arrival, free)
        waited += start - arrival
        free = start + service
    return waited / customers


def savings(common: bool, yard: ry.Yard) -> dict[float, list[float]]:
    """What the faster till saves, replicate by replicate, by demand."""
    batch = ry.batch(
        day,
        variants=[{"speed": 1.0}, {"speed": 1.02}],
        cases=[{"demand": 0.6}, {"demand": 0.8}],
        replicates=300,
        seed=1909,
        common_random_numbers=common,
    )
    waits: dict[tuple[float, int], dict[float, float]] = {}
    for outcome in yard.run(batch).outcomes("completed"):
        pair = waits.setdefault((outcome.params["demand"], outcome.labels["replicate"]), {})
        pair[outcome.params["speed"]] = outcome.value
    found: dict[float, list[float]] = {}
    for (demand, _), pair in waits.items():
        found.setdefault(demand, []).append(pair[1.0] - pair[1.02])
    return found


with tempfile.TemporaryDirectory() as folder, ry.Yard(folder) as yard:
    for common in (False, True):
        print("the same customers:" if common else "different customers for each:")
        for demand, saved in savings(common, yard).items():
            error = 1.96 * stdev(saved) / len(saved) ** 0.5
            print(f"  demand {demand}: saves a wait of {mean(saved):.3f} ± {error:.3f}")

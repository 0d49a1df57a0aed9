"""Random walks on the integer lattice: how often do they return?

Pólya (1921): in one and two dimensions a walk returns to its start with certainty, though it may
take long; in three it returns with probability 0.3405, in four with 0.1932.
"""

from __future__ import annotations

import numpy as np

import runyard as ry


def walk(ctx: ry.Context, dimension: int, steps: int, walkers: int = 200) -> dict[str, float]:
    """Send walkers off; the share that came home, and how far away the others are."""
    axis = ctx.rng.integers(0, dimension, (walkers, steps))
    sign = ctx.rng.integers(0, 2, (walkers, steps), dtype=np.int8) * 2 - 1
    home = np.ones((walkers, steps), dtype=bool)
    distance = np.zeros(walkers)
    for d in range(dimension):
        place = np.cumsum(np.where(axis == d, sign, 0), axis=1)
        home &= place == 0
        distance += place[:, -1].astype(float) ** 2
    returned = home.any(axis=1)
    return {"returned": float(returned.mean()), "distance": float(np.sqrt(distance).mean())}

"""Tasks that return numbers in every shape there is; for tests of statistics and budgets."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
from sample_tasks import note, wait_for

import runyard as ry


@dataclasses.dataclass
class Score:
    exact: float
    near: bool


def drawn(ctx: ry.Context, x: float = 0.0, y: float = 0.0) -> dict[str, float]:
    """One normal number around x + y."""
    return {"v": float(ctx.rng.normal(x + y))}


def played(ctx: ry.Context, name: str, edge: float, hands: int = 1) -> dict[str, Any]:
    """A game whose luck is the same for every variant that shares random numbers."""
    luck = float(ctx.rng.normal(0, 3)) * hands
    own = float(np.random.default_rng(int(edge * 1000) + ctx.task).normal(0, 0.1))
    return {"profit": luck + edge + own, "won": luck + edge + own > 0}


def shaped(x: int) -> Any:
    """A value of another shape for each x."""
    return {
        0: lambda: {"a": 1.5, "deep": {"er": {"n": 2}}},
        1: lambda: {"a": math.nan, "deep": {"er": {"n": math.inf}}},
        2: lambda: {"a": np.float32(0.25), "late": np.int64(7)},
        3: lambda: Score(0.5, True),
        4: lambda: {"a": True, "text": "no number", "list": [1, 2]},
        5: lambda: 42,
        6: lambda: None,
        7: lambda: _fail(),
        8: lambda: {"deep": {"er": {"n": -3}}, "a": 10**400},
        9: lambda: {1: 5, "a": np.array(2.5)},
    }[x % 10]()


def _fail() -> None:
    raise ValueError("no luck")


def numbered(x: int) -> dict[int, int]:
    return {1: x, 2: 2 * x}


def costly(x: int = 0, cost: float = 2.0) -> dict[str, float]:
    return {"cost": cost, "x": x}


def costly_or_fails(x: int) -> dict[str, float]:
    if x % 2:
        raise ValueError("odd")
    return {"cost": 1.0}


def noted_cost(folder: str, x: int) -> dict[str, float]:
    note(folder, x)
    return {"cost": 1.0}


def constant(x: int = 0) -> dict[str, float]:
    return {"v": 5.0}


def never(x: int = 0) -> dict[str, float]:
    """Its metric is there and is never a number."""
    return {"v": math.nan}


def fails_always(x: int = 0) -> None:
    raise ValueError("no luck")


def fails_at_first(ctx: ry.Context) -> dict[str, float]:
    """Replicate 0 fails, every other one goes well."""
    if ctx.task == 0:
        raise ValueError("no luck")
    return {"v": float(ctx.rng.normal())}


def flips(folder: str, x: int) -> dict[str, float]:
    """Task 0 fails until there is a file named `mended`; what all return changes with it."""
    if not Path(folder, "mended").exists():
        if x == 0:
            raise ValueError("not yet")
        return {"a": 1.0, "b": 2.0}
    return {"c": 30.0, "b": 20.0, "a": 10.0}


def waits_in_the_middle(ctx: ry.Context, folder: str) -> dict[str, float]:
    """Task 70 says that it is there, and waits to be let go."""
    if ctx.task == 70 and not Path(folder, "release").exists():
        note(folder, "here")
        wait_for(folder, "release")
    return {"v": float(ctx.rng.normal())}


def anything(**given: Any) -> dict[str, Any]:
    return {"status": 1, "value": {"status": 2}, 'ü "x"': 3}

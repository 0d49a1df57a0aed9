"""Functions that tests run as tasks; worker processes find them here by import."""

from __future__ import annotations

from typing import Any

import runyard as ry


def double(x: int) -> int:
    return 2 * x


def tossed(ctx: ry.Context, coins: int) -> dict[str, Any]:
    return {"heads": int(ctx.rng.integers(0, 2, coins).sum())}

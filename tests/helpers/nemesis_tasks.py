"""Tasks that do to their worker what tasks do: draw, print, fail, fork and forget to leave."""

from __future__ import annotations

import os
import time
from typing import Any

import runyard as ry


def hostile(ctx: ry.Context, x: int) -> dict[str, Any]:
    """Some time, some output, a result that depends on the seed; some fork, some fail."""
    time.sleep(float(ctx.rng.exponential(0.01)))
    if x % 10 == 1:
        print(f"task {x} says hello")
    if x % 20 == 3:
        child = os.fork()
        if child == 0:
            return {"x": "a child's word"}
        os.waitpid(child, 0)
    if x % 20 == 5:
        child = os.fork()
        if child == 0:
            raise OSError("a child that could not exec")
        os.waitpid(child, 0)
    if x % 20 == 7:
        ctx.emit("seen", x=x)
    if x % 25 == 9:
        raise ValueError(f"{x} is one of those")
    return {"x": x, "noise": ctx.rng.random(4)}

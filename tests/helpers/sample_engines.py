"""Batches that several engines share, in a module that each of them can import."""

from __future__ import annotations

import time

from sample_tasks import note

import runyard as ry


def fails_at_first(ctx: ry.Context, folder: str) -> int:
    note(folder, f"attempt-{ctx.attempt}")
    if ctx.attempt == 0:
        raise ValueError("at first")
    return ctx.attempt


def batch_of(folder: str) -> ry.Batch:
    return ry.batch(fails_at_first, params={"folder": folder}, name="shared", seed=7)


def counted(folder: str, x: int) -> int:
    time.sleep(0.001)
    note(folder, x)
    return x


def counted_batch(folder: str) -> ry.Batch:
    return ry.grid(counted, params={"folder": folder}, x=range(1500), name="shared", seed=7)

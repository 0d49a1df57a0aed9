"""Coroutines at high concurrency: 2,000 answers of a slow service, 500 at a time.

The service is a coroutine here; with a real one, `ask` would use an HTTP client.
"""

import asyncio
import tempfile
import time

import runyard as ry

WAIT = 0.1


async def ask(ctx: ry.Context, item: int) -> dict:
    """Ask the service, which sometimes refuses."""
    await asyncio.sleep(WAIT)
    if ctx.attempt == 0 and ctx.rng.random() < 0.01:
        raise ConnectionError("the service is busy")
    return {"item": item, "length": len(str(item))}


with tempfile.TemporaryDirectory() as folder, ry.Yard(folder) as yard:
    batch = ry.grid(ask, item=range(2000), seed=404, name="answers")
    begin = time.perf_counter()
    result = yard.run(batch, backend="async", workers=500, retries=2, retry_on=ConnectionError)
    took = time.perf_counter() - begin
    retried = sum(outcome.attempt > 0 for outcome in result.outcomes())
    print(result.summary())
    print(f"{retried} were asked twice; one at a time, all would have taken {2000 * WAIT:.0f} s")
    print(f"500 at a time took {took:.1f} s")

"""The README's first example. Run it twice: the second time, no task runs again."""

import runyard as ry


def toss(ctx: ry.Context, coins: int) -> dict:
    return {"heads": int(ctx.rng.integers(0, 2, coins).sum())}


result = ry.run(ry.grid(toss, coins=[10, 100], replicates=1000, seed=7))
print(result.summary())

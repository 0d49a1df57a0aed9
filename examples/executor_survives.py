"""`runyard.Executor` in place of `ProcessPoolExecutor`: workers die, and the work continues.

One call kills its worker the first time it runs, another one every time. In the standard library's
pool, the first would have broken everything. The second run reads what the first one recorded.
"""

import os
import signal
import tempfile
from pathlib import Path

import runyard as ry


def square(folder: str, x: int) -> int:
    """x squared, unless it kills its worker."""
    first_time = not Path(folder, f"ran-{x}").exists()
    Path(folder, f"ran-{x}").touch()
    if x == 13 or (x == 7 and first_time):
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(folder, "calls").open("a") as file:
        file.write(".")
    return x * x


with tempfile.TemporaryDirectory() as folder:
    for run in ("first", "second"):
        with ry.Executor(2, name="squares", yard=f"{folder}/yard") as pool:
            futures = {x: pool.submit(square, folder, x) for x in range(20)}
        found = {x: f.result() for x, f in futures.items() if f.exception() is None}
        lost = {x: type(f.exception()).__name__ for x, f in futures.items() if f.exception()}
        calls = Path(folder, "calls").stat().st_size
        print(f"{run} run: {len(found)} results, 7² = {found[7]}, lost {lost}, {calls} calls ran")

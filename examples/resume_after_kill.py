"""kill -9 in the middle of a batch; running it again gives the same digest.

The script starts itself as a child process, which runs the batch, and kills it. Each task notes
that it runs, which shows that only the tasks in flight when the engine died run twice.
"""

import sys
import tempfile
import time
from pathlib import Path
from subprocess import Popen

import runyard as ry

TASKS = 800


def step(ctx: ry.Context, number: int) -> float:
    """About a millisecond of work."""
    with Path("notes").open("a") as file:
        file.write(f"{number}\n")
    return sum(float(ctx.rng.random(500).sum()) for _ in range(250))


def start(folder: Path) -> Popen[bytes]:
    """Run the batch in its own folder and process."""
    folder.mkdir(exist_ok=True)
    return Popen([sys.executable, __file__, "run"], cwd=folder)


def kill_in_the_middle(child: Popen[bytes], folder: Path) -> None:
    """Kill the engine as `kill -9` does, once 300 outcomes are recorded."""
    while not (folder / ".runyard" / "yard.db").exists():
        time.sleep(0.01)
    with ry.Yard(folder / ".runyard") as yard:
        while child.poll() is None:
            time.sleep(0.01)
            if any(batch.stats.done >= 300 for batch in yard.status()):
                child.kill()
    print(f"the engine is dead: exit code {child.returncode}, {recorded(folder)} recorded")


def recorded(folder: Path) -> str:
    """How many outcomes are recorded."""
    with ry.Yard(folder / ".runyard") as yard:
        stats = yard.results("steps").stats
        return f"{stats.done} of {stats.total}"


def digest(folder: Path) -> str:
    """The start of the batch's digest."""
    with ry.Yard(folder / ".runyard") as yard:
        return str(yard.results("steps").digest)[:16]


def main() -> int:
    """Kill a run, resume it, and compare it with an uninterrupted one."""
    with tempfile.TemporaryDirectory() as place:
        broken, whole = Path(place, "broken"), Path(place, "whole")
        kill_in_the_middle(start(broken), broken)
        start(broken).wait()
        runs = len((broken / "notes").read_text().splitlines())
        print(f"after the second run: {recorded(broken)} recorded, {runs} executions")
        start(whole).wait()
        print(f"digest after kill -9: {digest(broken)}")
        print(f"digest, uninterrupted run: {digest(whole)}")
        return 0 if digest(broken) == digest(whole) else 1


if sys.argv[1:] == ["run"]:
    ry.run(ry.grid(step, number=range(TASKS), seed=9, name="steps"))
else:
    sys.exit(main())

"""kill -9 in the middle of a batch; then the same script again, to the same digest.

The script calls itself: a child process runs the batch, and this one kills it. A task notes each
time it runs, so that one sees what ran twice: what was under way when the engine died, no more.
"""

import sys
import tempfile
import time
from pathlib import Path
from subprocess import Popen

import runyard as ry

TASKS = 800


def step(ctx: ry.Context, number: int) -> float:
    """A millisecond of work or so."""
    with Path("notes").open("a") as file:
        file.write(f"{number}\n")
    return sum(float(ctx.rng.random(500).sum()) for _ in range(250))


def start(folder: Path) -> Popen[bytes]:
    """Run the batch in a folder of its own, in a process of its own."""
    folder.mkdir(exist_ok=True)
    return Popen([sys.executable, __file__, "run"], cwd=folder)


def kill_in_the_middle(child: Popen[bytes], folder: Path) -> None:
    """As `kill -9` does it, as soon as 300 outcomes are on record."""
    while not (folder / ".runyard" / "yard.db").exists():
        time.sleep(0.01)
    with ry.Yard(folder / ".runyard") as yard:
        while child.poll() is None:
            time.sleep(0.01)
            if any(batch.stats.done >= 300 for batch in yard.status()):
                child.kill()
    print(f"the engine is dead: exit code {child.returncode}, {recorded(folder)} recorded")


def recorded(folder: Path) -> str:
    """How much is on record."""
    with ry.Yard(folder / ".runyard") as yard:
        stats = yard.results("steps").stats
        return f"{stats.done} of {stats.total}"


def digest(folder: Path) -> str:
    """What came out."""
    with ry.Yard(folder / ".runyard") as yard:
        return str(yard.results("steps").digest)[:16]


def main() -> int:
    """Break a run, mend it, and compare it with one that was never broken."""
    with tempfile.TemporaryDirectory() as place:
        broken, whole = Path(place, "broken"), Path(place, "whole")
        kill_in_the_middle(start(broken), broken)
        start(broken).wait()
        runs = len((broken / "notes").read_text().splitlines())
        print(f"after the second run: {recorded(broken)} recorded, {runs} executions")
        start(whole).wait()
        print(f"digest after kill -9: {digest(broken)}")
        print(f"digest, unbroken run: {digest(whole)}")
        return 0 if digest(broken) == digest(whole) else 1


if sys.argv[1:] == ["run"]:
    ry.run(ry.grid(step, number=range(TASKS), seed=9, name="steps"))
else:
    sys.exit(main())

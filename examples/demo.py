"""What `make demo` shows: a batch on all cores, interrupted in the middle, resumed to its end.

`python examples/demo.py 25` does the same with 25 replicates in place of the file's 250.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import runyard as ry

HERE = Path(__file__).parent
POLYA = {1: "1", 2: "1", 3: "0.3405", 4: "0.1932"}
console = Console()


def say(text: str) -> None:
    """Tell the reader what happens next."""
    console.print(f"\n[bold]{text}[/bold]")


def runyard(*words: str) -> subprocess.Popen[bytes]:
    """Start the command line, as a person would."""
    console.print(f"[dim]$ runyard {' '.join(words)}[/dim]", highlight=False)
    return subprocess.Popen([sys.executable, "-m", "runyard", *words])


def interrupt_in_the_middle(process: subprocess.Popen[bytes], place: str) -> None:
    """Press Ctrl-C as soon as a third of the outcomes is recorded."""
    while process.poll() is None:
        time.sleep(0.05)
        if not Path(place, "yard.db").exists():
            continue
        with ry.Yard(place) as yard:
            found = yard.status()
            if found and found[0].stats.done > found[0].stats.total / 3:
                process.send_signal(signal.SIGINT)
                return


def table(result: ry.Result) -> Table:
    """The share of walkers that came home, by dimension and length."""
    shares: dict[tuple[int, int], list[float]] = defaultdict(list)
    for outcome in result.outcomes("completed"):
        key = outcome.params["dimension"], outcome.params["steps"]
        shares[key].append(outcome.value["returned"])
    lengths = sorted({steps for _, steps in shares})
    made = Table(title="Share of walkers that came home")
    made.add_column("dimension", justify="right")
    for steps in lengths:
        made.add_column(f"{steps:,} steps", justify="right")
    made.add_column("for ever (Pólya)", justify="right")
    for dimension in sorted({d for d, _ in shares}):
        cells = []
        for steps in lengths:
            values = shares[dimension, steps]
            mean = sum(values) / len(values)
            spread = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
            cells.append(f"{mean:.3f} ± {1.96 * spread / len(values) ** 0.5:.3f}")
        made.add_row(str(dimension), *cells, POLYA[dimension])
    return made


def main() -> int:
    """Run, interrupt, resume, show."""
    batch = str(HERE / "walks.toml")
    replicates = sys.argv[1] if len(sys.argv) > 1 else "250"
    with tempfile.TemporaryDirectory(prefix="runyard-demo-") as place:
        say(f"{12 * int(replicates):,} tasks of 200 random walkers each, on every core")
        first = runyard("run", batch, "--replicates", replicates, "--yard", place)
        interrupt_in_the_middle(first, place)
        console.print(f"[dim]Ctrl-C was pressed: exit code {first.wait()}[/dim]")
        say("What finished is recorded; the rest goes on from there")
        second = runyard("resume", "walks", "--yard", place)
        if second.wait() != 0:
            return second.returncode
        with ry.Yard(place) as yard:
            result = yard.results("walks")
            console.print()
            console.print(table(result))
            console.print(result.summary("returned"), highlight=False, soft_wrap=True)
        say("Does a sample give the same on one core? (verify)")
        return runyard("verify", "walks", "--sample", "5%", "--backend", "serial",
                       "--yard", place).wait()  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

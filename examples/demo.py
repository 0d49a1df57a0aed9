"""What `make demo` shows: Let It Ride on all cores, interrupted, then resumed to the end.

`python examples/demo.py 2000` does the same with 2,000 sessions instead of 300,000. The report
stays in the folder `demo`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

import runyard as ry

CONFIG = Path(__file__).parent / "letitride" / "demo.yaml"
console = Console()


def say(text: str) -> None:
    """Tell the reader what happens next."""
    console.print(f"\n[bold]{text}[/bold]")


def runyard(*words: str) -> subprocess.Popen[bytes]:
    """Start the command line, as a user would."""
    console.print(f"[dim]$ runyard {' '.join(words)}[/dim]", highlight=False, soft_wrap=True)
    return subprocess.Popen([sys.executable, "-m", "runyard", *words])


def interrupt_in_the_middle(process: subprocess.Popen[bytes], place: str) -> None:
    """Press Ctrl-C as soon as some of the sessions are recorded."""
    while process.poll() is None:
        time.sleep(0.02)
        if not Path(place, "yard.db").exists():
            continue
        with ry.Yard(place) as yard:
            found = yard.status()
            if found and found[0].stats.done:
                process.send_signal(signal.SIGINT)
                return


def main() -> int:
    """Play, interrupt, resume, verify."""
    sessions = sys.argv[1] if len(sys.argv) > 1 else "300000"
    with tempfile.TemporaryDirectory(prefix="runyard-demo-") as place:
        words = ["letitride", "run", str(CONFIG), "--sessions", sessions, "--yard", place]
        say(f"{int(sessions):,} sessions of Let It Ride, 200 hands each, on all cores")
        first = runyard(*words)
        interrupt_in_the_middle(first, place)
        console.print(f"[dim]interrupted by Ctrl-C: exit code {first.wait()}[/dim]")
        say("Finished sessions are recorded; the same command continues from there")
        second = runyard(*words)
        if second.wait() != 0:
            return second.returncode
        with ry.Yard(place) as yard:
            name = yard.status()[0].name
        say("Does a sample give the same results on one core?")
        code = runyard("verify", name, "--sample", "10%", "--backend", "serial",
                       "--yard", place).wait()  # fmt: skip
    say("The report, with charts: demo/letitride_report.html")
    return code


if __name__ == "__main__":
    sys.exit(main())

"""How long a person waits: the import, `--help`, and the first result of a small batch."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.rounds import ROOT, in_rounds

FEWEST_ROUNDS = 15
PATIENCE = 60.0


def measure(rounds: int) -> list[Figure]:
    """Import, --help and the first result, minima of interleaved runs."""
    seconds = in_rounds(
        "startup",
        {
            "bare interpreter": lambda _: {"total": _python("pass")},
            "import runyard": lambda _: {"total": _python("import runyard")},
            "runyard --help": lambda _: {"total": _timed([_command(), "--help"])},
            "two-process batch": lambda _: _batch(),
        },
        max(rounds, FEWEST_ROUNDS),
    )
    best = {
        name: {key: min(run[key] for run in runs) for key in runs[0]}
        for name, runs in seconds.items()
    }
    bare, loaded = best["bare interpreter"]["total"], best["import runyard"]["total"]
    batch = best["two-process batch"]
    return [
        _milliseconds(
            "import runyard over a bare interpreter",
            loaded - bare,
            80,
            f"{1000 * loaded:.0f} ms against {1000 * bare:.0f} ms",
        ),
        _milliseconds("runyard --help", best["runyard --help"]["total"], 200),
        Figure(
            "startup",
            "first result of a two-process batch, run and recorded",
            batch["recorded"],
            "s",
            at_most(0.6),
            f"ran after {batch['ran']:.2f} s, the command ended after {batch['total']:.2f} s",
        ),
    ]


def _milliseconds(label: str, seconds: float, limit: float, note: str = "") -> Figure:
    return Figure("startup", label, 1000 * seconds, "ms", at_most(limit), note)


def _python(code: str) -> float:
    return _timed([sys.executable, "-c", code])


def _timed(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _command() -> str:
    return str(Path(sysconfig.get_path("scripts"), "runyard"))


def _batch() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        command = [_command(), "run", "benchmarks.work:leave_mark", "--grid", "i=1,2,3,4"]
        command += ["--set", f"folder={json.dumps(folder)}", "--backend", "processes"]
        command += ["--workers", "2", "--yard", str(Path(folder, "yard")), "--json"]
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        ran = _when(process, lambda: any(Path(folder).glob("mark-*"))) - started
        recorded = _when(process, lambda: _has_outcome(Path(folder, "yard"))) - started
        if process.wait(PATIENCE) != 0:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        return {"ran": ran, "recorded": recorded, "total": time.perf_counter() - started}


def _when(process: subprocess.Popen[bytes], seen: Callable[[], bool]) -> float:
    while not seen():
        if process.poll() is not None and not seen():
            raise SystemExit(f"the batch ended with {process.returncode} and left no result")
        time.sleep(0.001)
    return time.perf_counter()


def _has_outcome(yard: Path) -> bool:
    """Whether an outcome is committed, as another process sees it."""
    store = sqlite3.connect(f"file:{yard / 'yard.db'}?mode=ro", uri=True)
    try:
        return store.execute("SELECT 1 FROM outcomes LIMIT 1").fetchone() is not None
    finally:
        store.close()

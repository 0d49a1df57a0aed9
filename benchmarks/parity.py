"""One batch on every backend and both stores, and through three workers: one digest.

python -m benchmarks.parity            prints the table of docs/clusters.md
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import runyard as ry
from benchmarks.rounds import ROOT
from benchmarks.servers import postgres
from benchmarks.work import walk
from runyard.backends import NAMES

TASKS = 600


def batch() -> Any:
    """Random walks, some of which fail: values, errors and retries are all in the digest."""
    return ry.grid(walk, steps=[10, 100, 1000], replicates=TASKS // 3, seed=7, name="parity")


def main() -> int:
    """Run everything, show the table; 1 when a digest differs."""
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="runyard-parity-") as folder, postgres() as url:
        os.environ["RUNYARD_FILES"] = str(Path(folder, "files"))
        for store, place in (("SQLite", str(Path(folder, "yard"))), ("PostgreSQL", url)):
            for backend in NAMES:
                with ry.Yard(place) as yard:
                    result = yard.run(batch(), backend=backend, workers=2, fresh=True)
                    rows.append((f"`{backend}`", store, str(result.digest)))
        rows.append(("three `runyard worker`", "PostgreSQL", _workers(url)))
    print(table(rows))
    return len({digest for _, _, digest in rows}) - 1


def table(rows: list[tuple[str, str, str]]) -> str:
    """As it stands in the documents."""
    lines = ["| ran on | recorded in | digest |", "| --- | --- | --- |"]
    lines += [f"| {where} | {store} | `{digest[:16]}` |" for where, store, digest in rows]
    return "\n".join(lines)


def _workers(url: str) -> str:
    with ry.Yard(url) as yard:
        yard.clear("parity")
        yard.submit(batch())
        words = [sys.executable, "-m", "runyard", "worker", "--workers", "1", "--no-progress"]
        environment = {**os.environ, "RUNYARD_YARD": url}
        workers = [
            subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
            for _ in range(3)
        ]
        for worker in workers:
            worker.wait()
        return str(yard.results("parity").digest)


if __name__ == "__main__":
    sys.exit(main())

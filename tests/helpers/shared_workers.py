"""`runyard worker` in processes of their own, on one store in PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos_run import HERE, SOURCE

from runyard import Yard, grid
from runyard.backends.processes import close_pools

LEASE = 2.0


class Crowd:
    """A batch on record, the workers that share it, and a place for their files."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.side = folder / "executions"
        self.processes: list[subprocess.Popen[str]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def submit(self, tasks: int, name: str = "chaos", **options: Any) -> None:
        batch = grid("chaos_tasks:counted", x=range(tasks), seed=11, name=name)
        with Yard(self.url) as yard:
            yard.submit(batch.with_options(**options))

    def worker(self, *words: str, pace: float = 0.002, **variables: str) -> subprocess.Popen[str]:
        return self.start("worker", "--workers", "1", "--json", *words, pace=pace, **variables)

    def start(self, *words: str, pace: float = 0.002, **variables: str) -> subprocess.Popen[str]:
        """Any command, in a process of its own."""
        number = len(self.processes)
        process = subprocess.Popen(
            [sys.executable, "-m", "runyard", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": f"{HERE}{os.pathsep}{SOURCE}",
                "RUNYARD_YARD": self.url,
                "RUNYARD_FILES": str(self.folder / f"files-{number}"),
                "RUNYARD_LEASE": str(LEASE),
                "CHAOS_SIDE": str(self.side),
                "CHAOS_PACE": str(pace),
                **variables,
            },
        )
        self.processes.append(process)
        return process

    def started(self) -> int:
        """How many executions there were so far."""
        return self.side.read_bytes().count(b"\n") if self.side.exists() else 0

    def is_at_work(self, number: int, name: str = "chaos") -> bool:
        """Whether a worker has begun with the batch."""
        return bool(self.events(number, "BatchStarted", name))

    def executions(self) -> list[int]:
        return [int(line) for line in self.side.read_text().split()]

    def events(self, number: int, kind: str, name: str = "chaos") -> list[dict[str, Any]]:
        """What a worker's own audit log says of a kind."""
        path = self.folder / f"files-{number}" / "batches" / name / "events.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []  # whole ones
        return [found for line in lines if (found := json.loads(line)).get("event") == kind]

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


@contextmanager
def crowd(folder: Path, url: str) -> Iterator[Crowd]:
    """A crowd whose processes are gone at the end."""
    found = Crowd(folder, url)
    try:
        yield found
    finally:
        found.close()


def plain_digest(folder: Path, tasks: int) -> str:
    """The digest that one process comes to alone."""
    batch = grid("chaos_tasks:counted", x=range(tasks), seed=11, name="chaos")
    with Yard(folder / "plain") as yard:
        digest = yard.run(batch, backend="serial").digest
    close_pools()
    assert digest is not None
    return digest

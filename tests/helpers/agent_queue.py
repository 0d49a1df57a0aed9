"""A queue of an agent's whose worker is gone when the test is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from polling import eventually

from runyard.doors.agent import BatchExecutor, Response


class Queue:
    """An executor, and what tests ask of it again and again."""

    def __init__(self, location: str | Path, name: str = "queue") -> None:
        self.executor = BatchExecutor(location, queue=name)
        self.pids: list[int] = []

    @property
    def folder(self) -> Path:
        return self.executor.yard.folder

    def do(self, action: str, **arguments: Any) -> Response:
        """An action that must work."""
        response = self.executor.execute_sync(action, **arguments)
        assert response.ok, response.message
        self._note(response)
        return response

    def refused(self, action: str, **arguments: Any) -> str:
        """An action that must be refused; what it says."""
        response = self.executor.execute_sync(action, **arguments)
        assert not response.ok, response.message
        assert len(response.message) < 3000
        return response.message

    def add(self, function: str = "simulate", **task: Any) -> str:
        """Add a task; its id."""
        task.setdefault("name", "t")
        return str(self.do("add", function=function, **task).data["task_id"])

    def task(self, task_id: str) -> dict[str, Any]:
        return self.do("status", task_id=task_id).data

    def counts(self) -> dict[str, Any]:
        return self.do("status").data

    def drained(self, seconds: float = 60.0) -> bool:
        """Whether everything has ended before long."""

        def is_done() -> bool:
            data = self.counts()
            return not data["queued"] and not data["running"]

        return eventually(is_done, seconds)

    def tasks(self, **arguments: Any) -> dict[str, dict[str, Any]]:
        """What came out, by name."""
        found = self.do("results", limit=200, **arguments).data["results"]
        return {task["name"]: task for task in found}

    def is_up(self) -> bool:
        """Whether a worker is there, with something to do or not."""
        ledger = self.executor.ledger
        with self.executor.yard.store.snapshot() as view:
            return bool(ledger.engines(view, ledger.row(view)))

    def close(self) -> None:
        with suppress(AssertionError):
            self.do("stop", graceful=False)
        for pid in self.pids:
            if not eventually(lambda pid=pid: not _lives(pid), 10):
                os.kill(pid, signal.SIGKILL)
        self.executor.close()

    def _note(self, response: Response) -> None:
        pid = response.data.get("pid")
        if pid:
            self.pids.append(pid)


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def opened(location: str | Path, name: str = "queue") -> Iterator[Queue]:
    """A queue whose worker is gone at the end."""
    found = Queue(location, name)
    try:
        yield found
    finally:
        found.close()

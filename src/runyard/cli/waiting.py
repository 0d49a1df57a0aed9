"""`runyard queue wait`: wait for an agent's queue, with progress on a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runyard import clock, interrupts
from runyard.cli.running import EXIT_DEADLINE, EXIT_FAILED
from runyard.cli.session import Session
from runyard.doors.agent.inputs.arguments import duration
from runyard.doors.agent.queue.ledger import NAME
from runyard.errors import EngineError
from runyard.events import BatchFinished, BatchStarted, BatchStopped
from runyard.events import Progress as ProgressEvent
from runyard.reports.progress import show

if TYPE_CHECKING:
    from runyard.doors.agent import BatchExecutor, Response


def wait_for(
    session: Session, executor: BatchExecutor, tasks: Sequence[str], timeout: str | None
) -> int:
    """Wait, print the final status, and return the exit code."""
    name = executor.ledger.name
    seconds = None if timeout is None else duration(timeout, "timeout")
    watched = _Watched(executor, name)
    with show(executor.yard.bus, None), interrupts.by_asyncio():
        response = asyncio.run(
            executor.perform_wait(seconds, watched.see, tasks=list(tasks) or None)
        )
        watched.end(response)
    data = response.data
    session.say(response.message)
    session.document(data)
    if data["state"] == "running":
        session.note(f"{name} is not finished after {timeout}")
        return EXIT_DEADLINE
    if data["queued"]:
        own_name = [] if name == NAME else ["--queue", name]
        session.note(
            f"no worker is running; start one with `{session.command('queue', 'start', *own_name)}`"
        )
        return EngineError.exit_code
    return EXIT_FAILED if data["failed"] or data["cancelled"] else 0


class _Watched:
    """Publishes what an engine would, so that the usual progress view shows the queue."""

    def __init__(self, executor: BatchExecutor, name: str) -> None:
        self._publish = executor.yard.bus.publish
        self._name = name
        self._began = clock.monotonic()
        self._total = 0

    async def see(self, seen: Response) -> None:
        """Show the current status."""
        data = seen.data
        if data["total_tasks"] != self._total:
            self._total = data["total_tasks"]
            workers = data.get("max_concurrent", 0)
            self._publish(
                BatchStarted(
                    batch=self._name, total=self._total, seed=0, backend="", workers=workers
                )
            )
        self._publish(
            ProgressEvent(
                batch=self._name, total=self._total, running=data["running"], retrying=0,
                workers=data.get("max_concurrent", data["running"]), rate=data.get("rate", 0.0),
                eta=data.get("estimated_time_remaining"), elapsed=self._seconds, **_counts(data),
            )
        )  # fmt: skip

    def end(self, seen: Response) -> None:
        """Show how it ended."""
        told: dict[str, Any] = {
            "batch": self._name, "recorded": 0, "seconds": self._seconds, **_counts(seen.data)
        }  # fmt: skip
        if not self._total:
            return
        if seen.data["queued"] or seen.data["running"]:
            self._publish(BatchStopped(reason="not done", **told))
        else:
            self._publish(BatchFinished(**told))

    @property
    def _seconds(self) -> float:
        return clock.monotonic() - self._began


def _counts(data: dict[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in ("completed", "failed", "cancelled")}

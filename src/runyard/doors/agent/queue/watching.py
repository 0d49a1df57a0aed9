"""Show the progress of a queue in the same way as that of a run."""

from __future__ import annotations

from typing import Any

from runyard import clock
from runyard.doors.agent.queue.model import Response
from runyard.events import BatchFinished, BatchStarted, BatchStopped, EventBus, Progress


class Watch:
    """Publishes what an engine would publish, from one status of a queue after the other."""

    def __init__(self, bus: EventBus, name: str) -> None:
        self._publish = bus.publish
        self._name = name
        self._began = clock.monotonic()
        self._total = 0

    async def see(self, seen: Response) -> None:
        """Publish the current status."""
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
            Progress(
                batch=self._name, total=self._total, running=data["running"], retrying=0,
                workers=data.get("max_concurrent", data["running"]), rate=data.get("rate", 0.0),
                eta=data.get("estimated_time_remaining"), elapsed=self._seconds, **_counts(data),
            )
        )  # fmt: skip

    def end(self, seen: Response) -> None:
        """Publish the last status."""
        if not self._total:
            return
        told: dict[str, Any] = {
            "batch": self._name, "recorded": 0, "seconds": self._seconds, **_counts(seen.data)
        }  # fmt: skip
        if seen.data["queued"] or seen.data["running"]:
            self._publish(BatchStopped(reason="not done", **told))
        else:
            self._publish(BatchFinished(**told))

    @property
    def _seconds(self) -> float:
        return clock.monotonic() - self._began


def _counts(data: dict[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in ("completed", "failed", "cancelled")}

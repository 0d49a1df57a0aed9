"""Statistics of a queue, at a cost that doesn't depend on its length."""

from __future__ import annotations

import socket
from statistics import fmean
from typing import Any, NamedTuple

from runyard import clock
from runyard.doors.agent.queue.eta import seconds_left
from runyard.doors.agent.queue.ledger import Ledger, Running
from runyard.doors.agent.queue.model import BatchStats
from runyard.spec.status import CANCELLED
from runyard.store.base import Snapshot
from runyard.store.rows import BatchRow, EngineRow

LATEST = 500
"""Number of the latest outcomes from which durations and waits are computed."""


class QueueFigures(NamedTuple):
    """The queue at one moment."""

    stats: BatchStats
    row: BatchRow
    engines: list[EngineRow]
    under_way: Running
    rate: float  # recent outcomes a second; where nothing runs, over the whole time
    mean_wait: float
    max_wait: float

    @property
    def lanes(self) -> int:
        """How many tasks can run at once."""
        return sum(engine.workers for engine in self.engines)

    @property
    def _is_served(self) -> bool:
        return bool(self.engines or self.under_way)

    def document(self) -> dict[str, Any]:
        """The data of `status`."""
        stats = self.stats
        tried = stats.completed + stats.failed
        total = stats.total_execution_time
        return {
            # A worker that lingers after the last task runs nothing.
            "state": "running" if self.row.pending and self._is_served else "stopped",
            **stats.document(),
            "rate": round(self.rate, 3),
            "throughput_per_minute": round(60 * stats.finished / total, 2) if total else 0.0,
            "success_rate": round(stats.completed / tried, 4) if tried else None,
            "failure_rate": round(stats.failed / tried, 4) if tried else None,
            "queue_depth": stats.queued,
            "active_workers": stats.running,
            "max_concurrent": self.lanes,
            "wait_time": {"mean": round(self.mean_wait, 3), "max": round(self.max_wait, 3)},
        }


def figures(ledger: Ledger, view: Snapshot) -> QueueFigures:
    """Compute the statistics of a queue."""
    row = ledger.row(view)
    engines = ledger.engines(view, row)
    under_way = ledger.under_way(view, row)
    running = min(row.pending, len(under_way))
    times, waits = _latest(view, row)
    mean = fmean(times) if times else 0.0
    eta = None
    at_work = bool(engines and row.pending)  # else they wait for more
    if at_work:
        row = row.ran_until(clock.now())
    if at_work and times:
        elapsed = [mean / 2 if note is None else note.seconds for note in under_way.values()]
        lanes = sum(e.workers for e in engines)
        eta = seconds_left(mean, row.pending - running, elapsed[:running], lanes)
    stats = BatchStats(
        total_tasks=row.total, queued=row.pending - running, running=running,
        completed=row.completed, failed=row.failed, cancelled=row.cancelled,
        start_time=row.started, end_time=row.finished,
        total_execution_time=row.seconds,
        average_task_time=mean, estimated_time_remaining=eta,
    )  # fmt: skip
    rate = sum(e.rate for e in engines) if at_work else row.mean_rate
    return QueueFigures(
        stats, row, engines, under_way, rate,
        fmean(waits) if waits else 0.0, max(waits, default=0.0),
    )  # fmt: skip


def _latest(view: Snapshot, row: BatchRow) -> tuple[list[float], list[float]]:
    """The durations and the waits of the latest tasks."""
    outcomes = [o for o in view.latest(row.id, LATEST) if o.status != CANCELLED]
    if not outcomes:
        return [], []
    first, last = outcomes[-1].task, outcomes[0].task
    rows = view.tasks(row.id, after=first - 1, limit=min(2 * LATEST, last - first + 1))
    created = {task.task: task.created for task in rows}
    waits = [max(0.0, o.started - created[o.task]) for o in outcomes if o.task in created]
    return [o.seconds for o in outcomes], waits


def resources(engines: list[EngineRow]) -> dict[str, Any] | None:
    """Resource use of the workers on this machine; CPU since they started."""
    import psutil

    processes, memory, cpu, begun = 0, 0, 0.0, clock.now()
    for engine in engines:
        if engine.host != socket.gethostname():
            continue
        try:
            worker = psutil.Process(engine.pid)
            begun = min(begun, worker.create_time())
            for each in [worker, *worker.children(recursive=True)]:
                times = each.cpu_times()
                cpu += times.user + times.system + times.children_user + times.children_system
                memory += each.memory_info().rss
                processes += 1
        except psutil.Error:
            continue
    if not processes:
        return None
    share = 100 * cpu / max(1e-3, clock.now() - begun)
    return {
        "processes": processes, "memory_mb": round(memory / 1e6, 1), "cpu_percent": round(share, 1)
    }  # fmt: skip

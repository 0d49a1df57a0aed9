"""What engines that died have left behind: signed off, charged and cleared away."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil

from runyard.attempt.lane_status import IDLE, LaneStatus, LaneStatusFile
from runyard.backends import runs_in_engine
from runyard.format import count
from runyard.modes import make_folder
from runyard.schedule.retries import survives_crash
from runyard.spec.outcome import ErrorInfo, OutcomeRow
from runyard.spec.status import FAILED
from runyard.store.base import Store, Transaction
from runyard.store.liveness import FOLDER
from runyard.store.rows import AttemptRow, EngineRow
from runyard.store.stored_batch import StoredBatch


def run_folder(yard: Path) -> Path:
    """The folder for engines' files, which are gone when they end."""
    folder = yard / FOLDER
    make_folder(folder)
    return folder


def lane_status_path(yard: Path, engine: int) -> Path:
    """The file in which an engine's lanes note what they run."""
    return run_folder(yard) / f"{engine}.slots"


def sweep_dead_engines(tx: Transaction, store: Store, yard: Path) -> None:
    """Sign off engines that died, and remove their files.

    Where tasks ran inside the engine's own process, the task that was running may have killed it.
    It is charged, so that it can't kill engines for ever.
    """
    for row in tx.engines():
        if store.alive(row.id):
            continue
        path = lane_status_path(yard, row.id)
        if runs_in_engine(row.backend):
            _charge_running(tx, row, path)
        if not _may_still_run(row):
            for each in path.parent.glob(f"{row.id}[.-]*"):
                each.unlink(missing_ok=True)
        tx.sign_off(row.id)


def _may_still_run(engine: EngineRow) -> bool:
    """Whether its process is there: paused beyond its lease, it wakes up and needs its files."""
    return engine.host == socket.gethostname() and psutil.pid_exists(engine.pid)


def _charge_running(tx: Transaction, engine: EngineRow, path: Path) -> None:
    try:
        lanes = LaneStatusFile(path, 0, create=False)
    except (OSError, ValueError):
        return
    statuses = [lanes.read(lane) for lane in range(lanes.lanes)]
    lanes.close()
    for status in statuses:
        if status.task != IDLE:
            _charge(tx, engine, status)


def _charge(tx: Transaction, engine: EngineRow, status: LaneStatus) -> None:
    """Count the engine's death against the task that a lane was running."""
    batch, task = tx.batch_by_id(status.batch), status.task
    if batch is None or tx.outcome(batch.id, task) is not None:
        return
    earlier = tx.attempts(batch.id, task)
    crashes = 1 + sum(row.crash for row in earlier)
    reason = f"the engine that ran it died {count(crashes, 'time')}"
    error = ErrorInfo("WorkerDied", reason, "", "").encode()
    if survives_crash(StoredBatch(batch).options, crashes):
        row = AttemptRow(batch.id, task, len(earlier) + 1, 1, error, engine.started, 0.0)
        tx.add_attempts([row])
        return
    columns = task, FAILED, status.attempt, None, error, engine.started, 0.0, 0
    tx.record(batch.id, [OutcomeRow.with_checksum(batch.id, *columns)])

"""What engines that died have left: signed off, charged and cleared away."""

from __future__ import annotations

from pathlib import Path

from runyard.attempt.lane_status import IDLE, LaneStatusFile
from runyard.backends import backend_class
from runyard.schedule import policy
from runyard.spec.outcome import ErrorInfo, OutcomeRow
from runyard.spec.status import FAILED
from runyard.store.base import Store, Transaction
from runyard.store.liveness import FOLDER
from runyard.store.rows import AttemptRow, EngineRow
from runyard.store.stored_batch import StoredBatch


def run_folder(yard: Path) -> Path:
    """Where engines keep what is gone when they end."""
    folder = yard / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sweep_dead_engines(tx: Transaction, store: Store, yard: Path) -> None:
    """Sign off engines that died, and clear away what they left.

    Where tasks ran inside the engine's own process, the task that was running may be what killed
    it: it is charged, so that it can't kill engines for ever.
    """
    for row in tx.engines():
        if store.alive(row.id):
            continue
        lane_status = run_folder(yard) / f"{row.id}.slots"
        if not backend_class(row.backend).capabilities.survives_crash:
            _charge_running(tx, row, lane_status)
        for path in lane_status.parent.glob(f"{row.id}[.-]*"):
            path.unlink(missing_ok=True)
        tx.sign_off(row.id)


def _charge_running(tx: Transaction, engine: EngineRow, path: Path) -> None:
    try:
        lane_status = LaneStatusFile(path, 0, create=False)
    except (OSError, ValueError):
        return
    notes = [lane_status.read(lane) for lane in range(lane_status.lanes)]
    lane_status.close()
    for note in notes:
        batch = None if note.task == IDLE else tx.batch_by_id(note.batch)
        if batch is None or tx.outcome(batch.id, note.task) is not None:
            continue
        earlier = tx.attempts(batch.id, note.task)
        crashes = 1 + sum(row.crash for row in earlier)
        reason = f"the engine that ran it died {crashes} times"
        error = ErrorInfo("WorkerDied", reason, "", "").encode()
        recorded = StoredBatch(batch)
        if policy.survives_crash(recorded.options, crashes):
            number = len(earlier) + 1
            tx.add_attempts(
                [AttemptRow(batch.id, note.task, number, 1, error, engine.started, 0.0)]
            )
        else:
            row = OutcomeRow.with_checksum(
                batch.id, note.task, FAILED, note.attempt, None, error, engine.started, 0.0, 0
            )
            tx.record(batch.id, [row])

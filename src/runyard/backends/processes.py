"""`processes`: supervised worker processes. The default.

                       ┌───────────────────────── engine ──┐
                       │ poller: control, channels, wake   │
                       └─┬─────────────┬───────────┬───────┘
              control    │             │ channel   │ channel
                      ┌──▼───────┐  ┌──▼─────┐  ┌──▼─────┐
                      │supervisor├─▶│worker 0│  │worker 1│    forked by the supervisor
                      └──────────┘  └────────┘  └────────┘

Each worker has its own channel. A worker that dies is replaced at once; its lane's status tells
which task it was running. The pool of workers stays warm between the runs of one process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from runyard.attempt.lane_status import IDLE, LaneStatus, LaneStatusFile
from runyard.attempt.output import remove_spool, salvage
from runyard.attempt.wire import (
    Chunk,
    Job,
    Loss,
    LossCause,
    Report,
    decode_report,
    encode_chunk,
    encode_job,
)
from runyard.backends import tree
from runyard.backends.base import Backend, Capabilities, EarlyDeaths, starting
from runyard.backends.channel import GarbledMessage
from runyard.backends.worker import CHANNEL_CLOSED, CHUNK, JOB, REST
from runyard.backends.worker_pool import WorkerHandle, WorkerPool
from runyard.errors import BackendError
from runyard.spec.hash_seed import workers_seed

close_pools = WorkerPool.warm.close
"""End the workers that wait for the next run of this process."""

CUT_OFF_SECONDS = 1.0
"""How long a worker that closed its channel has to exit by itself, with a telling exit code."""

_TRY = "try `python -c 'import runyard'` with the same interpreter"


class ProcessesBackend(Backend):
    """One worker process per lane."""

    name = "processes"
    capabilities = Capabilities(
        hard_kill=True,
        memory_limit=True,
        own_directory=True,
        descriptor_capture=True,
        survives_crash=True,
    )
    decode = staticmethod(decode_report)
    """How to read a worker's report."""
    hash_seed = staticmethod(workers_seed)

    def __init__(self, lanes: int, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: variables to set for the workers, besides those of this process."""
        super().__init__(lanes)
        self._environment = environment
        with starting():
            self._pool = WorkerPool.take(lanes, environment)
        self._job: Job | None = None
        self._encoded_job = b""
        self._ready: list[Report | Loss] = []
        self._early_deaths = EarlyDeaths()
        self._has_warned = False  # that a task wrote into a channel
        self._closed = False

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        if self._pool.code.has_changed(job.code):
            self._pool.close()
            self._pool = self._new_pool()
        self._job = job
        self._lane_status = lane_status
        self._encoded_job = encode_job(job)
        for worker in self._pool.workers:
            worker.channel.send(JOB, self._encoded_job)

    def send(self, lane: int, chunk: Chunk) -> None:
        worker = self._pool.workers[lane]
        worker.sent.add(chunk)
        worker.channel.send(CHUNK, encode_chunk(chunk))

    def room(self, lane: int) -> int:
        worker = self._pool.workers[lane]
        recycle = self._job.options.recycle if self._job else None
        if worker.ending is not None or worker.renewing:
            return 0
        if worker.sent.is_used_up(recycle):
            self.renew(lane)
        return worker.sent.room(recycle)

    def poll(self, timeout: float) -> list[Report | Loss]:
        pool = self._pool
        exits: list[tuple[WorkerHandle, int]] = []
        for readable in pool.poller.wait(0 if self._ready else timeout):
            if readable is pool:
                exits += pool.read_exits()
            else:
                self._read(readable.owner)
        for worker, exit_status in exits:
            self._replace_dead(worker, exit_status)
        self._kill_cut_off()
        if pool.has_lost_supervisor():
            self._replace_pool()
        found, self._ready = self._ready, []
        return found

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        worker = self._pool.workers[lane]
        if worker.ending is None and self._lane_status.read(lane) == status:
            worker.ending = status, cause, reason
            self._pool.kill(worker)

    def memory(self, lane: int) -> int | None:
        pid = self._pool.workers[lane].pid
        return None if pid is None else tree.resident(pid) - self._lane_status.left(lane)

    def wake(self) -> None:
        self._pool.poller.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pool.is_lost or any(worker.is_busy for worker in self._pool.workers):
            self._pool.close()
        else:
            for worker in self._pool.workers:
                worker.channel.send(REST)
            self._pool.warm.keep(self._pool)
        if self._job is not None:
            for lane in range(len(self._pool.workers)):
                remove_spool(self._spool(lane))

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._pool.workers if worker.pid is not None]

    def renew(self, lane: int) -> None:
        """Replace the lane's worker by a fresh one, soon."""
        worker = self._pool.workers[lane]
        worker.renewing = True
        self._pool.kill(worker)

    def is_renewing(self, lane: int) -> bool:
        """Whether the lane still waits for its fresh worker."""
        return self._pool.workers[lane].renewing

    def _read(self, worker: WorkerHandle) -> bool:
        """Read once from a worker; False when nothing more comes now."""
        if not worker.channel.read():
            if worker.channel.at_end:
                worker.cut_off = worker.cut_off or time.monotonic()
            return False
        try:
            reports = worker.channel.take(self.decode)
        except GarbledMessage:
            # A task wrote into the middle of a report, which was sent while it ran.
            worker.channel.ignore()
            status = self._lane_status.read(worker.number)
            self.end(worker.number, status, LossCause.WORKER_DIED, "sent a garbled report")
            return False
        skipped, worker.channel.skipped = worker.channel.skipped, 0
        if skipped and not self._has_warned:
            self._has_warned = True
            self.notices.append(
                "a task wrote to a file descriptor that it did not open, its worker's connection "
                "to the engine: the data was dropped"
            )
        for report in reports:
            self._early_deaths.reset()
            worker.sent.take(report)
            self._ready.append(report)
        return True

    def _kill_cut_off(self) -> None:
        """Kill workers that closed their channels and did not exit."""
        for worker in self._pool.workers:
            if worker.cut_off is None or worker.pid is None or worker.asked is not None:
                continue
            if time.monotonic() - worker.cut_off > CUT_OFF_SECONDS:
                self._pool.kill(worker)

    def _replace_dead(self, worker: WorkerHandle, exit_status: int) -> None:
        """A worker has ended: report the loss, and start the next one."""
        if not worker.renewing or worker.sent.ids:
            reason = _death(exit_status)
            was_running = self._lose(worker, reason, clean_exit=exit_status == 0)
            lived = time.monotonic() - worker.started
            if self._early_deaths.add(was_running=was_running, lived=lived):
                raise BackendError(f"workers die as soon as they start: {reason}", hint=_TRY)
        self._restart(worker)

    def _replace_pool(self) -> None:
        """The supervisor is gone, and its workers with it: report the losses, start others.

        One of the tasks that ran may have killed it, but which one is unknown.
        """
        pool = self._pool
        pool.kill_all()
        busy = [w for w in pool.workers if self._lane_status.read(w.number).task != IDLE]
        for worker in pool.workers:
            self._lose(worker, "the supervisor of the workers died", shared=len(busy) > 1)
        lines = pool.last_lines()
        pool.close()
        lived = time.monotonic() - pool.started
        if self._early_deaths.add(was_running=bool(busy), lived=lived):
            message = "the supervisor of the workers dies as soon as it starts"
            raise BackendError(f"{message}: {lines}" if lines else message, hint=_TRY)
        self.notices.append("the supervisor of the workers died and was replaced")
        self._pool = self._new_pool()
        for worker in self._pool.workers:
            self._lane_status.clear(worker.number)
            worker.channel.send(JOB, self._encoded_job)

    def _lose(
        self, worker: WorkerHandle, reason: str, *, shared: bool = False, clean_exit: bool = False
    ) -> bool:
        """Read a dead worker's last reports and add its loss; whether it was running a task."""
        assert self._job is not None
        while self._read(worker):
            pass
        status, cause = self._lane_status.read(worker.number), LossCause.WORKER_DIED
        if worker.ending is not None:
            meant, cause, reason = worker.ending
            if meant != status:  # that task ended just in time; this one is not to blame
                status = status._replace(task=IDLE)
        spool, printed = self._spool(worker.number), None
        if status.task != IDLE:
            printed = salvage(spool, Path(self._job.folder), status.task, status.attempt)
        else:
            remove_spool(spool)
        self._ready.append(
            Loss.of(
                worker.number, status, cause, reason,
                printed=printed, shared=shared, clean_exit=clean_exit,
            )
        )  # fmt: skip
        return status.task != IDLE

    def _restart(self, worker: WorkerHandle) -> None:
        if not self._lane_status.path.exists():
            raise BackendError(
                f"can't start a worker: {self._lane_status.path} was removed during the run",
                hint="don't change the files of a yard that is in use; "
                "`runyard resume` runs the rest",
            )
        self._lane_status.clear(worker.number)
        with starting("a worker"):
            fresh = self._pool.fork(worker.number)
        fresh.channel.send(JOB, self._encoded_job)

    def _new_pool(self) -> WorkerPool:
        with starting():
            return WorkerPool(self.lanes, self._environment)

    def _spool(self, lane: int) -> Path:
        assert self._job is not None
        return Path(self._job.spool, f"{self._job.engine}-{lane}")


def _death(exit_status: int) -> str:
    if os.WIFSIGNALED(exit_status):
        number = os.WTERMSIG(exit_status)
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            return f"killed by signal {number}"
    if os.WEXITSTATUS(exit_status) == CHANNEL_CLOSED:
        return "closed the connection to the engine"
    return f"exited with code {os.WEXITSTATUS(exit_status)}"

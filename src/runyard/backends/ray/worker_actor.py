"""A worker actor: one lane of the engine, on the node where the driver starts it.

    driver ── order ──▶ orders ──┐ wakes it
    driver ── update ──────────▶ step: follow orders, poll ◀──▶ ProcessesBackend with one lane
    driver ◀── ActorUpdate ──────┘

The backend is driven by the calls for updates; only they and the other calls of their group, which
run one at a time, touch it. Orders have a group of their own and arrive while an update waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import queue
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from runyard.attempt.lane_status import IDLE, LaneStatusFile
from runyard.attempt.wire import Job, Loss, Report, decode_job
from runyard.backends.processes import ProcessesBackend, close_pools
from runyard.backends.ray import messages as wire
from runyard.backends.ray.archives import pack_tasks, unpack_project
from runyard.backends.ray.messages import (
    ActorOrder,
    ActorUpdate,
    EndAttempt,
    Environment,
    Failed,
    OpenReply,
    RunningAttempt,
    Stop,
)
from runyard.backends.ray.shared_files import (
    local_path,
    sees_project,
    sees_yard,
    version_mismatch,
)
from runyard.errors import RunyardError

POLL_SECONDS = 0.1
UPDATE_SECONDS = 2.0
"""The longest time between two updates, so that the driver knows that the actor lives."""

UPDATE_BYTES = 4 * 1024 * 1024
"""An update with more bytes is sent at once."""

PREFIX = "runyard-actor-"


_decode_unread = msgspec.msgpack.Decoder(
    tuple[int, int, int, Raw, Raw, Raw, Raw, float, bool, Raw, Raw]  # the fields of a `Report`
).decode


class OneWorkerBackend(ProcessesBackend):
    """A single lane; what its reports contain passes through unread."""

    decode = staticmethod(lambda data: Report._make(_decode_unread(bytes(data))))


class WorkerActor:
    """One lane, as Ray starts it on a node."""

    def __init__(self) -> None:
        self._home = os.getcwd()  # where Ray unpacked a `working_dir` from the network
        self._folder = _make_folder()
        self._orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_urgent = False  # the next update should not wait
        self._backend: ProcessesBackend | None = None
        self._lane_status: LaneStatusFile | None = None
        self._own_batch: Path | None = None  # the batch's files, if the yard is not seen from here
        self._has_limit = False  # of memory
        self._memory: int | None = None
        self._stopped = 0
        self._losses = 0  # workers that this batch has lost

    # Called while another call may run

    def order(self, order: bytes) -> None:
        """Take in an encoded ActorOrder, for the lane."""
        self._orders.put(order)
        self._wake()

    def hurry(self) -> None:
        """Let a waiting `update` return at once."""
        self._is_urgent = True
        self._wake()

    def _wake(self) -> None:
        backend = self._backend
        if backend is not None:
            backend.wake()

    # Called one after another

    def hello(self) -> str:
        """The name of this machine."""
        return platform.node()

    def open(self, lane: int, job: bytes, environment: bytes, code: bytes | None) -> bytes:
        """Prepare for a batch; returns an encoded OpenReply."""
        try:
            around = wire.decode_environment(environment)
            return wire.encode(self._open(lane, decode_job(job), around, code))
        except Exception as error:
            return wire.encode(OpenReply(failure=_failure(error)))

    def update(self, patience: float) -> bytes:
        """Work until something happens, while a task runs at most for `patience`; tell about it."""
        news, begun = ActorUpdate(), time.monotonic()
        try:
            while not self._step(news) and not self._is_urgent:
                waited = time.monotonic() - begun
                has_news = news.reports or self._running().task != IDLE
                if waited > UPDATE_SECONDS or (waited > patience and has_news):
                    break
        except Exception as error:  # such as a full disk, or a lost supervisor
            self.rest()
            news.failure = _failure(error)
            news.failure.message = f"on {platform.node()}: {news.failure.message}"
        self._is_urgent = False
        news.running, news.stopped, news.memory = self._running(), self._stopped, self._memory
        return wire.encode(news)

    def rest(self) -> None:
        """End the batch and the task that still runs."""
        backend, lane_status = self._backend, self._lane_status
        self._backend = self._lane_status = None
        if backend is not None:
            backend.close()
        if lane_status is not None:
            lane_status.close(remove=True)
        self._memory = None
        if self._own_batch is not None:
            shutil.rmtree(self._own_batch, ignore_errors=True)

    def leave(self) -> None:
        """End the batch, and clean up for good."""
        self.rest()
        close_pools()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self, lane: int, job: Job, environment: Environment, code: bytes | None) -> OpenReply:
        refusal = version_mismatch(environment)
        if refusal is not None:
            return OpenReply(failure=refusal)
        project_is_here = environment.inode is None or sees_project(environment)
        if not project_is_here and code is None:
            return OpenReply(needs_code=True)
        self.rest()
        if environment.fresh:
            close_pools()
        root, project = job.root, environment.project
        if environment.inode is None:
            root = project = self._home
        elif not project_is_here and code is not None:
            root = project = str(self._folder / "project")
            unpack_project(code, Path(project))
        folder = job.folder
        self._own_batch = None
        if not sees_yard(environment):
            self._own_batch = self._folder / "batch"
            self._own_batch.mkdir(exist_ok=True)
            folder = str(self._own_batch)
        self._lane_status = LaneStatusFile(self._folder / "lane_status", 1, create=True)
        self._orders = queue.SimpleQueue()
        self._losses, self._stopped, self._is_urgent = 0, 0, False
        self._has_limit = job.options.memory is not None
        self._backend = OneWorkerBackend(1, environment.variables)
        self._backend.open(
            msgspec.structs.replace(
                job,
                root=root,
                path=local_path(job.path, environment.project, project),
                folder=folder,
                files_travel=self._own_batch is not None,
                lane_status=str(self._lane_status.path),
                spool=str(self._folder),
                first_lane=lane,
            ),
            self._lane_status,
        )
        if job.options.recycle is not None:  # a warm worker has had a share of tasks
            self._backend.renew(0)
        return OpenReply()

    def _step(self, news: ActorUpdate) -> bool:
        """Follow orders, then wait a moment for reports; whether the news is to be told at once."""
        backend = self._backend
        if backend is None:  # it failed, and the engine does not know that yet
            time.sleep(POLL_SECONDS)
            return False
        stopped = self._stopped
        self._follow_orders(backend)
        found = backend.poll(0.0 if self._stopped > stopped else POLL_SECONDS)
        for each in found:
            if isinstance(each, Loss):
                self._losses += 1
                news.loss = each
            else:
                news.reports.append(each)
        if self._has_limit and self._running().task != IDLE:
            self._memory = backend.memory(0)
        if self._own_batch is not None and found:
            self._take_task_files(self._own_batch, news)
        while backend.notices:
            news.notices.append(f"on {platform.node()}: {backend.notices.popleft()}")
        # The end of a chunk lets the next one come; earlier results can wait a little.
        return bool(
            self._stopped > stopped or news.loss or news.notices
            or any(report.finished for report in news.reports)
            or sum(map(len, news.files)) + sum(map(_size, news.reports)) > UPDATE_BYTES
        )  # fmt: skip

    def _follow_orders(self, backend: ProcessesBackend) -> None:
        backend.room(0)  # has a worker that had its share of tasks replaced
        with contextlib.suppress(queue.Empty):
            while not backend.is_renewing(0):  # what follows is meant for the fresh worker
                self._follow(backend, wire.decode_actor_order(self._orders.get_nowait()))

    def _follow(self, backend: ProcessesBackend, order: ActorOrder) -> None:
        assert self._lane_status is not None
        if isinstance(order, Stop):
            self._lane_status.stop(0, order.chunk)
            self._stopped = order.chunk
        elif isinstance(order, EndAttempt):
            status = self._lane_status.read(0)
            if status[1:4] == (order.task, order.attempt, order.chunk):
                backend.end(0, status, order.cause, order.reason)
        elif order.losses == self._losses:  # else it was meant for a worker that is gone
            backend.send(0, order.chunk)

    def _running(self) -> RunningAttempt:
        if self._lane_status is None:
            return RunningAttempt(IDLE, 0, 0, 0.0)
        status = self._lane_status.read(0)
        return RunningAttempt(status.task, status.attempt, status.chunk, status.seconds)

    def _take_task_files(self, batch: Path, news: ActorUpdate) -> None:
        archive, too_large = pack_tasks(batch, lambda: self._running()[:2])
        if archive:
            news.files.append(archive)
        for folder in too_large:
            kept = Path(tempfile.mkdtemp(prefix="runyard-kept-"))
            shutil.move(folder, kept)
            task, attempt = folder.parent.name, folder.name
            news.notices.append(
                f"the files of task {task} are too large to send: they are on "
                f"{platform.node()} in {kept / attempt}"
            )


def _failure(error: Exception) -> Failed:
    if isinstance(error, RunyardError):
        return Failed(error.message, error.hint)
    return Failed(f"{type(error).__name__}: {error}")


def _size(report: Any) -> int:
    return sum(len(memoryview(each)) for each in (report.rows, report.failures, report.printed))


_locks: list[int] = []  # held while this process lives


def _make_folder() -> Path:
    """Make a folder for this actor; remove those of dead ones."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
    made = Path(tempfile.mkdtemp(prefix="runyard-new-"))
    descriptor = os.open(made / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _locks.append(descriptor)
    return made.rename(base / (PREFIX + made.name.removeprefix("runyard-new-")))

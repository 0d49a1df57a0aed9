"""A worker actor: one lane of the engine, on the node where the driver starts it.

    driver ── open, order … ──▶ orders ──▶ own thread ──▶ ProcessesBackend with one lane
    driver ◀── update ◀── items ◀──────────────┘

Orders and updates are calls of two concurrency groups with a thread each, so that orders keep their
order while an update waits. Only the actor's own thread touches the backend.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import queue
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from runyard.attempt.lane_status import IDLE, LaneStatusFile
from runyard.attempt.wire import Loss, Report, decode_chunk, decode_job
from runyard.backends.processes import ProcessesBackend, close_pools
from runyard.backends.ray import messages as wire
from runyard.backends.ray.archives import pack_tasks, unpack_project
from runyard.backends.ray.messages import (
    ActorUpdate,
    Environment,
    OpenReply,
    RayFailure,
    Running,
    TaskFiles,
    UpdateItem,
    UserNotice,
    WorkerLoss,
    WorkerReport,
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
"""About the most bytes of an update; what is more waits for the next."""

PREFIX = "runyard-actor-"


class _UnreadReport(NamedTuple):
    """A report whose rows are passed on undecoded."""

    lane: int
    chunk: int
    done: int
    rows: msgspec.Raw
    failures: msgspec.Raw
    printed: msgspec.Raw
    emitted: msgspec.Raw
    seconds: float
    finished: bool
    change: msgspec.Raw
    system_failure: msgspec.Raw


_decode_unread = msgspec.msgpack.Decoder(_UnreadReport).decode


class OneWorkerBackend(ProcessesBackend):
    """A single lane; reports pass through unread."""

    decode = staticmethod(lambda data: cast("Report", _decode_unread(bytes(data))))


class WorkerActor:
    """One lane, as Ray starts it on a node."""

    def __init__(self) -> None:
        self._home = os.getcwd()  # where Ray unpacked a `working_dir` from the network
        self._folder = _make_folder()
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._items: deque[tuple[int, UpdateItem]] = deque()  # with their approximate sizes
        self._changed = threading.Condition()
        self._urgent = False  # the next update should not wait
        self._backend: ProcessesBackend | None = None
        self._lane_status: LaneStatusFile | None = None
        self._own_batch: Path | None = None  # the batch's files, if the yard is not seen from here
        self._has_limit = False  # of memory
        self._memory: int | None = None
        self._stopped = 0
        self._generation = 0
        threading.Thread(target=self._work, daemon=True, name="runyard-actor").start()

    # Called by the driver

    def hello(self) -> str:
        """The name of this machine."""
        return platform.node()

    def open(
        self, lane: int, generation: int, job: bytes, environment: bytes, code: bytes | None
    ) -> bytes:
        """Prepare for a batch; returns an encoded OpenReply."""
        answer: queue.SimpleQueue[OpenReply] = queue.SimpleQueue()
        around = wire.decode_environment(environment)

        def act() -> None:
            try:
                answer.put(self._open(lane, generation, job, around, code))
            except RunyardError as error:
                answer.put(OpenReply(error=error.message, hint=error.hint or ""))
            except Exception as error:
                answer.put(OpenReply(error=f"{type(error).__name__}: {error}"))

        self._order(act)
        return wire.encode(answer.get())

    def order(self, kind: bytes, number: int, content: bytes) -> None:
        """Handle a message for the lane."""
        self._order(partial(self._handle, kind, number, content))

    def update(self, patience: float) -> bytes:
        """What happened; waits until something does, and while a task runs at most `patience`."""
        begun = time.monotonic()
        with self._changed:
            while not self._urgent:
                waited = time.monotonic() - begun
                has_news = self._items or self._running().task != IDLE
                if waited > UPDATE_SECONDS or (waited > patience and has_news):
                    break
                self._changed.wait(min(patience, 0.1))
            items, size = [], 0
            while self._items and size < UPDATE_BYTES:
                more, item = self._items.popleft()
                size += more
                items.append(item)
            self._urgent = bool(self._items)
            return wire.encode(
                ActorUpdate(self._generation, items, self._running(), self._stopped, self._memory)
            )

    def rest(self) -> None:
        """End the batch and the task that still runs."""
        done = threading.Event()

        def act() -> None:
            try:
                self._close()
            finally:
                done.set()

        self._order(act)
        done.wait()

    def leave(self) -> None:
        """End the batch, and clean up for good."""
        self.rest()
        close_pools()
        shutil.rmtree(self._folder, ignore_errors=True)

    # The actor's own thread

    def _order(self, act: Callable[[], object]) -> None:
        self._orders.put(act)
        backend = self._backend
        if backend is not None:
            backend.wake()

    def _work(self) -> None:
        while True:
            try:
                self._step()
            except Exception as error:  # such as a full disk, or a lost supervisor
                self._close()
                message = getattr(error, "message", f"{type(error).__name__}: {error}")
                hint = getattr(error, "hint", None)
                self._add(RayFailure(f"on {platform.node()}: {message}", hint))

    def _step(self) -> None:
        with contextlib.suppress(queue.Empty):
            if self._backend is None:
                self._orders.get()()
            # Orders that follow one for a fresh worker are meant for that worker.
            while self._backend is None or not self._backend.is_renewing(0):
                self._orders.get_nowait()()
        if self._backend is not None:
            self._poll(self._backend)

    def _poll(self, backend: ProcessesBackend) -> None:
        found = backend.poll(POLL_SECONDS)
        if self._has_limit and self._running().task != IDLE:
            self._memory = backend.memory(0)
        if self._own_batch is not None and found:
            self._add_task_files(self._own_batch)
        for each in found:
            if isinstance(each, Loss):
                self._generation += 1
                self._add(WorkerLoss(each))
            else:
                # The end of a chunk lets the next one come; earlier results can wait a little.
                size = _size(each)
                self._add(WorkerReport(each), size, urgent=each.finished or size > UPDATE_BYTES)

    def _open(
        self, lane: int, generation: int, job: bytes, environment: Environment, code: bytes | None
    ) -> OpenReply:
        refusal = version_mismatch(environment)
        if refusal is not None:
            return refusal
        wanted = decode_job(job)
        project_is_here = environment.inode is None or sees_project(environment)
        if not project_is_here and code is None:
            return OpenReply(needs_code=True)
        self._close()
        if environment.fresh:
            close_pools()
        root, project = wanted.root, environment.project
        if environment.inode is None:
            root = project = self._home
        elif not project_is_here and code is not None:
            root = project = str(self._folder / "project")
            unpack_project(code, Path(project))
        folder = wanted.folder
        self._own_batch = None
        if not sees_yard(environment):
            self._own_batch = self._folder / "batch"
            self._own_batch.mkdir(exist_ok=True)
            folder = str(self._own_batch)
        self._lane_status = LaneStatusFile(self._folder / "lane_status", 1, create=True)
        self._generation, self._stopped, self._urgent = generation, 0, False
        self._has_limit = wanted.memory is not None
        backend = OneWorkerBackend(1, environment.variables)
        backend.open(
            msgspec.structs.replace(
                wanted,
                root=root,
                path=local_path(wanted.path, environment.project, project),
                folder=folder,
                lane_status=str(self._lane_status.path),
                spool=str(self._folder),
                first_lane=lane,
            ),
            self._lane_status,
        )
        self._backend = backend
        return OpenReply()

    def _handle(self, kind: bytes, number: int, content: bytes) -> None:
        backend, lane_status = self._backend, self._lane_status
        if backend is None or lane_status is None:
            return
        if kind == wire.CHUNK:
            if number == self._generation:  # else it was meant for a worker that is gone
                backend.send(0, decode_chunk(content))
        elif kind == wire.RENEW:
            backend.renew(0)
        elif kind == wire.STOP:
            lane_status.stop(0, number)
            with self._changed:
                self._stopped, self._urgent = number, True
                self._changed.notify()
        elif kind == wire.END:
            meant = wire.decode_end_request(content)
            status = lane_status.read(0)
            if (status.task, status.attempt, status.chunk) == (
                meant.task, meant.attempt, meant.chunk,
            ):  # fmt: skip
                backend.end(0, status, meant.cause, meant.reason)

    def _close(self) -> None:
        backend, lane_status = self._backend, self._lane_status
        self._backend = self._lane_status = None
        if backend is not None:
            backend.close()
        if lane_status is not None:
            lane_status.close(remove=True)
        with self._changed:
            self._items.clear()
            self._memory = None
        if self._own_batch is not None:
            shutil.rmtree(self._own_batch, ignore_errors=True)

    def _running(self) -> Running:
        lane_status = self._lane_status
        if lane_status is None:
            return Running(IDLE, 0, 0, 0.0)
        try:
            status = lane_status.read(0)
        except ValueError:  # closed meanwhile
            return Running(IDLE, 0, 0, 0.0)
        return Running(status.task, status.attempt, status.chunk, status.seconds)

    def _add(self, item: UpdateItem, size: int = 1000, *, urgent: bool = True) -> None:
        with self._changed:
            self._items.append((size, item))
            self._urgent |= urgent
            if self._urgent:
                self._changed.notify()

    def _add_task_files(self, batch: Path) -> None:
        """Send the files of ended tasks, ahead of the reports that they ended."""
        archive, too_large = pack_tasks(batch, lambda: self._running()[:2])
        if archive:
            self._add(TaskFiles(archive), len(archive))
        for folder in too_large:
            kept = Path(tempfile.mkdtemp(prefix="runyard-kept-"))
            shutil.move(folder, kept)
            task, attempt = folder.parent.name, folder.name
            self._add(
                UserNotice(
                    f"the files of task {task} are too large to send: they are on "
                    f"{platform.node()} in {kept / attempt}"
                )
            )


def _size(report: Any) -> int:
    parts = report.rows, report.failures, report.printed
    return sum(len(memoryview(part)) for part in parts) + 1000


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

"""A station: the actor that is one lane of the engine, on whatever node Ray seats it.

    bridge ── open, order … ──▶ orders ──▶ own thread ──▶ ProcessesBackend with one lane
    bridge ◀── news ◀── items ◀──────────────┘

Orders and news are calls of two concurrency groups with a thread each, so that orders keep their
order and news can wait. Everything that touches the backend happens in the station's own thread.
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
from runyard.backends.ray import frames
from runyard.backends.ray.frames import (
    CHUNK,
    END,
    RENEW,
    STOP,
    Failed,
    Files,
    Item,
    Lost,
    Reported,
    Running,
    Surroundings,
    Tidings,
    Trouble,
    Welcome,
    Word,
)
from runyard.backends.ray.sight import mismatch, path_here, sees_project, sees_yard
from runyard.backends.ray.travel import pack_tasks, unpack_project
from runyard.errors import RunyardError

POLL_SECONDS = 0.1
LONGEST_WAIT = 2.0
"""News come at least so often, so that a bridge knows that the station lives."""

NEWS_BYTES = 4 * 1024 * 1024
"""About so much goes into one answer; what is more waits for the next."""

PREFIX = "runyard-station-"


class _Skimmed(NamedTuple):
    """A report whose rows nobody looks at on the way."""

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
    trouble: msgspec.Raw


_skim = msgspec.msgpack.Decoder(_Skimmed).decode


class OneLane(ProcessesBackend):
    """The lane; reports pass through unread."""

    decode = staticmethod(lambda data: cast("Report", _skim(bytes(data))))


class Station:
    """One lane, as Ray starts it on a node."""

    def __init__(self) -> None:
        self._home = os.getcwd()  # where Ray unpacked a `working_dir` from the network
        self._folder = _own_folder()
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._items: deque[tuple[int, Item]] = deque()  # with about their size
        self._said = threading.Condition()
        self._urgent = False
        self._backend: ProcessesBackend | None = None
        self._slots: LaneStatusFile | None = None
        self._far: Path | None = None  # the batch's files, where the yard is not to be seen
        self._limited = False
        self._memory: int | None = None
        self._stopped = 0
        self._life = 0
        threading.Thread(target=self._work, daemon=True, name="runyard-station").start()

    # Called by the bridge

    def hello(self) -> str:
        """The name of the machine that this is."""
        return platform.node()

    def open(
        self, lane: int, life: int, job: bytes, surroundings: bytes, code: bytes | None
    ) -> bytes:
        """Get ready for a batch; a Welcome."""
        answer: queue.SimpleQueue[Welcome] = queue.SimpleQueue()
        around = msgspec.msgpack.decode(surroundings, type=Surroundings)

        def act() -> None:
            try:
                answer.put(self._open(lane, life, job, around, code))
            except RunyardError as error:
                answer.put(Welcome(error=error.message, hint=error.hint or ""))
            except Exception as error:
                answer.put(Welcome(error=f"{type(error).__name__}: {error}"))

        self._order(act)
        return frames.encode(answer.get())

    def order(self, kind: bytes, number: int, content: bytes) -> None:
        """Something for the lane."""
        self._order(partial(self._obey, kind, number, content))

    def news(self, patience: float) -> bytes:
        """What there is to say; waits for something, while a task runs not longer than so."""
        begun = time.monotonic()
        with self._said:
            while not self._urgent:
                waited = time.monotonic() - begun
                has_news = self._items or self._running().task != IDLE
                if waited > LONGEST_WAIT or (waited > patience and has_news):
                    break
                self._said.wait(min(patience, 0.1))
            items, size = [], 0
            while self._items and size < NEWS_BYTES:
                more, item = self._items.popleft()
                size += more
                items.append(item)
            self._urgent = bool(self._items)
            told = Tidings(self._life, items, self._running(), self._stopped, self._memory)
        return frames.encode(told)

    def rest(self) -> None:
        """The batch is over; whatever still runs is ended."""
        done = threading.Event()

        def act() -> None:
            try:
                self._close()
            finally:
                done.set()

        self._order(act)
        done.wait()

    def leave(self) -> None:
        """The station is not needed any more."""
        self.rest()
        close_pools()
        shutil.rmtree(self._folder, ignore_errors=True)

    # The station's own thread

    def _order(self, act: Callable[[], object]) -> None:
        self._orders.put(act)
        backend = self._backend
        if backend is not None:
            backend.wake()

    def _work(self) -> None:
        while True:
            try:
                self._step()
            except Exception as error:  # a disk that is full, a supervisor that is gone
                self._close()
                told = getattr(error, "message", f"{type(error).__name__}: {error}")
                hint = getattr(error, "hint", None)
                self._say(Failed(Trouble(f"on {platform.node()}: {told}", hint)))

    def _step(self) -> None:
        with contextlib.suppress(queue.Empty):
            if self._backend is None:
                self._orders.get()()
            # What comes after an order for a fresh worker is meant for that one.
            while self._backend is None or not self._backend.is_renewing(0):
                self._orders.get_nowait()()
        if self._backend is not None:
            self._poll(self._backend)

    def _poll(self, backend: ProcessesBackend) -> None:
        found = backend.poll(POLL_SECONDS)
        if self._limited and self._running().task != IDLE:
            self._memory = backend.memory(0)
        if self._far is not None and found:
            self._bring_files(self._far)
        for each in found:
            if isinstance(each, Loss):
                self._life += 1
                self._say(Lost(each))
            else:
                # A chunk's end lets the next one come; what it brought before can wait a little.
                size = _size(each)
                self._say(Reported(each), size, urgent=each.finished or size > NEWS_BYTES)

    def _open(
        self, lane: int, life: int, job: bytes, around: Surroundings, code: bytes | None
    ) -> Welcome:
        differs = mismatch(around)
        if differs is not None:
            return differs
        wanted = decode_job(job)
        project_is_here = around.mark is None or sees_project(around)
        if not project_is_here and code is None:
            return Welcome(needs_code=True)
        self._close()
        if around.fresh:
            close_pools()
        root, project = wanted.root, around.project
        if around.mark is None:
            root = project = self._home
        elif not project_is_here and code is not None:
            root = project = str(self._folder / "project")
            unpack_project(code, Path(project))
        folder = wanted.folder
        self._far = None
        if not sees_yard(around):
            self._far = self._folder / "batch"
            self._far.mkdir(exist_ok=True)
            folder = str(self._far)
        self._slots = LaneStatusFile(self._folder / "lane_status", 1, create=True)
        self._life, self._stopped, self._urgent = life, 0, False
        self._limited = wanted.memory is not None
        backend = OneLane(1, around.environment)
        backend.open(
            msgspec.structs.replace(
                wanted,
                root=root,
                path=path_here(wanted.path, around.project, project),
                folder=folder,
                lane_status=str(self._slots.path),
                spool=str(self._folder),
                first_lane=lane,
            ),
            self._slots,
        )
        self._backend = backend
        return Welcome()

    def _obey(self, kind: bytes, number: int, content: bytes) -> None:
        backend, lane_status = self._backend, self._slots
        if backend is None or lane_status is None:
            return
        if kind == CHUNK:
            if number == self._life:  # else it was meant for a worker that is gone
                backend.send(0, decode_chunk(content))
        elif kind == RENEW:
            backend.renew(0)
        elif kind == STOP:
            lane_status.stop(0, number)
            with self._said:
                self._stopped, self._urgent = number, True
                self._said.notify()
        elif kind == END:
            ending = frames.decode_ending(content)
            note = lane_status.read(0)
            if (note.task, note.attempt, note.chunk) == (ending.task, ending.attempt, ending.chunk):
                backend.end(0, note, ending.cause, ending.reason)

    def _close(self) -> None:
        backend, lane_status = self._backend, self._slots
        self._backend = self._slots = None
        if backend is not None:
            backend.close()
        if lane_status is not None:
            lane_status.close(remove=True)
        with self._said:
            self._items.clear()
            self._memory = None
        if self._far is not None:
            shutil.rmtree(self._far, ignore_errors=True)

    def _running(self) -> Running:
        lane_status = self._slots
        if lane_status is None:
            return Running(IDLE, 0, 0, 0.0)
        try:
            note = lane_status.read(0)
        except ValueError:  # closed meanwhile
            return Running(IDLE, 0, 0, 0.0)
        return Running(note.task, note.attempt, note.chunk, note.seconds)

    def _say(self, item: Item, size: int = 1000, *, urgent: bool = True) -> None:
        with self._said:
            self._items.append((size, item))
            self._urgent |= urgent
            if self._urgent:
                self._said.notify()

    def _bring_files(self, batch: Path) -> None:
        """Send what ended tasks left, ahead of the reports that they ended."""
        archive, too_large = pack_tasks(batch, lambda: self._running()[:2])
        if archive:
            self._say(Files(archive), len(archive))
        for folder in too_large:
            kept = Path(tempfile.mkdtemp(prefix="runyard-kept-"))
            shutil.move(folder, kept)
            task, attempt = folder.parent.name, folder.name
            self._say(
                Word(
                    f"what task {task} left is too large to be sent: it is on "
                    f"{platform.node()} in {kept / attempt}"
                )
            )


def _size(report: Any) -> int:
    parts = report.rows, report.failures, report.printed
    return sum(len(memoryview(part)) for part in parts) + 1000


_locks: list[int] = []  # held as long as this process lives


def _own_folder() -> Path:
    """A folder for this station; those that dead ones left are removed."""
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

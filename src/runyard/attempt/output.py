"""What tasks print, kept per attempt: in the store if it is short, else in files.

    stdout, stderr ──▶ at most 64 KiB: a `Printed`, which travels beside the outcome
                 └───▶ more: tasks/<task>/<attempt>/stdout, or stderr

In a worker process, descriptors 1 and 2 point to spool files, which also catch the output of C code
and child processes; after each task they are emptied. In the engine's own process only the output
of Python code can be attributed to a task, by the context in which it is printed.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Self, TextIO

from runyard.attempt import forked
from runyard.attempt.descriptors import out_of_the_way
from runyard.attempt.kept import STREAMS, clipped, filed, part
from runyard.attempt.system_failure import SYSTEM_ERRORS, AttemptAborted, SystemFailure
from runyard.errors import EngineError
from runyard.spaces import clear_errors
from runyard.spec.outcome import Printed


class OutputCapture:
    """Keeps nothing; the base class of those that do."""

    quick = math.inf
    """After a shorter task, `end` is needed only if `written` is not empty."""

    written: set[bool] = set()  # noqa: RUF012

    failure: SystemFailure | None = None
    """Why the last task's output could not be kept."""

    def begin(self) -> None:
        """A task is about to start."""

    def end(self, batch: Path, task: int, attempt: int) -> Printed | None:  # noqa: ARG002
        """A task has ended. Returns what it printed."""
        return None

    def so_far(self, batch: Path, task: int, attempt: int) -> Printed | None:  # noqa: ARG002
        """What an abandoned task has printed so far."""
        return None


class SpoolOutput(OutputCapture):
    """Descriptors 1 and 2 of a worker process, redirected to spool files."""

    LEARNING = 200
    """After this many tasks, short ones are no longer checked for output that bypasses Python."""

    def __init__(self, spool: Path) -> None:
        self.written = touched
        self.quick = -1.0
        self._seen = 0
        self._bypasses_python = False
        self._spool = spool
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        files = [os.open(path, flags, 0o600) for path in _spool_files(spool)]
        self._descriptors = [out_of_the_way(descriptor) for descriptor in files]
        self._before = [(number, out_of_the_way(os.dup(number))) for number in (1, 2)]
        for number, name, descriptor in zip((1, 2), STREAMS, self._descriptors, strict=True):
            os.dup2(descriptor, number)
            setattr(sys, name, _own_stream(number))
        touched.clear()
        _unwritten.clear()

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that tasks must not close or replace."""
        return [1, 2, *self._descriptors]

    def end(self, batch: Path, task: int, attempt: int) -> Printed | None:
        printed = None
        by_python = bool(touched)
        if by_python or (self._seen < self.LEARNING and not _are_in_place()):
            touched.clear()
            _put_back_streams()
        out, err = self._descriptors
        if os.lseek(out, 0, os.SEEK_END) or os.lseek(err, 0, os.SEEK_END):
            try:
                texts = [_read(descriptor) for descriptor in self._descriptors]
                for descriptor, text in zip(self._descriptors, texts, strict=True):
                    if text:
                        os.ftruncate(descriptor, 0)
                printed = filed(texts, batch, task, attempt, strict=True)
            except EngineError as error:
                self.failure = SystemFailure.of(error)
            self._bypasses_python |= not by_python
        if _unwritten:
            self.failure = SystemFailure.of(_unwritten[0])
            _unwritten.clear()
        self._seen += 1
        # Too short to have started a process, and no task bypassed Python: trust the flag.
        learnt = self._seen > self.LEARNING and not self._bypasses_python
        self.quick = 0.0002 if learnt else -1.0
        return printed

    def close(self) -> None:
        """Restore the descriptors, and remove the spool."""
        remove_spool(self._spool)
        for number, before in self._before:
            os.dup2(before, number)
            os.close(before)
        for descriptor in self._descriptors:
            os.close(descriptor)


_unwritten: list[EngineError] = []
"""Errors of writes to the spool."""


touched: set[bool] = set()
"""Not empty: the task printed something or changed its directory, and needs cleaning up."""


# Never discarded: a thread may be inside `print` while sys.stdout is replaced.
_streams: dict[int, io.TextIOWrapper] = {}


class _Bytes(io.BufferedWriter):
    def write(self, data: Any, /) -> int:
        touched.add(True)
        return super().write(data)


class _Raw(io.FileIO):
    """The spool as Python writes to it: a full disk must not fail the task."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in SYSTEM_ERRORS:
                raise
            try:
                with clear_errors("keep its output"):
                    raise
            except EngineError as failure:
                _unwritten.append(failure)
            return len(data)  # else Python would write it again, into the next task's output


class _Text(io.TextIOWrapper):
    """A stream on a descriptor that notes when it is written to."""

    def __init__(self, number: int) -> None:
        raw = _Raw(number, "wb", closefd=False)
        super().__init__(_Bytes(raw), "utf-8", "backslashreplace", line_buffering=True)

    def close(self) -> None:
        """Only flush: the stream outlives a task that closes it."""
        self.flush()

    def write(self, text: str, /) -> int:
        touched.add(True)
        return super().write(text)


def _own_stream(number: int) -> io.TextIOWrapper:
    """The stream on a descriptor; a new one if a task closed or detached the old one."""
    with contextlib.suppress(KeyError, ValueError):  # ValueError: detached
        if not _streams[number].closed:
            return _streams[number]
    _streams[number] = _Text(number)
    return _streams[number]


def _are_in_place() -> bool:
    """Whether the streams are ours, and open."""
    with contextlib.suppress(AttributeError, KeyError, ValueError):  # ValueError: detached
        out, err = _streams[1], _streams[2]
        return sys.stdout is out and sys.stderr is err and not (out.closed or err.closed)
    return False


def _put_back_streams() -> None:
    """Flush the task's streams, and restore ours for the next task."""
    for number, name in enumerate(STREAMS, start=1):
        own = _own_stream(number)
        for stream in (getattr(sys, name, None), own):
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]
        setattr(sys, name, own)


class ChildStream:
    """The file that a child process prints to, kept even if this process dies.

    In a worker it is the spool. Elsewhere it is a temporary file, which is printed when the child
    ends, or read by the lane if its task is abandoned before.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._stream = getattr(sys, name)
        self._spooled = isinstance(self._stream, _Text)
        if self._spooled:
            self._stream.flush()
            self.descriptor = os.dup(self._stream.fileno())
        else:
            try:
                with tempfile.TemporaryFile() as file:
                    self.descriptor = os.dup(file.fileno())
            except OSError as error:
                raise AttemptAborted(
                    SystemFailure(f"can't create a file for its output: {error}")
                ) from error
        self._start = os.lseek(self.descriptor, 0, os.SEEK_END)
        self._lane = _lane_here() if isinstance(self._stream, _Router) else None
        if self._lane is not None:
            self._lane.children.append(self)

    def text(self) -> str:
        """What the child has printed so far."""
        size = os.fstat(self.descriptor).st_size - self._start
        return os.pread(self.descriptor, size, self._start).decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.nullcontext() if self._lane is None else self._lane.reading:
            try:
                if self._lane is not None:
                    self._lane.children.remove(self)
                if not self._spooled and self._stream is not None:
                    self._stream.write(self.text())
            finally:
                os.close(self.descriptor)


def _spool_files(spool: Path) -> list[Path]:
    """The spool's files, one for each stream."""
    return [spool.with_name(f"{spool.name}.{name}") for name in STREAMS]


def salvage(spool: Path, batch: Path, task: int, attempt: int) -> Printed | None:
    """After a worker's death: what its task printed. Removes the spool."""
    texts = [b"", b""]
    try:
        for at, path in enumerate(_spool_files(spool)):
            with path.open("rb") as file:
                texts[at] = _read(file.fileno())
    except FileNotFoundError:  # it died before it had a spool
        pass
    finally:
        remove_spool(spool)
    return filed(texts, batch, task, attempt, strict=False)


def remove_spool(spool: Path) -> None:
    """Remove the spool's files."""
    for path in _spool_files(spool):
        path.unlink(missing_ok=True)


def _read(descriptor: int) -> bytes:
    """What a spool file holds."""
    size = os.fstat(descriptor).st_size
    return clipped(partial(os.pread, descriptor), size) if size else b""


class StreamOutput(OutputCapture):
    """What Python prints inside one lane of the engine's own process."""

    quick = -1.0

    def __init__(self) -> None:
        self.kept: dict[str, io.StringIO] = {}
        self.children: list[ChildStream] = []
        self.reading = threading.Lock()  # a child's output is in its file, or in `kept`
        self.pid = forked.pid
        self._before: StreamOutput | None = None

    def begin(self) -> None:
        if self.kept:
            self.kept = {}
        self._before = _lane.get()
        _lane.set(self)

    def end(self, batch: Path, task: int, attempt: int) -> Printed | None:
        _lane.set(self._before)  # that of the task that this one runs inside, if any
        if not self.kept:
            return None
        try:
            return filed(self._texts(), batch, task, attempt, strict=True)
        except EngineError as error:
            self.failure = SystemFailure.of(error)
            return None

    def so_far(self, batch: Path, task: int, attempt: int) -> Printed | None:
        return filed(self._texts(), batch, task, attempt, strict=False)

    def _texts(self) -> list[bytes]:
        with self.reading:
            texts = [self._text(name).encode("utf-8", "backslashreplace") for name in STREAMS]
        return [clipped(partial(part, text), len(text)) for text in texts]

    def _text(self, name: str) -> str:
        kept = self.kept.get(name)
        running = [child.text() for child in self.children if child.name == name]
        return "".join([kept.getvalue() if kept is not None else "", *running])


_lane: ContextVar[StreamOutput | None] = ContextVar("runyard_output", default=None)


def _lane_here() -> StreamOutput | None:
    """The lane that this code runs in; None in a forked child, whose output can't be gathered."""
    lane = _lane.get()
    return None if lane is None or lane.pid != forked.pid else lane


class _Router:
    """Stands for sys.stdout or sys.stderr, and passes each text to the lane that printed it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.original: TextIO | None = None  # None: this process has no such stream

    def write(self, text: str) -> int:
        lane = _lane_here()
        if lane is None:
            return len(text) if self.original is None else self.original.write(text)
        return lane.kept.setdefault(self._name, io.StringIO()).write(text)

    def close(self) -> None:
        """Only flush: the stream outlives a task that closes it."""
        self.flush()

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if _lane_here() is None and self.original is not None:
            self.original.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


_routing = threading.Lock()
_routed = 0
_routers = {name: _Router(name) for name in STREAMS}  # never discarded, like `_streams`


@contextlib.contextmanager
def routed() -> Iterator[None]:
    """Attribute output to the lanes of this process while this context is active."""
    global _routed
    with _routing:
        if _routed == 0:
            for name, router in _routers.items():
                router.original = getattr(sys, name)
                setattr(sys, name, router)
        _routed += 1
    try:
        yield
    finally:
        with _routing:
            _routed -= 1
            if _routed == 0:
                for name, router in _routers.items():
                    setattr(sys, name, router.original)


def _flush_before_a_fork() -> None:
    """Buffered text would otherwise be printed by the child, too."""
    if _streams or _routed:
        for stream in (*_streams.values(), sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]


os.register_at_fork(before=_flush_before_a_fork)

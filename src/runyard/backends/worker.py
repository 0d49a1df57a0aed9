"""A worker process: one lane, from its channel's first byte to its last.

engine ── job, chunk, chunk … ──▶ main thread: runs tasks, fills the outbox
engine ◀── report, report … ────  whoever comes first: the main thread between two tasks,
                                  or the flusher while a task takes long
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import socket
import struct
import sys
import threading
from collections import deque
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from runyard.attempt.context import enter, follow_threads
from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.output import Output, SpoolOutput, touched
from runyard.attempt.runner import Program, Result, Runner
from runyard.attempt.slots import Slots
from runyard.attempt.wire import (
    Chunk,
    Completed,
    Emission,
    Failure,
    Job,
    Report,
    decode_chunk,
    decode_job,
    encode_report,
)
from runyard.backends import tree
from runyard.spec.outcome import WIDTH, Printed

FLUSH_SECONDS = 0.05
"""How often a lane reports at least; a little more than a chunk takes, which reports by itself."""

LOOK_SECONDS = 0.0005
"""So long may tasks go on before the worker looks whether it should stop."""

LENGTH = struct.Struct("<I")
LARGEST = (1 << 32) - 1
"""Bytes of a report; what a lane has to say beyond that goes into further ones."""

JOB, CHUNK, REST = b"J", b"C", b"R"


class Outbox:
    """What the lane has to say, sent every few tens of milliseconds."""

    def __init__(self, channel: socket.socket, lane: int) -> None:
        self._channel = channel
        self._lane = lane
        self._sending = threading.Lock()
        self._busy = threading.Event()
        self._results: deque[Result] = deque()
        self._emitted: deque[Emission] = deque()
        self._chunk = 0
        self._done = 0
        self._warden = os.getppid()
        self.result = self._results.append
        self.flush_at = 0.0  # when what is here should be sent
        threading.Thread(target=self._flush_late, daemon=True, name="runyard-flush").start()

    def begin(self, chunk: int) -> None:
        """What comes now belongs to this chunk."""
        self._chunk = chunk
        self._done = 0
        self._busy.set()

    def emit(self, emission: Emission) -> None:
        """The running task has something to tell."""
        self._emitted.append(emission)

    def finish(self) -> None:
        """Nothing more comes of this chunk."""
        self._busy.clear()
        self.flush(finished=True)

    def flush(self, *, finished: bool = False) -> None:
        """Send what is here."""
        with self._sending, beyond_the_limit():
            # The results first: what their tasks emitted is here by then.
            results, emitted = list(self._results), list(self._emitted)
            if results or emitted or finished:
                self._send_in_parts(results, emitted, finished)
            self.flush_at = perf_counter() + FLUSH_SECONDS

    def _send(self, results: list[Result], emitted: list[Emission], finished: bool) -> None:
        """One report, after which this is here no more."""
        rows: list[Any] = []
        failures: list[Failure] = []
        printed: list[Printed] = []
        for result in results:
            if type(result) is tuple:
                rows += result
            elif isinstance(result, Completed):
                rows += result.row
                printed.append(result.printed)
            else:
                failures.append(result)  # type: ignore[arg-type]
        done = self._done + len(results)
        seconds = sum(rows[6::WIDTH]) + sum(f.row.seconds for f in failures)
        data = encode_report(
            Report(
                self._lane, self._chunk, done, rows, failures, printed, emitted, seconds, finished
            )
        )
        if len(data) > LARGEST:
            raise MemoryError
        self._channel.sendall(LENGTH.pack(len(data)))
        self._channel.sendall(data)
        self._done = done
        _drop(self._results, len(results))
        _drop(self._emitted, len(emitted))

    def _send_in_parts(
        self, results: list[Result], emitted: list[Emission], finished: bool
    ) -> None:
        """As one report, or where there is no room for that as several; what was emitted first."""
        try:
            self._send(results, emitted, finished)
        except MemoryError:
            if len(results) + len(emitted) < 2:
                raise
            half, part = len(results) // 2, (len(emitted) + 1) // 2
            if emitted:
                self._send_in_parts([], emitted[:part], False)
                self._send_in_parts(results, emitted[part:], finished)
            else:
                self._send_in_parts(results[:half], [], False)
                self._send_in_parts(results[half:], [], finished)

    def _flush_late(self) -> None:
        """Send what waits while the main thread is busy with a task; see that the warden lives."""
        while True:
            self._busy.wait()
            sleep(FLUSH_SECONDS)
            if os.getppid() != self._warden:  # it was killed, and the engine maybe too
                tree.kill_below(os.getpid())
                os._exit(1)
            if self._busy.is_set() and perf_counter() >= self.flush_at:
                # What could not be sent stays; the main thread tries again, and may fail by it.
                with contextlib.suppress(Exception):
                    self.flush()


def _drop(things: deque[Any], count: int) -> None:
    """Take so many from the front of a deque that another thread appends to."""
    for _ in range(count):
        things.popleft()


class Worker:
    """The main thread's side."""

    def __init__(self, lane: int, channel: socket.socket) -> None:
        self._lane = lane
        self._channel = channel
        self._outbox = Outbox(channel, lane)
        self._spool: SpoolOutput | None = None
        self._slots: Slots | None = None
        self._runner: Runner | None = None
        self._limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_DATA,)}

    def serve(self) -> None:
        """Take messages until the channel closes."""
        while (message := self._receive()) is not None:
            kind, content = message[:1], message[1:]
            if kind == CHUNK:
                self._run(decode_chunk(content))
            elif kind == JOB:
                self._begin(decode_job(content))
            else:
                self._rest()

    def _begin(self, job: Job) -> None:
        self._rest()
        for place in reversed(job.path):
            if place not in sys.path:
                sys.path.insert(0, place)
        with contextlib.suppress(OSError):
            os.chdir(job.root)
        try:
            self._slots = Slots(Path(job.slots), 0, create=False)
        except FileNotFoundError:  # the batch ended before this worker began
            return
        if job.capture:
            self._spool = SpoolOutput(Path(job.spool, f"{job.engine}-{self._lane}"))
        output = self._spool or Output()
        self._runner = Runner(
            Program(job), self._lane, self._slots, output, self._outbox.emit, home=os.getcwd()
        )
        enter(self._runner)
        self._limit_memory(job.memory)

    def _run(self, chunk: Chunk) -> None:
        assert self._runner is not None
        assert self._slots is not None
        runner, outbox, lane = self._runner, self._outbox, self._lane
        run, result, stopped = runner.run, outbox.result, self._slots.stopped
        outbox.begin(chunk.id)
        looked = -1.0
        for work in runner.program.work(chunk):
            if runner.ended - looked > LOOK_SECONDS:
                looked = runner.ended
                if stopped(lane) >= chunk.id:
                    break
            result(run(work, chunk.id))
            if runner.ended >= outbox.flush_at:
                self._slots.idle(lane)  # while the report waits for the engine, no task runs
                outbox.flush()
        self._slots.idle(lane)
        outbox.finish()

    def _rest(self) -> None:
        """The batch is over: nothing of it stays behind in this process."""
        if self._runner is not None:
            self._runner.rest()
            self._runner = None
            enter(None)
            tree.kill_below(os.getpid())
        if self._spool is not None:
            self._spool.close(remove=True)
            self._spool = None
        if self._slots is not None:
            self._slots.close()
            self._slots = None
        self._limit_memory(None)

    def _limit_memory(self, extra: int | None) -> None:
        """Let a task use so much beyond what the idle worker uses."""
        for kind, (soft, hard) in self._limits.items():
            wanted = soft if extra is None else _data_size() + extra
            if hard != resource.RLIM_INFINITY:
                wanted = min(wanted, hard)
            resource.setrlimit(kind, (wanted, hard))

    def _receive(self) -> bytes | None:
        head = self._exactly(LENGTH.size)
        return None if head is None else self._exactly(LENGTH.unpack(head)[0])

    def _exactly(self, size: int) -> bytes | None:
        parts = []
        while size:
            part = self._channel.recv(min(size, 1 << 20))
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _data_size() -> int:
    """Bytes of data that this process has mapped; what RLIMIT_DATA counts."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmData:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        return 64 * 1024 * 1024


def _notice_moves(event: str, _: tuple[Any, ...]) -> None:
    """A task that changes directory is one to tidy up after, however short it was."""
    if event == "os.chdir":
        touched.add(True)


def main(lane: int, channel: socket.socket) -> None:
    """Be a worker until the engine closes the channel."""
    with contextlib.suppress(Exception):
        faulthandler.enable(file=2)
    sys.addaudithook(_notice_moves)
    follow_threads()
    os.register_at_fork(after_in_child=channel.close)
    with contextlib.suppress(OSError):
        Worker(lane, channel).serve()
    tree.kill_below(os.getpid())

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
from pathlib import Path
from time import perf_counter, sleep

from runyard.attempt.context import enter
from runyard.attempt.output import Output, SpoolOutput
from runyard.attempt.runner import Program, Runner
from runyard.attempt.slots import Slots
from runyard.attempt.wire import (
    Chunk,
    Emission,
    Failure,
    Job,
    Report,
    decode_chunk,
    decode_job,
    encode_report,
)
from runyard.backends import tree
from runyard.spec.outcome import OutcomeRow

FLUSH_SECONDS = 0.02
LENGTH = struct.Struct("<I")
JOB, CHUNK, REST = b"J", b"C", b"R"


class Outbox:
    """What the lane has to say, sent every few tens of milliseconds."""

    def __init__(self, channel: socket.socket, lane: int) -> None:
        self._channel = channel
        self._lane = lane
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._sent = perf_counter()
        self._begin(0)
        threading.Thread(target=self._flush_late, daemon=True, name="runyard-flush").start()

    def begin(self, chunk: int) -> None:
        """What comes now belongs to this chunk."""
        with self._lock:
            self._begin(chunk)

    def result(self, result: OutcomeRow | Failure) -> None:
        """An attempt has ended."""
        with self._lock:
            self._done += 1
            if type(result) is tuple:
                self._rows.append(result)
                self._seconds += result[6]
            else:
                self._failures.append(result)  # type: ignore[arg-type]
                self._seconds += result[0][6]  # type: ignore[index]
            if perf_counter() - self._sent >= FLUSH_SECONDS:
                self._send(finished=False)
            elif not self._wanted.is_set():
                self._wanted.set()

    def emit(self, emission: Emission) -> None:
        """The running task has something to tell."""
        with self._lock:
            self._emitted.append(emission)
        self._wanted.set()

    def finish(self) -> None:
        """Nothing more comes of this chunk."""
        with self._lock:
            self._send(finished=True)

    def _begin(self, chunk: int) -> None:
        self._chunk = chunk
        self._done = 0
        self._reset()

    def _reset(self) -> None:
        self._rows: list[OutcomeRow] = []
        self._failures: list[Failure] = []
        self._emitted: list[Emission] = []
        self._seconds = 0.0

    def _send(self, *, finished: bool) -> None:
        report = Report(
            self._lane, self._chunk, self._done, self._rows, self._failures, self._emitted,
            self._seconds, finished,
        )  # fmt: skip
        data = encode_report(report)
        self._reset()
        self._wanted.clear()
        self._channel.sendall(LENGTH.pack(len(data)) + data)
        self._sent = perf_counter()

    def _flush_late(self) -> None:
        """Send what waits while the main thread is busy with a task."""
        try:
            while True:
                self._wanted.wait()
                sleep(FLUSH_SECONDS)
                with self._lock:
                    late = perf_counter() - self._sent >= FLUSH_SECONDS
                    if late and (self._rows or self._failures or self._emitted):
                        self._send(finished=False)
        except OSError:  # the engine is gone; the warden ends the task
            return


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
        self._slots = Slots(Path(job.slots), 0, create=False)
        if job.capture:
            self._spool = SpoolOutput(Path(job.spool, f"{job.engine}-{self._lane}"))
        output = self._spool or Output()
        self._runner = Runner(Program(job), self._lane, self._slots, output, self._outbox.emit)
        enter(self._runner, whole_process=True)
        self._limit_memory(job.memory)

    def _run(self, chunk: Chunk) -> None:
        assert self._runner is not None
        assert self._slots is not None
        runner, outbox, stopped = self._runner, self._outbox, self._slots.stopped
        outbox.begin(chunk.id)
        for work in runner.program.work(chunk):
            if stopped(self._lane) >= chunk.id:
                break
            outbox.result(runner.run(work))
        self._slots.idle(self._lane)
        outbox.finish()

    def _rest(self) -> None:
        """The batch is over: nothing of it stays behind in this process."""
        if self._runner is not None:
            self._runner.rest()
            self._runner = None
            enter(None, whole_process=True)
            tree.kill_below(os.getpid())
        if self._spool is not None:
            self._spool.close()
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


def main(lane: int, channel: socket.socket) -> None:
    """Be a worker until the engine closes the channel."""
    with contextlib.suppress(Exception):
        faulthandler.enable(file=2)  # type: ignore[arg-type]
    with contextlib.suppress(OSError):
        Worker(lane, channel).serve()
    tree.kill_below(os.getpid())

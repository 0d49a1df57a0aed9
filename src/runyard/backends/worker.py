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
from itertools import islice
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from runyard.attempt.context import enter, follow_threads
from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.output import Output, SpoolOutput, touched
from runyard.attempt.process_state import CHANNEL, ProcessState
from runyard.attempt.program import Program
from runyard.attempt.runner import Result, Runner
from runyard.attempt.slots import Slots
from runyard.attempt.trouble import Stuck, Trouble
from runyard.attempt.wire import (
    Change,
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
from runyard.errors import EngineError
from runyard.spaces import clear_errors
from runyard.spec.outcome import WIDTH, Printed

FLUSH_SECONDS = 0.05
"""How often a lane reports at least; a little more than a chunk takes, which reports by itself."""

LOOK_SECONDS = 0.0005
"""So long may tasks go on before the worker looks whether it should stop."""

CHECK_SECONDS = 0.005
"""Tasks go on for this long before the worker checks that they leave it as they found it."""

LENGTH = struct.Struct("<I")
HEAD, MARK = struct.Struct("<4sI"), b"\x9drun"
"""What a report begins with: a mark, by which the engine knows it, and its length."""

LARGEST = (1 << 32) - 1
"""Bytes of a report; what a lane has to say beyond that goes into further ones."""

JOB, CHUNK, REST = b"J", b"C", b"R"

MUTE = 86
"""The exit code of a worker whose task closed the connection to the engine."""


class Spoilt(Exception):
    """A task changed this process for good; another one is to run what is left."""


class Mute(Exception):
    """The running task, which the slot still names, closed the connection to the engine."""


class Outbox:
    """What the lane has to say, sent every few tens of milliseconds.

    Results are sent once the process is seen to be as it was before their tasks ran: `trusted`.
    """

    def __init__(self, channel: socket.socket, lane: int, state: ProcessState) -> None:
        self._channel = channel
        self._lane = lane
        self._state = state
        self._sending = threading.Lock()
        self._busy = threading.Event()
        self._closed = False
        self._results: deque[Result] = deque()
        self._emitted: deque[Emission] = deque()
        self._trusted = 0  # of the results, the first ones
        self._change: Change | None = None
        self.trouble: Trouble | None = None  # why the chunk can't go on
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
        self.trouble = None
        self._busy.set()

    def emit(self, emission: Emission) -> None:
        """The running task has something to tell."""
        self._emitted.append(emission)

    @property
    def ended(self) -> int:
        """How many of the chunk's tasks need not run again."""
        with self._sending:
            return self._done + self._trusted

    @property
    def untrusted(self) -> int:
        """How many results came since the process was last seen to be as it was."""
        with self._sending:
            return len(self._results) - self._trusted

    def trust(self, change: str = "", *, is_undone: bool = True) -> None:
        """The results that are here may be sent, and what the last one's task changed be told."""
        with self._sending:
            self._trusted = len(self._results)
            if change and self._results:
                self._change = Change(_task_of(self._results[-1]), change, is_undone)

    def forget_untrusted(self) -> None:
        """Drop results of tasks that have to run again, and what they emitted."""
        with self._sending:
            again = set()
            while len(self._results) > self._trusted:
                again.add(_task_of(self._results.pop()))
            emitted = [each for each in self._emitted if each.task not in again]
            self._emitted.clear()
            self._emitted.extend(emitted)

    def finish(self) -> None:
        """Nothing more comes of this chunk."""
        self._busy.clear()
        self.flush(finished=True)

    def close(self) -> None:
        """Nothing comes any more."""
        self._closed = True
        self._busy.set()

    def flush(self, *, finished: bool = False) -> None:
        """Send what is here."""
        with self._sending, beyond_the_limit():
            # The results first: what their tasks emitted is here by then.
            results, emitted = list(islice(self._results, self._trusted)), list(self._emitted)
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
                self._lane, self._chunk, done, rows, failures, printed, emitted, seconds, finished,
                self._change, self.trouble if finished else None,
            )
        )  # fmt: skip
        if len(data) > LARGEST:
            raise MemoryError
        self._channel.sendall(HEAD.pack(MARK, len(data)))
        self._channel.sendall(data)
        self._done = done
        self._change = None
        _drop(self._results, len(results))
        self._trusted -= len(results)
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
            if self._closed:
                return
            sleep(FLUSH_SECONDS)
            if os.getppid() != self._warden:  # it was killed, and the engine maybe too
                tree.kill_below(os.getpid())
                os._exit(1)
            if self._busy.is_set() and perf_counter() >= self.flush_at:
                # What could not be sent stays; the main thread tries again, and may fail by it.
                with contextlib.suppress(Exception):
                    if self._state.is_connected():
                        self.flush()


def _task_of(result: Result) -> int:
    if isinstance(result, Completed | Failure):
        return result.row[0]
    return result[0]


def _drop(things: deque[Any], count: int) -> None:
    """Take so many from the front of a deque that another thread appends to."""
    for _ in range(count):
        things.popleft()


class Worker:
    """The main thread's side."""

    def __init__(self, lane: int, channel: socket.socket) -> None:
        self._lane = lane
        self._channel = channel
        self._state = ProcessState(channel.fileno())
        self._outbox = Outbox(channel, lane, self._state)
        self._was_changed = False  # by a task of this batch: look after each one
        self._spool: SpoolOutput | None = None
        self._slots: Slots | None = None
        self._runner: Runner | None = None
        self._trouble: Trouble | None = None  # what kept it from beginning with the batch
        self._limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_DATA,)}

    def serve(self) -> None:
        """Take messages until the channel closes."""
        try:
            self._serve()
        except OSError as error:
            if not self._state.is_connected():
                raise Mute from error
        finally:
            self._outbox.close()

    def _serve(self) -> None:
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
        self._trouble = None
        try:
            self._runner = self._prepared(job, self._slots)
        except EngineError as error:
            self._trouble = Trouble.of(error)
            return
        enter(self._runner)
        self._limit_memory(job.memory)
        self._state.keep([0, *(self._spool.descriptors if self._spool is not None else [1, 2])])
        self._was_changed = False

    def _prepared(self, job: Job, slots: Slots) -> Runner:
        if job.capture:
            with clear_errors("open the files for what tasks print"):
                self._spool = SpoolOutput(Path(job.spool, f"{job.engine}-{self._lane}"))
        output, program = self._spool or Output(), Program(job, self._state.loading)
        return Runner(program, self._lane, slots, output, self._outbox.emit, home=os.getcwd())

    def _run(self, chunk: Chunk) -> None:
        assert self._slots is not None
        self._outbox.begin(chunk.id)
        if self._trouble is not None:
            self._outbox.trouble = self._trouble
        else:
            while not self._work_through(chunk):
                pass
        self._slots.idle(self._lane)
        self._outbox.finish()

    def _work_through(self, chunk: Chunk) -> bool:
        """Run what is left of a chunk; False where some of it has to run again."""
        assert self._runner is not None
        assert self._slots is not None
        runner, outbox, lane = self._runner, self._outbox, self._lane
        run, result, stopped = runner.run, outbox.result, self._slots.stopped
        interval = 0.0 if chunk.careful or self._was_changed else CHECK_SECONDS
        looked = checked = -1.0
        for work in runner.program.work(chunk.after(outbox.ended)):
            if runner.ended - looked > LOOK_SECONDS:
                looked = runner.ended
                if stopped(lane) >= chunk.id:
                    break
            try:
                made = run(work, chunk.id)
            except Stuck as stuck:
                outbox.trouble = stuck.trouble
                break
            result(made)
            if runner.ended - checked >= interval:
                checked = runner.ended
                if not self._is_as_it_was():
                    return False
                if runner.ended >= outbox.flush_at:
                    self._slots.idle(lane)  # while the report waits for the engine, no task runs
                    outbox.flush()
        return self._is_as_it_was()

    def _is_as_it_was(self) -> bool:
        """Whether tasks left this process as they found it; if not, that is put right.

        A single task since the last look is to blame, and its result holds. Of several, all may
        have seen the change: they run again, one by one.
        """
        outbox = self._outbox
        changed = self._state.changed()
        if not changed:
            outbox.trust()
            return True
        self._was_changed = True
        is_undone = self._state.restore()
        if outbox.untrusted > 1:
            outbox.forget_untrusted()
        elif CHANNEL in changed:
            raise Mute
        else:
            outbox.trust(", ".join(changed), is_undone=is_undone)
        if not is_undone:
            assert self._slots is not None
            self._slots.idle(self._lane)
            if CHANNEL not in changed:
                outbox.flush()
            raise Spoilt
        return False

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


def main(lane: int, channel: socket.socket) -> int:
    """Be a worker until the engine closes the channel; the exit code."""
    with contextlib.suppress(Exception):
        faulthandler.enable(file=2)
    sys.addaudithook(_notice_moves)
    follow_threads()
    os.register_at_fork(after_in_child=channel.close)
    code = 0
    try:
        Worker(lane, channel).serve()
    except Spoilt:
        pass
    except Mute:
        code = MUTE
    tree.kill_below(os.getpid())
    return code

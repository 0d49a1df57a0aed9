"""A worker process: one lane, from its channel's first byte to its last.

engine ── job, chunk, chunk … ──▶ main thread: runs tasks, fills the outbox
engine ◀── report, report … ────  outbox: sent between two tasks, or while one takes long
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from runyard.attempt.context import enter, follow_threads
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.memory import limit_memory, resident
from runyard.attempt.output import OutputCapture, SpoolOutput, touched
from runyard.attempt.process_state import CHANNEL, ProcessState
from runyard.attempt.program import Program
from runyard.attempt.runner import Runner
from runyard.attempt.system_failure import AttemptAborted, SystemFailure
from runyard.attempt.wire import Chunk, Job, decode_chunk, decode_job
from runyard.backends import tree
from runyard.backends.channel import received
from runyard.backends.outbox import Outbox
from runyard.errors import EngineError
from runyard.spaces import clear_errors

STOP_CHECK_SECONDS = 0.0005
"""How often the worker checks whether it should stop."""

STATE_CHECK_SECONDS = 0.005
"""How often the worker checks that tasks leave the process as they found it."""

JOB, CHUNK, REST = b"J", b"C", b"R"

CHANNEL_CLOSED = 86
"""The exit code of a worker whose task closed the connection to the engine."""


class Tainted(Exception):
    """A task changed this process for good; another process runs the rest."""


class ChannelClosed(Exception):
    """The running task, which the lane's status still names, closed the channel."""


class WorkerProcess:
    """What the main thread of this process does."""

    def __init__(self, lane: int, channel: socket.socket, key: int) -> None:
        self._lane = lane
        self._channel = channel
        self._key = key
        self._state = ProcessState(channel.fileno())
        self._state.follow_imports()
        self._outbox = Outbox(channel, lane, self._state, key)
        self._was_changed = False  # by a task of this batch: check after every task
        self._had_threads = False  # that earlier tasks have started
        self._spool: SpoolOutput | None = None
        self._lane_status: LaneStatusFile | None = None
        self._runner: Runner | None = None
        self._failure: SystemFailure | None = None  # why this batch can't begin here
        self._memory: int | None = None  # the limit of a task
        self._resident = resident()  # memory in use before any task

    def serve(self) -> None:
        """Handle messages until the channel closes."""
        try:
            for kind, content in received(self._channel, _split, self._key):
                if kind == CHUNK:
                    self._run(decode_chunk(content))
                elif kind == JOB:
                    self._begin(decode_job(content))
                else:
                    self._rest()
        except OSError as error:
            if not self._state.is_connected():
                raise ChannelClosed from error
        finally:
            self._outbox.close()

    def _begin(self, job: Job) -> None:
        self._rest()
        for place in reversed(job.path):
            if place not in sys.path:
                sys.path.insert(0, place)
        with contextlib.suppress(OSError):
            os.chdir(job.root)
        try:
            self._lane_status = LaneStatusFile(Path(job.lane_status), 0, create=False)
        except FileNotFoundError:  # the batch ended before this worker began
            return
        self._failure = None
        try:
            self._runner = self._make_runner(job, self._lane_status)
        except EngineError as error:
            self._failure = SystemFailure.of(error)
            return
        enter(self._runner)
        self._memory = job.options.memory
        limit_memory(self._memory)
        if self._memory is not None:
            self._lane_status.leave(self._lane, max(0, resident() - self._resident))
        self._state.keep([0, *(self._spool.descriptors if self._spool is not None else [1, 2])])
        self._was_changed = self._had_threads = False

    def _make_runner(self, job: Job, lane_status: LaneStatusFile) -> Runner:
        if job.options.capture:
            with clear_errors("open the files for what tasks print"):
                self._spool = SpoolOutput(Path(job.spool, f"{job.engine}-{self._lane}"))
        output, program = self._spool or OutputCapture(), Program(job, self._state.accepting)
        return Runner(program, self._lane, lane_status, output, self._outbox.emit, home=os.getcwd())

    def _run(self, chunk: Chunk) -> None:
        if self._lane_status is None:  # the batch ended before this worker began
            return
        self._outbox.begin(chunk.id)
        if self._failure is not None:
            self._outbox.failure = self._failure
        else:
            while not self._work_through(chunk):
                pass
        self._lane_status.idle(self._lane)
        self._outbox.finish()

    def _work_through(self, chunk: Chunk) -> bool:
        """Run the rest of a chunk; False if some of its tasks have to run again."""
        assert self._runner is not None
        assert self._lane_status is not None
        runner, outbox, lane = self._runner, self._outbox, self._lane
        results, rows, stopped = outbox.results, outbox.results.rows, self._lane_status.stopped
        is_careful = chunk.careful or self._was_changed or self._memory is not None
        pause = 0.0 if is_careful else STOP_CHECK_SECONDS
        interval = 0.0 if is_careful else STATE_CHECK_SECONDS
        look_at = check_at = 0.0  # after the first task, which may import what changes the process
        if stopped(lane) >= chunk.id:
            return True
        try:
            for made in runner.run_each(runner.program.tasks(chunk.after(outbox.ended)), chunk.id):
                if type(made) is tuple:
                    rows += made
                else:
                    results.add(made)
                ended = runner.ended
                if ended < look_at:
                    continue
                look_at = ended + pause
                if ended >= check_at:
                    check_at = ended + interval
                    if not self._is_unchanged():
                        return False
                    if ended >= outbox.flush_at:
                        self._lane_status.idle(lane)  # no task runs while the report is being sent
                        outbox.flush()
                if stopped(lane) >= chunk.id:
                    break
        except AttemptAborted as aborted:
            outbox.failure = aborted.failure
            return self._is_unchanged()
        return not results.size or self._is_unchanged()

    def _is_unchanged(self) -> bool:
        """Whether tasks left this process as they found it; if not, restore or replace it.

        A single task since the last check is to blame, and its result counts. Of several, all may
        have seen the change: they run again, one by one. A thread that an earlier task has left
        may make changes at any time, so then the task is not to blame, and runs again elsewhere.
        """
        outbox, had_threads = self._outbox, self._had_threads
        changed, self._had_threads = self._state.changed(), self._state.has_more_threads
        if not changed:
            outbox.trust()
            if self._memory is not None:
                self._account_for_memory(self._memory)
            return True
        self._was_changed = True
        is_undone = self._state.restore() and not self._had_threads
        if outbox.results.size > 1 or had_threads:
            outbox.forget_untrusted()
        elif CHANNEL in changed:
            raise ChannelClosed
        else:
            outbox.trust(", ".join(changed), is_undone=is_undone)
        if not is_undone:
            self._leave(can_report=CHANNEL not in changed)
        return False

    def _account_for_memory(self, limit: int) -> None:
        """Let the next task use as much as the others, not counting what earlier ones left here."""
        tree.kill_below(os.getpid())
        assert self._lane_status is not None
        left = max(0, resident() - self._resident)
        if left > limit:
            self._leave()
        self._lane_status.leave(self._lane, left)
        with self._state.accepting():
            limit_memory(limit)

    def _leave(self, *, can_report: bool = True) -> NoReturn:
        """Let another process run the rest."""
        assert self._lane_status is not None
        self._lane_status.idle(self._lane)
        if can_report:
            self._outbox.flush()
        raise Tainted

    def _rest(self) -> None:
        """The batch is over: leave nothing of it in this process."""
        if self._runner is not None:
            self._runner.rest()
            self._runner = None
            enter(None)
            tree.kill_below(os.getpid())
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        if self._lane_status is not None:
            self._lane_status.close()
            self._lane_status = None
        limit_memory(None)


def _split(message: memoryview) -> tuple[bytes, bytes]:
    """A message's kind and its content."""
    return bytes(message[:1]), bytes(message[1:])


def _note_chdir(event: str, _: tuple[Any, ...]) -> None:
    """Tidy up after a task that changes its directory, however short it was."""
    if event == "os.chdir":
        touched.add(True)


def main(lane: int, channel: socket.socket, key: int) -> int:
    """Be a worker until the engine closes the channel; returns the exit code."""
    with contextlib.suppress(Exception):
        faulthandler.enable(file=2)
    sys.addaudithook(_note_chdir)
    follow_threads()
    os.register_at_fork(after_in_child=channel.close)
    code = 0
    try:
        WorkerProcess(lane, channel, key).serve()
    except Tainted:
        pass
    except ChannelClosed:
        code = CHANNEL_CLOSED
    tree.kill_below(os.getpid())
    return code

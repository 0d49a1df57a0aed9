"""Run attempts: call the task's function, encode its result, make the row.

Encoding, locating the error and the checksum are done here, where the task ran, so that the engine
handles whole lists of rows without reading them.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import math
import os
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from time import time as now
from typing import Any, cast

from runyard.attempt import forked
from runyard.attempt.calls import CallThread, share_threads
from runyard.attempt.context import Context, enter
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.output import OutputCapture
from runyard.attempt.packed import pack_error
from runyard.attempt.program import Program, ReadyTask
from runyard.attempt.raised import class_names, error_info
from runyard.attempt.system_failure import (
    SYSTEM_ERRORS,
    AttemptAborted,
    SystemFailure,
    errno_of,
    is_full,
)
from runyard.attempt.wire import AttemptResult, Completed, Emission, Failure
from runyard.errors import EngineError, NotEncodable, TaskError, TaskOutOfMemory, TaskTimeout
from runyard.spaces import Workspaces
from runyard.spec.codec import checksum, encode_as
from runyard.spec.outcome import OutcomeRow, Printed
from runyard.spec.status import COMPLETED, FAILED


class StopNow(KeyboardInterrupt):
    """Raised by the engine's signal handler: leave the task at once and record nothing."""


class Runner:
    """The attempts of one lane."""

    def __init__(
        self,
        program: Program,
        lane: int,
        lane_status: LaneStatusFile,
        output: OutputCapture,
        emit: Callable[[Emission], None],
        *,
        home: str | None = None,  # the directory of a worker process, where each task starts
    ) -> None:
        job, options = program.job, program.job.options
        self._home = home
        self.program = program
        self.lane = lane
        self.emit = emit
        self._lane_status = lane_status
        self._output = output if options.capture else OutputCapture()
        self._batch = job.batch
        self._codec = job.codec
        self.worker = job.engine << 16 | job.first_lane + lane
        self._folder = Path(job.folder)
        template = None if options.template is None else Path(job.root, options.template)
        self._spaces = Workspaces(self._folder, keep=options.keep, template=template)
        self._context: Context | None = None
        self._ready: ReadyTask | None = None
        self._loop: asyncio.Runner | None = None
        self._thread: CallThread | None = None
        self._note = lane_status.writer(lane)
        self._pid = forked.pid
        self._written = self._output.written
        self._none = encode_as(job.codec, None)
        self._encode = encode_as if options.memory is None else _encode_beyond_the_limit
        # Whether anything must be done before a task besides noting it.
        self._prepared = home is None or options.chdir
        self._quick = -1.0  # a longer attempt needs `_settled`
        self._system_failure: SystemFailure | None = None  # why this attempt can't have a result
        self.leaving = False  # the lane is abandoned: ignore what its task raises now
        self.ended = 0.0  # when the last attempt ended

    def run(self, ready: ReadyTask, chunk: int = 0) -> AttemptResult:
        """Run one attempt; raises AttemptAborted after a system failure."""
        return next(self.run_each((ready,), chunk))

    def run_each(self, tasks: Iterable[ReadyTask], chunk: int) -> Iterator[AttemptResult]:
        """Run an attempt at each task when its result is asked for, as `run` does."""
        note, batch, worker, pid = self._note, self._batch, self.worker, self._pid
        prepared, written, none = self._prepared, self._written, self._none
        for ready in tasks:
            target = ready.target
            begin, started = perf_counter(), now()
            note(batch, ready.task, ready.attempt, chunk, begin)
            self._ready, self._context = ready, None
            try:
                if prepared:
                    self._prepare()
                if target.wants_context:
                    value = target.function(ctx=self.context(), **ready.params)
                else:
                    value = target.function(**ready.params)
                if target.is_coroutine:
                    value = self._awaited(value)
                self.ended = ended = perf_counter()
                seconds = ended - begin
                if pid != forked.pid or (seconds > forked.SHORTEST and forked.is_unannounced()):
                    forked.leave()
                # As `_row` does, without a call: for a no-op that is a tenth of all the time.
                data = none if value is None else self._encode(self._codec, value)
                row: Any = (
                    ready.task,
                    COMPLETED,
                    ready.attempt,
                    data,
                    None,
                    started,
                    seconds,
                    worker,
                )
                row += (checksum(row, batch),)
                result: AttemptResult = row
                if seconds > self._quick or written or self._context is not None or ready.listed:
                    result = self._settled(ready, row)
            except BaseException as error:
                self._leave_if(error, isinstance(error, StopNow))
                result = self._failed(ready, error, started, self.ended - begin)
            value = None  # it may be large
            yield result

    async def run_async(self, ready: ReadyTask, chunk: int = 0) -> AttemptResult:
        """The same on an event loop: coroutine functions run here, others in a thread."""
        target = ready.target
        begin, started = perf_counter(), now()
        self._note(self._batch, ready.task, ready.attempt, chunk, begin)
        self._ready, self._context = ready, None
        try:
            if self._prepared:
                self._prepare()
            extra = {"ctx": self.context()} if target.wants_context else {}
            coroutine = target.coroutine(**extra, **ready.params)
            if coroutine is not None:
                value = await coroutine
            else:
                self._thread = self._thread or CallThread()
                value = await self._thread.call(target.function, **extra, **ready.params)
            self.ended = perf_counter()
            seconds = self.ended - begin
            if self._pid != forked.pid or (seconds > forked.SHORTEST and forked.is_unannounced()):
                forked.leave()
            return self._settled(ready, self._row(ready, value, started, seconds))
        except BaseException as error:
            self._leave_if(error, self.leaving)
            return self._failed(ready, error, started, self.ended - begin)

    def _leave_if(self, error: BaseException, leaving: bool) -> None:
        """Exit if this is a forked child; raise the error again if the lane is to be left."""
        if self._pid != forked.pid or forked.is_unannounced():
            forked.leave(error)
        if leaving:
            assert self._ready is not None
            with suppress(AttemptAborted):
                self._end(self._ready, ok=False)
            raise error
        self.ended = perf_counter()

    def timeout(self, ready: ReadyTask) -> float | None:
        """The time limit of this attempt."""
        if ready.listed is not None and ready.listed.timeout is not None:
            return ready.listed.timeout
        return self.program.job.options.timeout

    def context(self) -> Context:
        """The context of the running task."""
        if self._context is None:
            assert self._ready is not None
            self._context = Context(self, self._ready)
        return self._context

    def current(self) -> Context | None:
        """The same; None if no task is running."""
        return None if self._ready is None else self.context()

    @property
    def has_own_process(self) -> bool:
        """Whether this is the only lane of its process."""
        return self._home is not None

    @property
    def folder(self) -> Path:
        """The batch's own folder."""
        return self._folder

    def make_workspace(self, task: int, attempt: int) -> Path:
        """Create the task's own folder."""
        try:
            return self._spaces.create(task, attempt)
        except EngineError as error:
            # In a worker process it was the task that opened too many files.
            if self._home is None or errno_of(error.__cause__) != errno.EMFILE:
                self._system_failure = SystemFailure.of(error)
            raise

    def printed(self, task: int, attempt: int) -> Printed | None:
        """What an abandoned attempt has printed so far."""
        return self._output.so_far(self._folder, task, attempt)

    def rest(self) -> None:
        """The lane is idle."""
        self._lane_status.idle(self.lane)
        if self._loop is not None:
            loop, self._loop = self._loop, None
            _off_loop(loop.close)

    def close(self) -> None:
        """The lane is done for good. Its status may belong to its successor already."""
        if self._thread is not None:
            self._thread.close()
        if self._loop is not None:
            loop, self._loop = self._loop, None
            _off_loop(loop.close)

    def _prepare(self) -> None:
        self._output.begin()
        if self._home is None:  # a worker process makes it when asked
            enter(self.context())
        if self.program.job.options.chdir:
            os.chdir(self.context().workspace)

    def _end(self, ready: ReadyTask, *, ok: bool) -> Printed | None:
        """Clean up after the attempt; returns what it printed."""
        printed = self._output.end(self._folder, ready.task, ready.attempt)
        self._quick = min(self._output.quick, self.program.job.options.timeout or math.inf)
        if self._home is not None and not _is_here(self._home):
            os.chdir(self._home)
        self._end_context(ready, ok=ok)
        return printed

    def _end_context(self, ready: ReadyTask, *, ok: bool) -> None:
        """Mark the context as ended, for code that still holds it."""
        found, self._context = self._context, None
        if found is not None and found.end():
            try:
                self._spaces.settle(found.task, found.attempt, ok=ok)
            except EngineError as error:
                if errno_of(error.__cause__) not in SYSTEM_ERRORS:
                    raise
                self._system_failure = SystemFailure.of(error)
        failure, self._system_failure = self._system_failure or self._output.failure, None
        if failure is not None:
            self._output.failure = None
            raise AttemptAborted(failure._replace(task=ready.task))

    def _row(self, ready: ReadyTask, value: Any, started: float, seconds: float) -> OutcomeRow:
        """The row of a completed attempt. A plain tuple: all that follows reads it by position."""
        data = self._none if value is None else self._encode(self._codec, value)
        row = (ready.task, COMPLETED, ready.attempt, data, None, started, seconds, self.worker)
        return cast("OutcomeRow", row + (checksum(row, self._batch),))  # noqa: RUF005

    def _settled(self, ready: ReadyTask, row: OutcomeRow) -> AttemptResult:
        """The result of a completed attempt, unless it took too long; cleans up after it."""
        started, seconds = row[5:7]
        limit = self.timeout(ready)
        if limit is not None and seconds > limit:
            error = TaskTimeout(f"ran for {seconds:.3g} s, its limit is {limit:g} s")
            return self._failed(ready, error, started, seconds)._replace(late=row)
        if seconds > self._output.quick or self._written:
            printed = self._end(ready, ok=True)
            if printed is not None:
                return Completed(row, printed)
        else:
            self._end_context(ready, ok=True)
        return row

    def _failed(
        self, ready: ReadyTask, error: BaseException, started: float, seconds: float
    ) -> Failure:
        if isinstance(error, AttemptAborted):
            self._system_failure = error.failure
        elif errno_of(error) in (errno.ENOSPC, errno.EDQUOT) and is_full(self._folder / "tasks"):
            # The task may have written little compared to what filled the disk.
            self._system_failure = SystemFailure(
                f"{error}, and the disk of the yard is full.", True
            )
        if isinstance(error, MemoryError):
            traceback.clear_frames(error.__traceback__)  # to free what used the memory
            with beyond_the_limit():
                return self._failure(ready, self._out_of_memory(error), started, seconds)
        return self._failure(ready, error, started, seconds)

    def _out_of_memory(self, error: MemoryError) -> BaseException:
        limit = self.program.job.options.memory
        if limit is None:
            return error
        text = f"needed more than its limit of {limit:,} bytes"
        return TaskOutOfMemory(text).with_traceback(error.__traceback__)

    def _failure(
        self, ready: ReadyTask, error: BaseException, started: float, seconds: float
    ) -> Failure:
        info = error_info(error)
        value, refusal = self._failed_value(error)
        if refusal is not None:
            info = info.with_note(f"its value was not recorded: {refusal.message}")
        printed = self._end(ready, ok=False)
        row = OutcomeRow.with_checksum(
            self._batch, ready.task, FAILED, ready.attempt, value, info.encode(),
            started, seconds, self.worker,
        )  # fmt: skip
        raised = pack_error(error) if ready.packed else None
        return Failure(row, class_names(error), raised, printed)

    def _failed_value(self, error: BaseException) -> tuple[bytes | None, NotEncodable | None]:
        """The value of a failed task, or why that can't be recorded."""
        if not isinstance(error, TaskError) or error.value is None:
            return None, None
        try:
            return encode_as(self._codec, error.value), None
        except NotEncodable as refusal:
            return None, refusal

    def _awaited(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the lane's own loop."""
        if self._loop is None:
            self._loop = asyncio.Runner()
            _off_loop(self._loop.run, share_threads())
        here = contextvars.copy_context()
        here.run(enter, self.context())
        return _off_loop(self._loop.run, coroutine, context=here)


def _is_here(place: str) -> bool:
    try:
        return os.getcwd() == place
    except FileNotFoundError:  # the task removed the directory it was in
        return False


def _off_loop(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call what runs its own loop; in another thread if a loop runs here (a notebook)."""
    if not _is_on_loop():
        return function(*args, **named)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(forked.contained()(function), *args, **named).result()


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _encode_beyond_the_limit(codec: str, value: Any) -> bytes:
    """Encode a value; the encoder does not survive running out of memory."""
    with beyond_the_limit():
        return encode_as(codec, value)

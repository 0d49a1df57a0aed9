"""One attempt after another: call the task's function, encode what it returns, make the row.

Everything that can be done where the task ran is done here (encoding, the error's place, the row's
checksum), so that the engine handles whole lists of rows without looking into them.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from time import time as now
from typing import Any, cast

from runyard.attempt import forked
from runyard.attempt.calls import CallThread, share_threads
from runyard.attempt.context import Context, enter
from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.output import Output
from runyard.attempt.packed import pack_error
from runyard.attempt.program import Program, Work
from runyard.attempt.raised import class_names, error_info
from runyard.attempt.slots import Slots
from runyard.attempt.trouble import OURS, Stuck, Trouble, cause, is_full
from runyard.attempt.wire import Completed, Emission, Failure
from runyard.errors import EngineError, NotEncodable, TaskError, TaskOutOfMemory, TaskTimeout
from runyard.spaces import Workspaces
from runyard.spec.codec import checksum, encode_as
from runyard.spec.outcome import OutcomeRow, Printed
from runyard.spec.status import COMPLETED, FAILED


class StopNow(KeyboardInterrupt):
    """Raised by the engine's own signal handler: leave the task at once, record nothing."""


Result = OutcomeRow | Completed | Failure
"""What an attempt came to."""


class Runner:
    """The attempts of one lane."""

    def __init__(
        self,
        program: Program,
        lane: int,
        slots: Slots,
        output: Output,
        emit: Callable[[Emission], None],
        *,
        home: str | None = None,  # the directory that each task starts in, where it has its own
    ) -> None:
        job = program.job
        self._home = home
        self.program = program
        self.lane = lane
        self.emit = emit
        self._slots = slots
        self._output = output if job.capture else Output()
        self._batch = job.batch
        self._codec = job.codec
        self._worker = job.engine << 16 | job.first_lane + lane
        self._folder = Path(job.folder)
        template = None if job.template is None else Path(job.root, job.template)
        self._spaces = Workspaces(self._folder, keep=job.keep, template=template)
        self._context: Context | None = None
        self._work: Work | None = None
        self._loop: asyncio.Runner | None = None
        self._thread: CallThread | None = None
        self._timeout = job.timeout
        self._note = slots.pen(lane)
        self._pid = forked.pid
        self._written = self._output.written
        self._none = encode_as(job.codec, None)
        self._encode = encode_as if job.memory is None else _encode_beyond_the_limit
        # Whether there is anything to do before a task but to note it.
        self._prepared = home is None or job.chdir
        self._stuck: Trouble | None = None  # what is between this attempt and an outcome
        self.leaving = False  # the lane is given up: what its task raises now is no outcome
        self.ended = 0.0  # when the last attempt did

    def run(self, work: Work, chunk: int = 0) -> Result:
        """One attempt, from its start to its row; Stuck where it can't have one."""
        call = work.call
        begin = perf_counter()
        started = self._begin(work, chunk, begin)
        try:
            if self._prepared:
                self._prepare()
            if call.wants_context:
                value = call.function(ctx=self.context(), **work.params)
            else:
                value = call.function(**work.params)
            if call.is_coroutine:
                value = self._awaited(value)
            self.ended = perf_counter()
            seconds = self.ended - begin
            if self._pid != forked.pid or (seconds > forked.SHORTEST and forked.is_unannounced()):
                forked.leave()
            return self._completed(work, value, started, seconds)
        except BaseException as error:
            if self._pid != forked.pid or forked.is_unannounced():
                forked.leave(error)
            if isinstance(error, StopNow):
                with suppress(Stuck):
                    self._end(work, ok=False)
                raise
            self.ended = perf_counter()
            return self._failed(work, error, started, self.ended - begin)

    async def run_async(self, work: Work, chunk: int = 0) -> Result:
        """The same on a loop: coroutine functions here, others in a thread."""
        call = work.call
        begin = perf_counter()
        started = self._begin(work, chunk, begin)
        try:
            if self._prepared:
                self._prepare()
            extra = {"ctx": self.context()} if call.wants_context else {}
            if call.is_coroutine:
                value = await cast("Awaitable[Any]", call.function(**extra, **work.params))
            else:
                self._thread = self._thread or CallThread()
                value = await self._thread.call(call.function, **extra, **work.params)
            self.ended = perf_counter()
            seconds = self.ended - begin
            if self._pid != forked.pid or (seconds > forked.SHORTEST and forked.is_unannounced()):
                forked.leave()
            return self._completed(work, value, started, seconds)
        except BaseException as error:
            if self._pid != forked.pid or forked.is_unannounced():
                forked.leave(error)
            if self.leaving:
                with suppress(Stuck):
                    self._end(work, ok=False)
                raise
            self.ended = perf_counter()
            return self._failed(work, error, started, self.ended - begin)

    def timeout(self, work: Work) -> float | None:
        """How long this attempt may take."""
        if work.listed is not None and work.listed.timeout is not None:
            return work.listed.timeout
        return self.program.job.timeout

    def context(self) -> Context:
        """The context of the task that runs now."""
        if self._context is None:
            assert self._work is not None
            work, job = self._work, self.program.job
            self._context = Context(
                self, job.name, self.program.seed, work.task, work.attempt, work.params,
                self.program.seed_key(work), self.timeout(work),
            )  # fmt: skip
        return self._context

    def current(self) -> Context | None:
        """The same, where one runs."""
        return None if self._work is None else self.context()

    @property
    def folder(self) -> Path:
        """The batch's own folder."""
        return self._folder

    def make_workspace(self, task: int, attempt: int) -> Path:
        """The task's own folder, made anew."""
        try:
            return self._spaces.create(task, attempt)
        except EngineError as error:
            # In a process of its own a task has opened the files that are too many.
            if self._home is None or cause(error.__cause__) != errno.EMFILE:
                self._stuck = Trouble.of(error)
            raise

    def printed(self, task: int, attempt: int) -> Printed | None:
        """What an attempt that is given up has printed until now."""
        return self._output.so_far(self._folder, task, attempt)

    def rest(self) -> None:
        """The lane has nothing to do."""
        self._slots.idle(self.lane)
        if self._loop is not None:
            loop, self._loop = self._loop, None
            _off_loop(loop.close)

    def close(self) -> None:
        """The lane is done for good; its slot may be another's already."""
        if self._thread is not None:
            self._thread.close()
        if self._loop is not None:
            loop, self._loop = self._loop, None
            _off_loop(loop.close)

    def _begin(self, work: Work, chunk: int, begin: float) -> float:
        started = now()  # before the engine can see it: so those that it sends next are later
        self._note(self._batch, work.task, work.attempt, chunk, begin)
        self._work = work
        self._context = None
        return started

    def _prepare(self) -> None:
        self._output.begin()
        if self._home is None:  # a worker process has one lane, which makes it when asked
            enter(self.context())
        if self.program.job.chdir:
            os.chdir(self.context().workspace)

    def _end(self, work: Work, *, ok: bool) -> Printed | None:
        """Tidy up after the attempt; what it printed."""
        printed = self._output.end(self._folder, work.task, work.attempt)
        if self._home is not None and not _is_here(self._home):
            os.chdir(self._home)
        self._end_context(ok=ok)
        stuck, self._stuck = self._stuck or self._output.trouble, None
        if stuck is not None:
            self._output.trouble = None
            raise Stuck(stuck._replace(task=work.task))
        return printed

    def _end_context(self, *, ok: bool) -> None:
        """Whoever still holds on to the context holds that of a task that has ended."""
        found, self._context = self._context, None
        if found is not None and found.end():
            try:
                self._spaces.settle(found.task, found.attempt, ok=ok)
            except EngineError as error:
                if cause(error.__cause__) not in OURS:
                    raise
                self._stuck = Trouble.of(error)

    def _completed(self, work: Work, value: Any, started: float, seconds: float) -> Result:
        data = self._none if value is None else self._encode(self._codec, value)
        row = (work.task, COMPLETED, work.attempt, data, None, started, seconds, self._worker)
        # A plain tuple: the engine and the store look at rows by position.
        sealed = cast("OutcomeRow", (*row, checksum(row, self._batch)))
        limit = self._timeout if work.listed is None else self.timeout(work)
        if limit is not None and seconds > limit:
            error = TaskTimeout(f"ran for {seconds:.3g} s, its limit is {limit:g} s")
            return self._failed(work, error, started, seconds)._replace(late=sealed)
        if seconds > self._output.quick or self._written or self._stuck is not None:
            printed = self._end(work, ok=True)
            if printed is not None:
                return Completed(sealed, printed)
        elif self._context is not None:
            self._end_context(ok=True)
        return sealed

    def _failed(self, work: Work, error: BaseException, started: float, seconds: float) -> Failure:
        if isinstance(error, Stuck):
            self._stuck = error.trouble
        elif cause(error) in (errno.ENOSPC, errno.EDQUOT) and is_full(self._folder / "tasks"):
            # What the task wrote may be little beside what filled the disk.
            self._stuck = Trouble(f"{error}, and the disk of the yard is full.", True)
        if isinstance(error, MemoryError):
            traceback.clear_frames(error.__traceback__)  # of what took the memory
            with beyond_the_limit():
                return self._failure(work, self._out_of_memory(error), started, seconds)
        return self._failure(work, error, started, seconds)

    def _out_of_memory(self, error: MemoryError) -> BaseException:
        limit = self.program.job.memory
        if limit is None:
            return error
        text = f"needed more than its limit of {limit:,} bytes"
        return TaskOutOfMemory(text).with_traceback(error.__traceback__)

    def _failure(self, work: Work, error: BaseException, started: float, seconds: float) -> Failure:
        info = error_info(error)
        value, refusal = self._brought(error)
        if refusal is not None:
            info = info.with_note(f"what it brought is not recorded: {refusal.message}")
        printed = self._end(work, ok=False)
        row = OutcomeRow.sealed(
            self._batch, work.task, FAILED, work.attempt, value, info.encode(),
            started, seconds, self._worker,
        )  # fmt: skip
        raised = pack_error(error) if work.packed else None
        return Failure(row, class_names(error), raised, printed)

    def _brought(self, error: BaseException) -> tuple[bytes | None, NotEncodable | None]:
        """What the task has to show although it failed, or why that can't be recorded."""
        if not isinstance(error, TaskError) or error.value is None:
            return None, None
        try:
            return encode_as(self._codec, error.value), None
        except NotEncodable as refusal:
            return None, refusal

    def _awaited(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine returns, on a loop of the lane's own."""
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
    """Call what runs a loop of its own; in another thread where one runs already (a notebook)."""
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
    """A value's bytes; the encoder does not survive that memory runs out under it."""
    with beyond_the_limit():
        return encode_as(codec, value)

"""The context of a task: its seed, random numbers, folder and events.

A context belongs to one task. Code finds its own context by a context variable or, in a thread that
the task started, by that thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from runyard import clock
from runyard.attempt.wire import Emission
from runyard.errors import NotEncodable, RunyardError, UsageError
from runyard.spec import seeds
from runyard.spec.codec import encode
from runyard.spec.shown import json_text

if TYPE_CHECKING:
    import numpy as np

    from runyard.attempt.program import ReadyTask
    from runyard.attempt.runner import Runner


LARGEST_EVENT = 16 * 1024 * 1024
"""The most bytes of an event."""

LONGEST_LINE = LARGEST_EVENT // 8
"""The most characters of a logged line; the rest is cut off."""


class Context:
    """A task's own seed, random numbers, folder and events.

    A task gets it as its parameter `ctx`, or from `runyard.context()`.
    """

    __slots__ = (
        "__weakref__", "_callbacks", "_lock", "_log", "_rng", "_root", "_runner", "_seed_key",
        "_space", "attempt", "batch", "budget", "is_over", "params", "task", "timeout",
    )  # fmt: skip

    def __init__(self, runner: Runner, ready: ReadyTask) -> None:
        self._runner = runner
        self._root = runner.program.seed
        self._seed_key = runner.program.seed_key(ready)
        self._rng: np.random.Generator | None = None
        self._log: logging.Logger | None = None
        self._space: Path | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.batch: str = runner.program.job.name
        self.task: int = ready.task
        self.attempt: int = ready.attempt  # number of earlier failures of the task
        self.params: dict[str, Any] = ready.params
        self.timeout: float | None = runner.timeout(ready)  # the attempt's time limit in seconds
        self.budget: dict[str, float] = runner.program.job.options.budget  # what the run may use
        self.is_over = False  # the attempt has ended

    @property
    def seed(self) -> int:
        """The task's seed as a 64-bit number."""
        return seeds.number(self._root, *self._seed_key())

    @property
    def replicate(self) -> int:
        """The replicate number of this task's parameters, from 0."""
        return self._seed_key()[1]

    @property
    def rng(self) -> np.random.Generator:
        """The task's random numbers; they don't depend on the backend or on other tasks."""
        if self._rng is None:
            from numpy.random import PCG64, Generator

            self._rng = Generator(PCG64(seeds.sequence(self._root, *self._seed_key())))
        return self._rng

    @property
    def folder(self) -> Path:
        """The batch's folder on this machine, shared by its tasks; it may not exist yet."""
        return self._runner.folder

    @property
    def root(self) -> str:
        """The project's folder, to which names of files and modules are relative."""
        return self._runner.program.job.root

    @property
    def files_travel(self) -> bool:
        """Whether `folder` is a stand-in, of which only the files of tasks reach the yard."""
        return self._runner.program.job.files_travel

    @property
    def worker(self) -> int:
        """The number of the lane, as in its outcome."""
        return self._runner.worker

    @property
    def has_own_process(self) -> bool:
        """Whether no other lane runs in this process."""
        return self._runner.has_own_process

    @property
    def workspace(self) -> Path:
        """The task's own folder, until it ends."""
        with self._lock:
            self._refuse_if_over("workspace")
            if self._space is None:
                self._space = self._runner.make_workspace(self.task, self.attempt)
            return self._space

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines become events of the task, until it ends."""
        if self._log is None:
            self._log = logging.Logger("runyard.task", logging.DEBUG)
            self._log.addHandler(_EventHandler(self))
        return self._log

    def emit(self, kind: str, **data: Any) -> None:
        """Publish an event while the task runs."""
        self._refuse_if_over("emit()")
        kind, content = str(kind), encode(data)
        if json_text(kind) != kind:
            raise NotEncodable(f"the event kind {kind!r} is not valid Unicode")
        if len(kind) + len(content) > LARGEST_EVENT:
            raise NotEncodable(
                f"an event of {len(kind) + len(content):,} bytes is too large, "
                f"the limit is {LARGEST_EVENT:,}",
                hint="write the data to a file in `ctx.workspace`, and emit its path",
            )
        self._runner.emit(Emission(self.task, self.attempt, clock.now(), kind, content))

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Register a function to call when the task is cancelled or times out."""
        self._callbacks.append(callback)

    def cancel(self) -> None:
        """Call the functions registered with `on_cancel`; their errors are logged."""
        while self._callbacks:
            try:
                self._callbacks.pop()()
            except Exception:
                logging.getLogger("runyard").exception("a cancel callback failed")

    def end(self) -> bool:
        """The attempt has ended. Returns whether it has a workspace."""
        with self._lock:
            self.is_over = True
            return self._space is not None

    def _refuse_if_over(self, what: str) -> None:
        if self.is_over:
            raise UsageError(
                f"can't use {what} of task {self.task} of {self.batch}: the task has ended",
                hint="join the threads of a task before it returns",
            )

    def __repr__(self) -> str:
        return f"<Context of {self.batch}/{self.task}, attempt {self.attempt}>"


_current: ContextVar[Context | Runner | None] = ContextVar("runyard_current", default=None)
_starters: WeakKeyDictionary[threading.Thread, Context] = WeakKeyDictionary()
_following = False


def enter(found: Context | Runner | None) -> Context | Runner | None:
    """Set the context for this code and what it calls, or the lane whose running task provides it.

    Returns the previous one, which a run inside a task has to restore.
    """
    before = _current.get()
    _current.set(found)
    return before


def follow_threads() -> None:
    """From now on a thread belongs to the task that starts it."""
    global _following
    if _following:  # never undone: other code may have wrapped it since
        return
    _following = True
    begin = threading.Thread.start

    @wraps(begin)
    def start(thread: threading.Thread) -> None:
        starter = current()
        if starter is not None:
            _starters[thread] = starter
        begin(thread)

    threading.Thread.start = start  # type: ignore[assignment,method-assign]


def current() -> Context | None:
    """The context of the task that runs this code or that started this thread, if any."""
    found = _current.get()
    if isinstance(found, Context):
        return found
    starter = _starters.get(threading.current_thread())
    return starter if starter is not None or found is None else found.current()


def inside() -> bool:
    """Whether this code runs inside a task."""
    return current() is not None


def context() -> Context:
    """The context of the task that runs this code or that started this thread."""
    found = current()
    if found is None:
        raise UsageError("there is no context outside a task", hint="call this inside a task")
    if found.is_over:
        raise UsageError(
            f"this thread belongs to task {found.task} of {found.batch}, which has ended",
            hint="a thread, even of a pool, belongs to the task that started it: "
            "create the pool inside the task, or pass `ctx` to its threads",
        )
    return found


class _EventHandler(logging.Handler):
    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self._ctx = ctx

    def emit(self, record: logging.LogRecord) -> None:
        if self._ctx.is_over:
            return
        try:
            level, message = record.levelname.lower(), record.getMessage()
            self._ctx.emit("log", level=json_text(level), message=json_text(message)[:LONGEST_LINE])
        except RunyardError:  # the task has ended
            raise
        except Exception:  # as logging does: a line that can't be formatted must not fail the task
            self.handleError(record)

"""What a task knows about itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runyard import clock
from runyard.attempt.raised import valid
from runyard.attempt.wire import Emission
from runyard.errors import NotEncodable, RunyardError, UsageError
from runyard.spec import seeds
from runyard.spec.codec import encode

if TYPE_CHECKING:
    import numpy as np


LARGEST_EVENT = 16 * 1024 * 1024
"""Bytes that what a task emits may have."""

LONGEST_LINE = LARGEST_EVENT // 8
"""Characters of a logged line that are kept."""


class Host(Protocol):
    """What a context asks of the lane that runs its task."""

    @property
    def folder(self) -> Path:
        """The batch's own folder."""

    def seed_key(self, task: int) -> tuple[bytes, int]:
        """What the task's seed comes from."""

    def workspace(self, task: int, attempt: int) -> Path:
        """The task's own folder, made on first use."""

    def emit(self, emission: Emission) -> None:
        """Pass an event on."""

    def context(self) -> Context:
        """The context of the task that runs now."""


class Context:
    """A task's own seed, random numbers, folder and events.

    A task gets it as its parameter `ctx`, or anywhere inside from `runyard.context()`.
    """

    __slots__ = (
        "_callbacks", "_host", "_rng", "_root", "attempt", "batch", "params", "task", "timeout",
    )  # fmt: skip

    def __init__(
        self,
        host: Host,
        batch: str,
        root_seed: int,
        task: int,
        attempt: int,
        params: dict[str, Any],
        timeout: float | None = None,
    ) -> None:
        self._host = host
        self._root = root_seed
        self._rng: np.random.Generator | None = None
        self._callbacks: list[Callable[[], None]] = []
        self.batch = batch
        self.task = task
        self.attempt = attempt  # how many errors of its own came before
        self.params = params
        self.timeout = timeout  # seconds that this attempt may take

    @property
    def seed(self) -> int:
        """The task's seed as a 64-bit number."""
        return seeds.number(self._root, *self._host.seed_key(self.task))

    @property
    def replicate(self) -> int:
        """Which repetition of its parameters this task is, from 0."""
        return self._host.seed_key(self.task)[1]

    @property
    def rng(self) -> np.random.Generator:
        """The task's random numbers: the same on every backend, whatever else runs."""
        if self._rng is None:
            from numpy.random import PCG64, Generator

            self._rng = Generator(
                PCG64(seeds.sequence(self._root, *self._host.seed_key(self.task)))
            )
        return self._rng

    @property
    def folder(self) -> Path:
        """The batch's folder on this machine, which its tasks share; it need not be there yet."""
        return self._host.folder

    @property
    def workspace(self) -> Path:
        """A folder of the task's own."""
        return self._host.workspace(self.task, self.attempt)

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines become events of the task."""
        return _logger()

    def emit(self, kind: str, **data: Any) -> None:
        """Tell whoever watches; arrives while the task still runs."""
        kind, content = str(kind), encode(data)
        if valid(kind) != kind:
            raise NotEncodable(f"the kind {kind!r} of an event is not valid Unicode")
        if len(kind) + len(content) > LARGEST_EVENT:
            raise NotEncodable(
                f"an event of {len(kind) + len(content):,} bytes is too large, "
                f"the limit is {LARGEST_EVENT:,}",
                hint="write it to a file in `ctx.workspace`, and emit where it is",
            )
        self._host.emit(Emission(self.task, self.attempt, clock.now(), kind, content))

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have this called when the task is cancelled or out of time."""
        self._callbacks.append(callback)

    def cancel(self) -> None:
        """Call what `on_cancel` was given; errors there hurt nobody."""
        while self._callbacks:
            try:
                self._callbacks.pop()()
            except Exception:
                logging.getLogger("runyard").exception("a cancel callback failed")

    def __repr__(self) -> str:
        return f"<Context of {self.batch}/{self.task}, attempt {self.attempt}>"


_current: ContextVar[Host | None] = ContextVar("runyard_current", default=None)
_only: Host | None = None  # a worker process has one lane, whatever thread asks


def enter(host: Host | None, *, whole_process: bool = False) -> Host | None:
    """Make this lane's task the one that `context` is about, here and in what is called.

    Returns the one before, which a run inside a task has to put back.
    """
    global _only
    before = _current.get()
    _current.set(host)
    if whole_process:
        _only = host
    return before


def inside() -> bool:
    """Whether this code runs inside a task."""
    return (_current.get() or _only) is not None


def context() -> Context:
    """The context of the task that this code runs in."""
    host = _current.get() or _only
    if host is None:
        raise UsageError("there is no context outside a task", hint="call this inside a task")
    return host.context()


class _EventHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if inside():
            try:
                level, message = record.levelname.lower(), record.getMessage()
                context().emit("log", level=valid(level), message=valid(message)[:LONGEST_LINE])
            except RunyardError:  # the task's time is up
                raise
            except Exception:  # as logging does: a line that can't be had is no reason to fail
                self.handleError(record)


def _logger() -> logging.Logger:
    logger = logging.getLogger("runyard.task")
    if not any(isinstance(handler, _EventHandler) for handler in logger.handlers):
        logger.addHandler(_EventHandler())
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    return logger

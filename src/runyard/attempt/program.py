"""A job's plan and functions, loaded once, and its tasks ready to be called."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import starmap
from typing import Any, cast

import msgspec

from runyard.attempt.load import load
from runyard.attempt.packed import call_packed
from runyard.attempt.wire import Chunk, Item, Job
from runyard.spec.batch import ListedTask, decode_listed
from runyard.spec.codec import decode
from runyard.spec.plan import Plan
from runyard.spec.task import Target, wants_context


class TaskFunction(msgspec.Struct, frozen=True):
    """A function, and how to call it."""

    function: Callable[..., Any]
    wants_context: bool
    is_coroutine: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> TaskFunction:
        """Inspect a function once."""
        method = getattr(function, "__call__", function)  # noqa: B004
        is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)
        return cls(function, wants_context(function), is_coroutine)

    def coroutine(self, **params: Any) -> Awaitable[Any] | None:
        """A call on an event loop; None if the function has to be called in a thread.

        An ordinary function may have an attribute `as_coroutine`, which decides for each call.
        """
        if self.is_coroutine:
            return cast("Awaitable[Any]", self.function(**params))
        other = getattr(self.function, "as_coroutine", None)
        return None if other is None else cast("Awaitable[Any] | None", other(**params))


class ReadyTask(msgspec.Struct, gc=False):
    """One task, ready to be called."""

    target: TaskFunction
    attempt: int
    task: int
    params: dict[str, Any]
    listed: ListedTask | None = None
    packed: bool = False  # it carries its own call, and wants its error back


class Program:
    """A job's plan and functions, loaded once per process and shared by its lanes."""

    def __init__(
        self, job: Job, loading: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self.job = job
        self._loading = loading  # around the import of a function
        self.seed = int(job.seed)
        self.plan = Plan.from_data(decode(job.plan)) if job.plan is not None else None
        self._functions: dict[Target, TaskFunction] = {}
        self.only = self.function(job.target) if job.target is not None else None

    def function(self, target: Target) -> TaskFunction:
        """The function of a target, loaded on first use; if that fails, calling it raises."""
        if target not in self._functions:
            try:
                with self._loading():
                    function = load(target, self.job.root, self.job.functions)
                self._functions[target] = TaskFunction.of(function)
            except Exception as error:
                self._functions[target] = TaskFunction(_raising(error), False, False)
        return self._functions[target]

    def seed_key(self, ready: ReadyTask) -> Callable[[], tuple[bytes, int]]:
        """A function that returns what the task's seed is derived from."""
        if ready.listed is not None:
            return ready.listed.seed_key
        assert self.plan is not None
        return partial(self.plan.seed_key, ready.task)

    def tasks(self, chunk: Chunk) -> Iterator[ReadyTask]:
        """The chunk's tasks, ready to be called."""
        if chunk.items is not None:
            return map(self._item, chunk.items)
        assert self.plan is not None
        assert self.only is not None
        return starmap(partial(ReadyTask, self.only, 0), self.plan.walk(chunk.low, chunk.high))

    def _item(self, item: Item) -> ReadyTask:
        if item.content is None:
            assert self.plan is not None
            assert self.only is not None
            return ReadyTask(self.only, item.attempt, item.task, self.plan.params(item.task))
        listed = decode_listed(item.content)
        if item.call is not None:
            packed = TaskFunction(partial(call_packed, item.call), False, False)
            return ReadyTask(packed, item.attempt, item.task, {}, listed, True)
        target = self.function(listed.target)
        return ReadyTask(target, item.attempt, item.task, dict(listed.params), listed)


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(**params: Any) -> Any:  # noqa: ARG001
        raise error

    return fail

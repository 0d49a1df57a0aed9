"""What a lane runs: a job's plan and functions, loaded once, and its tasks ready to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import msgspec

from runyard.attempt.load import load
from runyard.attempt.packed import call_packed
from runyard.attempt.wire import Chunk, Item, Job
from runyard.spec.batch import ListedTask, decode_listed
from runyard.spec.codec import decode
from runyard.spec.plan import Plan
from runyard.spec.task import Target, wants_context


class Call(NamedTuple):
    """A function, and how it wants to be called."""

    function: Callable[..., Any]
    wants_context: bool
    is_coroutine: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Call:
        """Look at a function once."""
        call = getattr(function, "__call__", function)  # noqa: B004
        is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        return cls(function, wants_context(function), is_coroutine)


class Work(msgspec.Struct, gc=False):
    """One task, ready to be called."""

    task: int
    attempt: int
    params: dict[str, Any]
    call: Call
    listed: ListedTask | None = None
    packed: bool = False  # it brought its call along, and wants its error back


class Program:
    """A job's plan and functions, loaded once a process and shared by its lanes."""

    def __init__(
        self, job: Job, loading: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self.job = job
        self._loading = loading  # around the import of a function
        self.seed = int(job.seed)
        self.plan = Plan.from_data(decode(job.plan)) if job.plan is not None else None
        self._calls: dict[tuple[str, str], Call] = {}
        self.only = self.call(job.target) if job.target is not None else None

    def call(self, target: tuple[str, str]) -> Call:
        """The function behind a target, loaded on first use; one that can't be loaded raises."""
        if target not in self._calls:
            try:
                with self._loading():
                    function = load(Target(*target), self.job.root, self.job.functions)  # type: ignore[arg-type]
                self._calls[target] = Call.of(function)
            except Exception as error:
                self._calls[target] = Call(_raising(error), False, False)
        return self._calls[target]

    def seed_key(self, work: Work) -> Callable[[], tuple[bytes, int]]:
        """What gives that from which a task's seed comes."""
        if work.listed is not None:
            return work.listed.seed_key
        assert self.plan is not None
        return partial(self.plan.seed_key, work.task)

    def work(self, chunk: Chunk) -> Iterator[Work]:
        """The chunk's tasks, ready to be called."""
        if chunk.items is None:
            assert self.plan is not None
            assert self.only is not None
            for task, params in self.plan.walk(chunk.low, chunk.high):
                yield Work(task, 0, params, self.only)
            return
        for item in chunk.items:
            yield self._item(item)

    def _item(self, item: Item) -> Work:
        if item.content is None:
            assert self.plan is not None
            assert self.only is not None
            return Work(item.task, item.attempt, self.plan.params(item.task), self.only)
        listed = decode_listed(item.content)
        if item.call is not None:
            packed = Call(partial(call_packed, item.call), False, False)
            return Work(item.task, item.attempt, {}, packed, listed, True)
        call = self.call((listed.target.kind, listed.target.ref))
        return Work(item.task, item.attempt, dict(listed.params), call, listed)


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(**params: Any) -> Any:  # noqa: ARG001
        raise error

    return fail

"""Calling ordinary functions from an event loop.

Tasks: one thread per lane, one call at a time. Calls that a task passes to the loop's own pool:
threads that tasks share, where each call belongs to the task that asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from runyard.attempt import forked

CallResult = tuple[Any, BaseException | None]


class LoopThreads(ThreadPoolExecutor):
    """The pool behind `run_in_executor(None, …)`: each call keeps its caller's context."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Call a function in the caller's context, as `asyncio.to_thread` does."""
        here = contextvars.copy_context()
        return super().submit(here.run, function, *args, **named)


async def share_threads() -> None:
    """Let tasks on this loop use its pool, each with its own context."""
    asyncio.get_running_loop().set_default_executor(LoopThreads())


class CallThread:
    """A daemon thread, so that a function that hangs can't keep the interpreter from exiting."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="runyard-call").start()

    async def call(self, function: Callable[..., Any], **params: Any) -> Any:
        """Return what the function returns, or raise what it raises, even StopIteration."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[CallResult] = loop.create_future()
        here = contextvars.copy_context()

        def run() -> None:
            try:
                with forked.contained():
                    found: CallResult = here.run(function, **params), None
            except BaseException as error:
                found = None, error
            with contextlib.suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(_arrive, done, found)

        self._calls.put(run)
        value, error = await done
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the thread after its current call."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _arrive(done: asyncio.Future[CallResult], found: CallResult) -> None:
    if not done.done():
        done.set_result(found)

"""Ordinary functions called from a loop.

Those that are tasks: a thread a lane, one call at a time. Those that a task hands to the loop's own
pool: threads that many tasks share, where each call belongs to the task that asked for it.
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

Found = tuple[Any, BaseException | None]


class LoopThreads(ThreadPoolExecutor):
    """What `run_in_executor(None, …)` uses on a loop that runs one task after another."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Call it in the context of whoever asks, as `asyncio.to_thread` does."""
        here = contextvars.copy_context()
        return super().submit(here.run, function, *args, **named)


async def share_threads() -> None:
    """Let tasks on this loop use its pool without mixing up their contexts."""
    asyncio.get_running_loop().set_default_executor(LoopThreads())


class CallThread:
    """A daemon, so that a function that hangs can't keep the interpreter from ending."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="runyard-call").start()

    async def call(self, function: Callable[..., Any], **params: Any) -> Any:
        """What the function returns or raises, StopIteration too."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Found] = loop.create_future()
        here = contextvars.copy_context()

        def run() -> None:
            try:
                with forked.contained():
                    found: Found = here.run(function, **params), None
            except BaseException as error:
                found = None, error
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
                loop.call_soon_threadsafe(_arrive, done, found)

        self._calls.put(run)
        value, error = await done
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the thread after the call it is at."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _arrive(done: asyncio.Future[Found], found: Found) -> None:
    if not done.done():
        done.set_result(found)

"""`runyard.Executor`: the standard library's executor, durable and proof against crashes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from runyard.adapters.executor_engine import ExecutorEngine
from runyard.adapters.keys import KeyedCall, Keys, label
from runyard.attempt.packed import call_each, call_it, pack, pack_arguments
from runyard.backends import backend_class, open_backend
from runyard.backends.base import Backend
from runyard.errors import UsageError
from runyard.spec.batch import ListedTask
from runyard.spec.byvalue import Reduce
from runyard.spec.codec import dump_function
from runyard.spec.options import Options
from runyard.spec.seeds import check_root
from runyard.spec.task import Target
from runyard.yard import Yard


class Executor(futures.Executor):
    """A `concurrent.futures.Executor` whose tasks survive their workers.

    A task whose worker dies runs again, up to three times, without affecting other tasks; one that
    kills every worker it gets fails with `WorkerDied`. Functions, arguments and results travel by
    pickle; lambdas, closures and functions of a script or notebook are supported, and no main guard
    is needed. Tasks print to the same output as the script.

    With a `name`, results are recorded in the yard, and the same call made again, in the next run
    of the script too, gets its recorded result without being run: the same function (its own code
    counts), equal arguments, and as many equal calls before it. A call that failed runs again. Let
    one process at a time use a name, and only in a yard you trust: recorded results are unpickled.
    Calls that ended less than 0.1 s before the script was killed may run again.

    Without a name nothing is kept: results live as long as their futures, and the engine's own
    record is removed when the executor is closed.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        backend: str = "processes",
        name: str | None = None,
        yard: Yard | str | Path | None = None,
        retries: int = 0,
        timeout: str | float | None = None,
        memory: str | int | None = None,
        seed: int | None = None,
        environment: Mapping[str, str] | None = None,
        reduce: Reduce | None = None,
    ) -> None:
        """Open an executor with `max_workers` (default: one per core) on a backend.

        `retries`, `timeout` and `memory` are for each task, as in `runyard.run`; `seed` is the root
        seed of `runyard.context().rng` inside tasks; `environment` holds variables to set for
        worker processes; `reduce` returns how to pickle an argument, or None for the usual way.
        """
        options = Options().with_(
            retries=retries, timeout=timeout, memory=memory, capture=False, keep="never"
        )
        checked = None if seed is None else check_root(seed)
        lanes = _open(backend, max_workers, environment)
        try:
            self._engine = ExecutorEngine(lanes, name, yard, options, checked)
        except BaseException:
            lanes.close()
            raise
        self._keys = Keys() if name is not None else None
        self._priority = options.priority
        self._reduce = reduce
        self._numbers = count()
        # At exit the engine closes by itself, and waits for its tasks.
        self._closer = weakref.finalize(self, self._engine.close, wait=False)
        self._closer.atexit = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)`; returns a future."""
        return self._submit(dump_function(fn), [(fn, args, kwargs)], args, kwargs)

    def submit_calls(self, fn: Callable[[], Any], calls: Sequence[KeyedCall]) -> Future[Any]:
        """Run `fn()`, which makes these calls; a later run recognises it by them."""
        return self._submit(dump_function(call_it), calls, (fn,), {})

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """The results of `fn` for each item, in order, as soon as they are available.

        Short calls are sent together automatically; with a `chunksize`, that many form one task.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be 1 or more")
        until = None if timeout is None else time.monotonic() + timeout
        items = zip(*iterables, strict=False)
        if chunksize == 1:
            packed = dump_function(fn)
            found = [self._submit(packed, [(fn, args, {})], args, {}) for args in items]
            return _results(found, until)
        packed = dump_function(call_each)
        found = []
        while chunk := list(islice(items, chunksize)):
            calls: list[KeyedCall] = [(fn, args, {}) for args in chunk]
            found.append(self._submit(packed, calls, (fn, chunk), {}))
        return chain.from_iterable(_results(found, until))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; with `cancel_futures`, cancel those that have not started."""
        self._closer.detach()
        self._engine.close(wait=wait, cancel=cancel_futures)

    def kill_workers(self) -> None:
        """Accept no more calls and end running ones at once; cancels every unfinished future."""
        self._closer.detach()
        self._engine.close(abort=True)

    def _submit(
        self,
        function: bytes,
        calls: Sequence[KeyedCall],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Future[Any]:
        """Submit a packed function; its key is made from `calls`."""
        arguments = pack_arguments(args, kwargs, self._reduce)
        target = Target("value", label(calls[0][0]))
        key, params = None, {"call": next(self._numbers)}  # which its seed comes from
        if self._keys is not None:
            key, params = self._keys.next(calls, arguments), {}
        task = ListedTask(target, params, key, (), self._priority, None, None)
        return self._engine.submit(task, lambda: pack(function, arguments))


def _open(backend: str, workers: int | None, environment: Mapping[str, str] | None) -> Backend:
    if environment is None:
        return open_backend(backend, workers)
    if backend != "processes":
        raise UsageError(f"environment can't be set for workers of {backend}", hint="use processes")
    from runyard.backends.processes import ProcessesBackend

    lanes = workers or backend_class(backend).default_workers()
    return ProcessesBackend(lanes, environment)


def _results(found: list[Future[Any]], until: float | None) -> Iterator[Any]:
    """The results of the futures, in order; the rest is cancelled when reading stops."""
    found.reverse()
    try:
        while found:
            left = None if until is None else until - time.monotonic()
            yield found.pop().result(left)
    finally:
        for future in found:
            future.cancel()

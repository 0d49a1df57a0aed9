"""Between an executor and its engine: a thread that runs the engine, one that delivers futures.

    submit ──▶ submissions ──▶ engine thread ──▶ workers
    future ◀── delivery thread ◀── outcomes ──┘

The engine never waits for a user's callback, and nothing here refers to the executor, so an
executor that is no longer used closes by itself.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from runyard import errors
from runyard.attempt.packed import load_error
from runyard.backends.base import Backend
from runyard.errors import ExecutorClosed, RunyardError, SpecChanged, TaskError, UsageError
from runyard.schedule.cancelling import is_running
from runyard.schedule.engine import Engine
from runyard.schedule.registration import Start, register
from runyard.schedule.submissions import Submissions
from runyard.spec.batch import Batch, ListedTask
from runyard.spec.codec import decode_as
from runyard.spec.names import safe_name
from runyard.spec.options import Options
from runyard.spec.outcome import ErrorInfo, OutcomeRow
from runyard.spec.status import CANCELLED, COMPLETED
from runyard.store.stored_batch import StoredBatch, encode_options
from runyard.yard import Yard

OWNER = "runyard.Executor"
"""Marks a stored batch as an executor's."""


class RemoteTrace(Exception):
    """The traceback of the worker that raised an error."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


Delivery = tuple[OutcomeRow, bytes | None]
"""An outcome to be delivered to its future, and the error that its task raised."""


class ExecutorEngine:
    """A long-lived engine, and the futures of its submissions."""

    def __init__(
        self,
        backend: Backend,
        name: str | None,
        yard: Yard | str | Path | None,
        options: Options,
        seed: int | None,
    ) -> None:
        if name is None and yard is None:
            yard = scratch_yard()
        self._owns_yard = not isinstance(yard, Yard)
        self._yard = yard if isinstance(yard, Yard) else Yard(yard)
        self._named = name is not None
        self._lock = threading.Lock()
        self._futures: dict[int, Future[Any]] = {}
        self._deliveries: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._batch = self._register(name or _number(), options, seed)
        self._known = self._read_names()
        self._submissions = Submissions(
            self._batch.row.next_task, only=True, keep_values=self._named,
            may_start=self._may_start,
            ended=lambda row, raised: self._deliveries.put((row, raised)),
        )  # fmt: skip
        self._engine = Engine(
            self._yard.store, Start(self._batch), backend, self._yard.folder,
            self._yard.bus.publish, submissions=self._submissions,
        )  # fmt: skip
        self._backend = backend
        self._threads = [
            threading.Thread(target=self._run, name="runyard-engine", daemon=True),
            threading.Thread(target=self._deliver, name="runyard-futures", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self.close)

    def submit(self, task: ListedTask, call: Callable[[], bytes]) -> Future[Any]:
        """A future for the task, already done if its outcome is recorded."""
        self._check_open()
        number = self._known.get(task.name or "")
        row = None if number is None else self._outcome(number)
        done = row if row is not None and row.status == COMPLETED else None
        packed = b"" if done else call()
        future: Future[Any] = Future()
        with self._lock:  # the outcome waits until its future is known
            self._check_open()
            if number is None:
                number = self._submissions.add(task, packed)
            elif done is not None:  # delivered like others: callbacks may call again
                future.set_running_or_notify_cancel()
                self._deliveries.put((done, None))
            else:
                self._submissions.add_again(number, task, packed, ended=row is not None)
            self._futures[number] = future
        return future

    def _check_open(self) -> None:
        if self._submissions.closed or self._error is not None:
            raise ExecutorClosed("the executor is closed") from self._error

    def _outcome(self, number: int) -> OutcomeRow | None:
        with self._yard.store.snapshot() as view:
            return view.outcome(self._batch.id, number)

    def close(self, *, wait: bool = True, cancel: bool = False, abort: bool = False) -> None:
        """End the engine: after all its tasks, after the running ones, or at once."""
        if cancel or abort:
            with self._lock:
                waiting = list(self._futures.values())
            for future in waiting:
                future.cancel()
        with self._lock:
            self._submissions.close(abort=abort)
        if wait:
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()

    def _register(self, name: str, options: Options, seed: int | None) -> StoredBatch:
        batch = Batch(None, None, (), safe_name(name, "executor name"), seed, "pickle", options)
        store = self._yard.store
        with store.transaction() as tx:
            found = tx.batch(name)
            if found is None:
                row = register(tx, batch, root=os.getcwd(), code={OWNER: ""}).row
                return StoredBatch(row)
            recorded = StoredBatch(found)
            if OWNER not in recorded.versions:
                raise SpecChanged(
                    f"{name!r} is recorded, but as a batch that is not an executor's",
                    hint="choose another name",
                )
            if seed is not None and seed != recorded.seed:
                raise SpecChanged(
                    f"{name!r} is recorded with the seed {recorded.seed}, now {seed}",
                    hint="choose another name, or leave the seed out",
                )
            if is_running(tx, store, recorded):
                raise UsageError(
                    f"another executor is running as {name!r}",
                    hint="close it first, or choose another name",
                )
            return StoredBatch(tx.update_batch(found.id, options=encode_options(options)))

    def _read_names(self) -> dict[str, int]:
        if not self._batch.row.total:
            return {}
        with self._yard.store.snapshot() as view:
            return {row.name: row.task for row in view.tasks(self._batch.id) if row.name}

    def _may_start(self, task: int) -> bool:
        with self._lock:
            future = self._futures.get(task)
            if future is None or future.running() or future.set_running_or_notify_cancel():
                return True
            del self._futures[task]
            return False

    def _run(self) -> None:
        error: BaseException
        try:
            end = self._engine.run()
            error = ExecutorClosed(f"the executor's engine has ended: {end.value}")
        except BaseException as failure:
            error = failure
        self._backend.close()
        with self._lock:
            self._error = error
            self._deliveries.put(None)
        atexit.unregister(self.close)
        if not self._named:
            with contextlib.suppress(RunyardError):
                self._yard.clear(self._batch.name)
        if self._owns_yard:
            self._yard.close()

    def _deliver(self) -> None:
        while (delivery := self._deliveries.get()) is not None:
            row, raised = delivery
            with self._lock:
                future = self._futures.pop(row.task, None)
            if future is not None:
                with contextlib.suppress(InvalidStateError):  # cancelled this very moment
                    _settle(future, row, raised)
        with self._lock:
            left, self._futures = list(self._futures.values()), {}
        for future in left:  # their tasks were never run
            if future.cancelled():
                future.set_running_or_notify_cancel()
            else:
                future.set_exception(self._error)


def _settle(future: Future[Any], row: OutcomeRow, raised: bytes | None) -> None:
    """Resolve a future with its task's outcome."""
    if row.status == CANCELLED:
        if future.cancel():
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(CancelledError())
        return
    if row.status != COMPLETED:
        future.set_exception(_error(row, raised))
        return
    try:
        value = decode_as("pickle", row.value or b"")
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


def _error(row: OutcomeRow, raised: bytes | None) -> BaseException:
    """The error that a task raised, or one that says how it ended."""
    info = ErrorInfo.decode(row.error or b"")
    error = load_error(raised) if raised is not None else None
    if error is None:
        kind = getattr(errors, info.kind, None)
        known = isinstance(kind, type) and issubclass(kind, TaskError)
        error = kind(info.message) if known else TaskError(f"{info.kind}: {info.message}")  # type: ignore[misc]
    if info.trace:
        error.__cause__ = RemoteTrace(info.trace)
    return error


_numbers = count(1)


def _number() -> str:
    return f"executor-{os.getpid()}-{next(_numbers)}"


def scratch_yard() -> Yard:
    """The yard for unnamed executors, gone with this process; a forked child has its own."""
    return _scratch(os.getpid())


@cache
def _scratch(pid: int) -> Yard:  # noqa: ARG001
    yard = Yard("memory:")
    atexit.register(yard.close)
    return yard

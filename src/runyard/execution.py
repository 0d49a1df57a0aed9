"""Running a registered batch: engine after engine until it is done, and the events on the way."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runyard import clock
from runyard.attempt.runner import StopNow
from runyard.backends import open_backend
from runyard.backends.base import Backend
from runyard.errors import BadTarget, UsageError
from runyard.events import Event, EventBus, Notice
from runyard.reports.logged import logged
from runyard.reports.progress import ShowProgress, show
from runyard.reports.result import Result
from runyard.schedule.ending import End
from runyard.schedule.engine import Engine
from runyard.schedule.registration import Start, add_replicates
from runyard.schedule.sharing import by_value
from runyard.store.base import Store, Transaction
from runyard.store.stored_batch import StoredBatch, known

OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class RunSettings:
    """Where a batch runs, and what is told of its progress."""

    backend: str | Backend = "processes"
    workers: int | None = None  # None: as many as the backend has room for
    ray_address: str | None = None  # the cluster that the backend `ray` joins
    fallback: str | None = None  # where to run when Ray can't start
    progress: ShowProgress = None
    on_event: OnEvent | None = None

    @property
    def backend_name(self) -> str:
        """The name of the backend."""
        return self.backend if isinstance(self.backend, str) else self.backend.name

    def open(self) -> Backend:
        """The backend, ready for a run."""
        if self.on_event is not None and not callable(self.on_event):
            raise UsageError(
                f"on_event is {self.on_event!r}", hint="pass a function that takes one event"
            )
        if isinstance(self.backend, Backend):
            if self.workers not in (None, self.backend.lanes):
                raise UsageError(
                    f"workers is {self.workers!r}, but the backend given has {self.backend.lanes}",
                    hint="leave workers out",
                )
            return self.backend
        return open_backend(
            self.backend, self.workers, ray_address=self.ray_address, fallback=self.fallback
        )


@dataclass
class Execution:
    """One call of `Yard.run` or `Yard.resume`."""

    store: Store
    folder: Path  # of the yard
    bus: EventBus
    settings: RunSettings
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)  # by value
    codec: str = "msgpack"
    preempted: Callable[[Transaction], bool] | None = None  # whether something more urgent waits
    limit: int | None = None  # further outcomes after which the run ends

    def run(self, start: Start, backend: Backend) -> Result:
        """Run until the batch is done or something ends the run; closes the backend."""
        batch = start.batch
        with contextlib.ExitStack() as stack:
            stack.callback(backend.close)
            if self.settings.on_event is not None:
                stack.enter_context(self.bus.subscribe(Event, self.settings.on_event))
            stack.enter_context(logged(self.bus))
            stack.enter_context(show(self.bus, self.settings.progress))
            end, ran, begin = End.FINISHED, False, clock.monotonic()
            most = None if self.limit is None else batch.row.done + self.limit
            grown: StoredBatch | None = batch
            while grown is not None:
                batch = grown
                if batch.row.pending:
                    elapsed, ran = clock.monotonic() - begin, True
                    end = self._run_engine(start._replace(batch=batch), backend, most, elapsed)
                    start = start._replace(events=[])
                grown = self._grown(batch, end)
                backend = backend if grown is None else backend.again()
            for event in start.events:  # no engine ran that would have published them
                self.bus.publish(event)
            self.bus.flush()
        return self.result(batch.name, end, ran=ran)

    def result(self, name: str, end: End | None = None, *, ran: bool = True) -> Result:
        """The batch's result so far."""
        reason, folder = "" if end is None else end.value, self.folder / "batches" / name
        return Result(self.store, name, codec=self.codec, end=reason, ran=ran, folder=folder)

    def _run_engine(self, start: Start, backend: Backend, most: int | None, elapsed: float) -> End:
        engine = Engine(
            self.store, start, backend, self.folder, self.bus.publish, functions=self.functions,
            preempted=self.preempted, limit=most, elapsed=elapsed,
        )  # fmt: skip
        try:
            end = engine.run()
        except StopNow:
            end = End.INTERRUPTED
        if end is End.INTERRUPTED or engine.signal is not None:
            self.bus.flush()
            if engine.signal == signal.SIGTERM:
                raise SystemExit(128 + signal.SIGTERM)
            raise KeyboardInterrupt
        return end

    def _grown(self, before: StoredBatch, end: End) -> StoredBatch | None:
        """The batch with tasks that were added meanwhile, or that its `until` asks for."""
        until = before.options.until
        if end is not End.OUTGROWN and (end is not End.FINISHED or until is None):
            return None
        batch = stored_batch(self.store, before.name)
        if batch.row.pending:
            return batch
        return None if until is None else self._with_replicates(batch, until)

    def _with_replicates(self, batch: StoredBatch, until: str) -> StoredBatch | None:
        """The batch with more replicates, if its `until` does not hold yet."""
        from runyard.reports.verdict import interim_check

        seen = interim_check(self.result(batch.name), until)
        self.bus.publish(Notice(batch=batch.name, text=seen.text))
        if seen.holds:
            return None
        if not self.functions:
            refuse_by_value(self.store, batch.name)
        return self.store.write(lambda tx: add_replicates(tx, batch, seen.replicates))


def stored_batch(store: Store, name: str) -> StoredBatch:
    """A batch as it is in the store."""
    with store.snapshot() as view:
        return StoredBatch(known(view, name))


def refuse_by_value(store: Store, name: str) -> None:
    """Raise for a batch whose functions travel by value: only its script can continue it."""
    with store.snapshot() as view:
        function = by_value(view, known(view, name))
    if function is not None:
        raise BadTarget(
            f"{name} runs the function {function}, which travels by value and is never stored",
            hint="run its script or notebook cell again; it continues where it stopped",
        )

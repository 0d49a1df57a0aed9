"""The facade: a project's batches and everything that can be done with them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from runyard import logs
from runyard.addresses import DEFAULT_YARD
from runyard.backends.base import Backend
from runyard.errors import BadSpec, NotFound, UsageError
from runyard.events import EventBus, read
from runyard.execution import (
    Execution,
    OnEvent,
    RunSettings,
    refuse_by_value,
    stored_batch,
)
from runyard.reports.printed import TaskOutput, printed
from runyard.reports.progress import ShowProgress
from runyard.reports.result import Result
from runyard.schedule import cancelling
from runyard.schedule.changed import Code, present_code
from runyard.schedule.registration import Start, go_on, put_on_record
from runyard.schedule.retries import requeue_status
from runyard.schedule.targets import check_recorded_target, check_targets
from runyard.spaces import remove_tree
from runyard.spec.batch import Batch
from runyard.spec.names import closest, safe_name
from runyard.spec.option_kinds import check_error_classes
from runyard.spec.options import SPECS, Options
from runyard.spec.status import Status
from runyard.store import files_folder, open_store
from runyard.store.base import Store, Transaction
from runyard.store.stored_batch import StoredBatch, encode_options, known

_OF_A_BATCH = ("seed", "name", "replicates", "codec", "common_random_numbers")
_OF_A_RUN = (
    "backend", "workers", "ray_address", "fallback", "progress", "on_event", "fresh", "limit",
)  # fmt: skip


class Yard:
    """A project's `.runyard` folder: its store, workspaces, audit logs and reports."""

    def __init__(self, location: str | Path | None = None, *, durable: bool = False) -> None:
        """Open the yard at a folder (default: `$RUNYARD_YARD`, otherwise `.runyard`).

        `postgresql://…` names a yard that machines share; each machine keeps its own files (in
        `$RUNYARD_FILES`, otherwise below `.runyard`). `memory:` is a yard in memory, for tests,
        that ends with the object. With `durable`, each commit waits for the disk, so that even a
        power cut loses nothing.
        """
        logs.configure()
        if not isinstance(location, str | os.PathLike | None):
            raise UsageError(
                f"a yard can't be opened at {location!r}",
                hint="pass the path of a folder, postgresql://… or memory:",
            )
        self.location = str(location or os.environ.get("RUNYARD_YARD") or DEFAULT_YARD)
        self.bus = EventBus()
        self._durable = durable
        self._store: Store | None = None
        self._opening = threading.Lock()
        self._end_of_memory: weakref.finalize[[Path, int], Yard] | None = None
        if self.location == "memory:":
            self.folder = Path(tempfile.mkdtemp(prefix="runyard-"))
            self._end_of_memory = weakref.finalize(self, _remove, self.folder, os.getpid())
        else:
            self.folder = files_folder(self.location).absolute()

    @property
    def store(self) -> Store:
        """The durable record, opened on first use."""
        with self._opening:
            if self._store is None:
                if self._end_of_memory is not None and not self._end_of_memory.alive:
                    raise UsageError(
                        "this memory: yard is closed, and its record is gone",
                        hint="open another one with Yard('memory:')",
                    )
                self._store = open_store(self.location, durable=self._durable)
            return self._store

    def submit(self, batch: Batch, *, fresh: bool = False) -> str:
        """Record a batch without running it; returns its name."""
        start = self._register(_checked(batch), fresh)
        for event in start.events:
            self.bus.publish(event)
        return start.batch.name

    def run(
        self,
        batch: Batch,
        *,
        backend: str | Backend = "processes",
        workers: int | None = None,
        ray_address: str | None = None,
        fallback: str | None = None,
        progress: ShowProgress = None,
        on_event: OnEvent | None = None,
        fresh: bool = False,
        limit: int | None = None,
        **options: Any,
    ) -> Result:
        """Run a batch, or continue it; tasks with an outcome are not run again.

        `backend` is a name or a backend of your own. `ray_address` is the cluster that the backend
        `ray` joins (default: `$RAY_ADDRESS`, otherwise it starts Ray itself); with
        `fallback="serial"` the batch runs there when Ray can't start. `limit` ends the run after
        that many further outcomes, in order; the next run continues from there. `options` are
        those of `Options`: retries, timeout, memory, priority, fail_fast, …
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise UsageError(f"limit is {limit!r}", hint="use a whole number, 1 or more")
        settings = RunSettings(backend, workers, ray_address, fallback, progress, on_event)
        _refuse_misplaced(options)
        batch = _checked(batch).with_options(**options)
        place = settings.open()
        try:
            start = self._register(batch, fresh, place.name)
        except BaseException:
            place.close()
            raise
        execution = self._execution(
            settings, functions=batch.functions, codec=batch.codec, limit=limit
        )
        return execution.run(start, place)

    def resume(
        self,
        name: str,
        *,
        backend: str | Backend = "processes",
        workers: int | None = None,
        ray_address: str | None = None,
        fallback: str | None = None,
        progress: ShowProgress = None,
        on_event: OnEvent | None = None,
        codec: str = "msgpack",
        **options: Any,
    ) -> Result:
        """Continue a recorded batch. If its functions travel by value, run its script instead.

        `options` replace those that it was run with.
        """
        settings = RunSettings(backend, workers, ray_address, fallback, progress, on_event)
        batch = self.recorded(name)
        _refuse_misplaced(options)
        settled = batch.options.with_(**options)
        _check_options(settled, listed=batch.listed)
        execution = self._execution(settings, codec=codec)
        if settled.until is not None or (batch.row.pending and settled.metrics):
            execution.result(name).codec_of_values()
        if batch.row.pending:
            self.refuse_by_value(name)
            check_recorded_target(batch)
        if options:
            changes = {"options": encode_options(settled), "priority": settled.priority}
            number = batch.id
            row = self.store.write(lambda tx: tx.update_batch(number, **changes))
            batch = StoredBatch(row)
        with self.store.snapshot() as view:
            code = present_code(view, batch, settings.backend_name)
        start = self._tidied(go_on(self.store, batch, code, settled.changed))
        return execution.run(start, settings.open())

    def take_part(
        self,
        name: str,
        preempted: Callable[[Transaction], bool],
        settings: RunSettings,
    ) -> Result:
        """Run a batch beside other engines, until nothing is left to take or it is preempted."""
        with self.store.snapshot() as view:
            batch = StoredBatch(known(view, name))
            is_list = batch.listed
            check_recorded_target(batch)
            code = Code({}, []) if is_list else present_code(view, batch, settings.backend_name)
        # Others may be at work, so what is recorded is not taken back here.
        refuses = batch.options.changed == "refuse"
        start = go_on(self.store, batch, code, "refuse" if refuses else "keep")
        return self._execution(settings, preempted=preempted).run(start, settings.open())

    def retry(self, name: str, status: Status | str = Status.FAILED) -> int:
        """Let failed tasks run again with the next `resume`; returns how many."""
        batch = self.recorded(name)

        def requeue(tx: Transaction) -> list[int]:
            cancelling.refuse_running(tx, self.store, batch)
            return requeue_status(tx, batch, Status(status))

        tasks = self.store.write(requeue)
        self._remove_files(name, tasks)
        return len(tasks)

    def stop(self, name: str | None = None) -> int:
        """Ask engines to stop once their running tasks end; returns how many."""

        def ask(tx: Transaction) -> int:
            wanted = None if name is None else known(tx, name).id
            asked = set()
            for engine in tx.engines():
                if self.store.alive(engine.id) and wanted in (None, engine.batch):
                    tx.update_engine(engine.id, stop=1)
                    asked.add((engine.host, engine.pid))
            return len(asked)

        return self.store.write(ask)

    def cancel(self, name: str, task: int | None = None) -> int:
        """Cancel a batch, or a task and its followers, running or not; returns how many tasks."""
        batch = self.recorded(name)

        def cancel(tx: Transaction) -> int:
            running = cancelling.is_running(tx, self.store, batch)
            if task is None:
                return cancelling.cancel_batch(tx, batch, running=running)
            return cancelling.cancel_task(tx, batch, task, running=running)

        return self.store.write(cancel)

    def clear(self, name: str) -> None:
        """Delete a batch: its record and its files."""
        batch = self.recorded(name)

        def delete(tx: Transaction) -> None:
            cancelling.refuse_running(tx, self.store, batch)
            tx.delete_batch(batch.id)

        self.store.write(delete)
        remove_tree(self.batch_folder(name))

    def status(self) -> list[Result]:
        """Every batch, oldest first."""
        with self.store.snapshot() as view:
            return [self._result(row.name) for row in view.batches()]

    def results(self, name: str, *, codec: str = "msgpack") -> Result:
        """The results of a batch; with `codec="pickle"`, pickled values are unpickled."""
        self.recorded(name)
        return self._result(name, codec)

    def printed(self, name: str, task: int) -> dict[int, TaskOutput]:
        """What a task printed, by attempt, where an attempt printed something."""
        batch = self.recorded(name).id
        with self.store.snapshot() as view:
            return printed(view, batch, self.batch_folder(name), task)

    def events(self, name: str, *, task: int | None = None) -> Iterator[dict[str, Any]]:
        """The events of a batch, or of one task, from its audit log."""
        self.recorded(name)
        return read(self.batch_folder(name) / "events.jsonl", task=task)

    def recorded(self, name: str) -> StoredBatch:
        """A batch as it is in the store."""
        return stored_batch(self.store, name)

    def refuse_by_value(self, name: str) -> None:
        """Raise for a batch whose functions travel by value: only its script can continue it."""
        refuse_by_value(self.store, name)

    def batch_folder(self, name: str) -> Path:
        """Where a batch's files are."""
        return self.folder / "batches" / safe_name(name, "batch name")

    def close(self) -> None:
        """Close the store, and end all subscriptions."""
        self.bus.close()
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._end_of_memory is not None:
            self._end_of_memory()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execution(self, settings: RunSettings, **more: Any) -> Execution:
        return Execution(self.store, self.folder, self.bus, settings, **more)

    def _result(self, name: str, codec: str = "msgpack") -> Result:
        return Result(self.store, name, codec=codec, folder=self.batch_folder(name))

    def _register(self, batch: Batch, fresh: bool, backend: str = "serial") -> Start:
        root = os.getcwd()
        found = check_targets(batch, root)
        _check_options(batch.options, listed=batch.plan is None)
        if fresh:
            with contextlib.suppress(NotFound):
                self.clear(batch.record_name)
        return self._tidied(put_on_record(self.store, batch, found, root=root, backend=backend))

    def _tidied(self, start: Start) -> Start:
        if start.again:
            self._remove_files(start.batch.name, list(start.again))
        return start

    def _remove_files(self, name: str, tasks: list[int]) -> None:
        """Remove files made from outcomes that have been forgotten."""
        remove_tree(self.batch_folder(name) / "columns")
        for task in tasks:
            remove_tree(self.batch_folder(name) / "tasks" / str(task))


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _checked(batch: Batch) -> Batch:
    if not isinstance(batch, Batch):
        raise BadSpec(
            f"{batch!r:.80} is not a batch", hint="make one with grid(…), batch(…) or tasks(…)"
        )
    return batch


def _refuse_misplaced(options: Mapping[str, Any]) -> None:
    """Refuse what belongs to the batch, and misspelt parameters of `run` that are no options."""
    for name in options:
        if name in SPECS:
            continue
        if name in _OF_A_BATCH:
            raise BadSpec(
                f"{name!r} belongs to the batch", hint="pass it to grid(…), batch(…) or tasks(…)"
            )
        meant = closest(name, (*_OF_A_RUN, *SPECS))
        if meant in _OF_A_RUN:
            raise BadSpec(f"there is no option {name!r}; did you mean {meant!r}?")


def _check_options(options: Options, *, listed: bool) -> None:
    """Refuse what only shows once the batch and its functions are known."""
    check_error_classes((*options.retry_on, *options.never_retry))
    if options.until is not None:
        from runyard.reports.verdict import check_rule

        check_rule(options.until, listed=listed)

"""The facade: a project's batches and everything that can be done with them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from runyard import clock
from runyard.attempt.runner import StopNow
from runyard.backends import open_backend
from runyard.backends.base import Backend
from runyard.errors import BadTarget, NotFound, UsageError
from runyard.events import Event, EventBus, Notice, read
from runyard.reports.printed import Output, printed
from runyard.reports.progress import Progress, show
from runyard.reports.result import Result
from runyard.schedule import control
from runyard.schedule.changed import present_code
from runyard.schedule.engine import Engine
from runyard.schedule.loop import End
from runyard.schedule.registration import Start, add_replicates, go_on, put_on_record
from runyard.schedule.sharing import by_value
from runyard.schedule.targets import check_targets
from runyard.spaces import remove_tree
from runyard.spec.batch import Batch
from runyard.spec.names import safe_name
from runyard.spec.status import Status
from runyard.store import files_folder, open_store
from runyard.store.base import Store, Transaction
from runyard.store.rows import BatchRow
from runyard.store.stored_batch import StoredBatch, encode_options

DEFAULT = ".runyard"
OnEvent = Callable[[Event], None]


class Yard:
    """A project's `.runyard` folder: its store, workspaces, audit logs and reports."""

    def __init__(self, location: str | Path | None = None, *, durable: bool = False) -> None:
        """Open the yard at a folder (default: `$RUNYARD_YARD`, else `.runyard`).

        `postgresql://…` names one that machines share; what files there are, each machine keeps
        for itself (in `$RUNYARD_FILES`, else below `.runyard`). `memory:` gives one that is gone
        with the object, for tests. With `durable`, each commit waits for the disk, so that a power
        cut loses nothing either.
        """
        self.location = str(location or os.environ.get("RUNYARD_YARD") or DEFAULT)
        self.bus = EventBus()
        self._durable = durable
        self._store: Store | None = None
        self._opening = threading.Lock()
        self._temporary: Path | None = None
        if self.location == "memory:":
            self._temporary = Path(tempfile.mkdtemp(prefix="runyard-"))
            weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        self.folder = self._temporary or files_folder(self.location).absolute()

    @property
    def store(self) -> Store:
        """The durable record, opened on first use."""
        with self._opening:
            if self._store is None:
                self._store = open_store(self.location, durable=self._durable)
            return self._store

    def submit(self, batch: Batch, *, fresh: bool = False) -> str:
        """Put a batch on record without running it; its name."""
        start = self._register(batch, fresh)
        for event in start.events:
            self.bus.publish(event)
        return start.recorded.name

    def run(
        self,
        batch: Batch,
        *,
        backend: str = "processes",
        workers: int | None = None,
        ray_address: str | None = None,
        fallback: str | None = None,
        progress: Progress = None,
        on_event: OnEvent | None = None,
        fresh: bool = False,
        limit: int | None = None,
        **options: Any,
    ) -> Result:
        """Run a batch, or go on with it; what is recorded is not run again.

        `ray_address` is the cluster that the backend `ray` joins (default: `$RAY_ADDRESS`, else a
        Ray of its own); `fallback="serial"` is where it runs when Ray can't start. `limit` ends
        the run after as many further outcomes, in order; the next run goes on behind them.
        `options` are those of `Options`: retries, timeout, memory, priority, fail_fast, …
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise UsageError(f"limit is {limit!r}", hint="use a whole number from 1 up")
        batch = batch.with_options(**options)
        place = open_backend(backend, workers, ray_address=ray_address, fallback=fallback)
        try:
            start = self._register(batch, fresh)
        except BaseException:
            place.close()
            raise
        return self._run(
            start, place, batch.functions, batch.codec, progress, on_event, limit=limit
        )

    def resume(
        self,
        name: str,
        *,
        backend: str = "processes",
        workers: int | None = None,
        ray_address: str | None = None,
        fallback: str | None = None,
        progress: Progress = None,
        on_event: OnEvent | None = None,
        codec: str = "msgpack",
        **options: Any,
    ) -> Result:
        """Go on with a recorded batch. One of functions by value needs its script run again.

        `options` take the place of those it was run with.
        """
        recorded = self.recorded(name)
        settled = recorded.options.with_(**options)
        _check_rule(settled.until, listed=recorded.listed)
        if settled.until is not None or (recorded.row.pending and settled.reads_values):
            self._result(name, codec).codec_of_values()
        if recorded.row.pending:
            self.refuse_by_value(name)
        if options:
            changes = {"options": encode_options(settled), "priority": settled.priority}
            with self.store.transaction() as tx:
                recorded = StoredBatch(tx.update_batch(recorded.id, **changes))
        with self.store.snapshot() as view:
            code = present_code(view, recorded)
        start = self._tidied(go_on(self.store, recorded, code, settled.changed))
        place = open_backend(backend, workers, ray_address=ray_address, fallback=fallback)
        return self._run(start, place, {}, codec, progress, on_event)

    def take_part(
        self,
        name: str,
        preempted: Callable[[Transaction], bool],
        *,
        backend: str = "processes",
        workers: int | None = None,
        ray_address: str | None = None,
        fallback: str | None = None,
        progress: Progress = None,
        on_event: OnEvent | None = None,
    ) -> Result:
        """Go on with a batch beside others, until nothing is left to take or it is preempted."""
        with self.store.snapshot() as view:
            recorded = StoredBatch(self._row(view.batch(name), name))
            code = {} if recorded.listed else present_code(view, recorded)
        # Others may be at work: what is recorded is not for one of them to take back.
        refuses = recorded.options.changed == "refuse"
        start = go_on(self.store, recorded, code, "refuse" if refuses else "keep")
        place = open_backend(backend, workers, ray_address=ray_address, fallback=fallback)
        return self._run(start, place, {}, "msgpack", progress, on_event, preempted)

    def retry(self, name: str, status: Status | str = Status.FAILED) -> int:
        """Let the failed tasks run again at the next `resume`; how many there are."""
        recorded = self.recorded(name)
        with self.store.transaction() as tx:
            control.refuse_running(tx, self.store, recorded)
            tasks = control.requeue_status(tx, recorded, Status(status))
        self._remove_files(name, tasks)
        return len(tasks)

    def stop(self, name: str | None = None) -> int:
        """Ask running engines to stop after their current tasks; how many there are."""
        asked = set()
        with self.store.transaction() as tx:
            wanted = None if name is None else self._row(tx.batch(name), name).id
            for engine in tx.engines():
                if self.store.alive(engine.id) and wanted in (None, engine.batch):
                    tx.update_engine(engine.id, stop=1)
                    asked.add((engine.host, engine.pid))
        return len(asked)

    def cancel(self, name: str, task: int | None = None) -> int:
        """Cancel a batch, or one task and those that come after it, running or not; how many."""
        recorded = self.recorded(name)
        with self.store.transaction() as tx:
            running = control.is_running(tx, self.store, recorded)
            if task is None:
                return control.cancel_batch(tx, recorded, running=running)
            return control.cancel_task(tx, recorded, task, running=running)

    def clear(self, name: str) -> None:
        """Forget a batch: its record, its files, everything."""
        recorded = self.recorded(name)
        with self.store.transaction() as tx:
            control.refuse_running(tx, self.store, recorded)
            tx.delete_batch(recorded.id)
        remove_tree(self.batch_folder(name))

    def status(self) -> list[Result]:
        """Every batch, oldest first."""
        with self.store.snapshot() as view:
            return [self._result(row.name) for row in view.batches()]

    def results(self, name: str, *, codec: str = "msgpack") -> Result:
        """What came out of a batch; `codec="pickle"` lets pickled values be unpickled."""
        self.recorded(name)
        return self._result(name, codec)

    def printed(self, name: str, task: int) -> dict[int, Output]:
        """What a task printed, by attempt; only those that printed something."""
        batch = self.recorded(name).id
        with self.store.snapshot() as view:
            return printed(view, batch, self.batch_folder(name), task)

    def events(self, name: str, *, task: int | None = None) -> Iterator[dict[str, Any]]:
        """The story of a batch, or of one task, from its audit log."""
        self.recorded(name)
        path = self.batch_folder(name) / "events.jsonl"
        return read(path, task=task) if path.exists() else iter(())

    def recorded(self, name: str) -> StoredBatch:
        """A batch as it stands on record."""
        with self.store.snapshot() as view:
            return StoredBatch(self._row(view.batch(name), name))

    def refuse_by_value(self, name: str) -> None:
        """Raise for a batch whose functions travel by value: only its script can go on with it."""
        with self.store.snapshot() as view:
            function = by_value(view, self._row(view.batch(name), name))
        if function is not None:
            raise BadTarget(
                f"{name} runs the function {function}, which travels by value and is never stored",
                hint="run its script or notebook cell again; it goes on where it stopped",
            )

    def batch_folder(self, name: str) -> Path:
        """Where a batch's files are."""
        return self.folder / "batches" / safe_name(name, "batch name")

    def close(self) -> None:
        """Let go of the store and of whoever listens."""
        self.bus.close()
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(
        self,
        start: Start,
        backend: Backend,
        functions: dict[str, Callable[..., Any]],
        codec: str,
        progress: Progress,
        on_event: OnEvent | None,
        preempted: Callable[[Transaction], bool] | None = None,
        limit: int | None = None,
    ) -> Result:
        recorded = start.recorded
        with contextlib.ExitStack() as stack:
            stack.callback(backend.close)
            if on_event is not None:
                stack.enter_context(self.bus.subscribe(Event, on_event))
            stack.enter_context(show(self.bus, progress))
            end, ran = End.FINISHED, False
            most = None if limit is None else recorded.row.done + limit
            begin = clock.monotonic()
            more: StoredBatch | None = recorded
            while more is not None:
                recorded = more
                if recorded.row.pending:
                    start = start._replace(recorded=recorded)
                    spent, ran = clock.monotonic() - begin, True
                    end = self._run_once(start, backend, functions, spent, preempted, most)
                    start = start._replace(events=[])
                more = self._grown(recorded, end, codec, functions)
                backend = backend if more is None else backend.again()
            for event in start.events:  # no engine ran that would have told them
                self.bus.publish(event)
            self.bus.flush()
        return self._result(recorded.name, codec, end, ran=ran)

    def _run_once(
        self,
        start: Start,
        backend: Backend,
        functions: dict[str, Callable[..., Any]],
        spent: float,
        preempted: Callable[[Transaction], bool] | None,
        most: int | None,
    ) -> End:
        engine = Engine(
            self.store, start.recorded, backend, self.folder, self.bus.publish, functions,
            spent=spent, preempted=preempted, limit=most, code=start.code, opening=start.events,
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

    def _grown(
        self, before: StoredBatch, end: End, codec: str, functions: dict[str, Callable[..., Any]]
    ) -> StoredBatch | None:
        """The batch with the tasks that came to it meanwhile, or that its `until` wants."""
        until = before.options.until
        if end is not End.OUTGROWN and (end is not End.FINISHED or until is None):
            return None
        recorded = self.recorded(before.name)
        if recorded.row.pending:
            return recorded
        return None if until is None else self._replicated(recorded, until, codec, functions)

    def _replicated(
        self,
        recorded: StoredBatch,
        until: str,
        codec: str,
        functions: dict[str, Callable[..., Any]],
    ) -> StoredBatch | None:
        """The batch with more replicates, where its `until` does not hold yet."""
        from runyard.reports.verdict import interim_check

        name = recorded.name
        seen = interim_check(self._result(name, codec), until)
        self.bus.publish(Notice(batch=name, text=seen.text))
        if seen.holds:
            return None
        if not functions:
            self.refuse_by_value(name)
        with self.store.transaction() as tx:
            return add_replicates(tx, recorded, seen.replicates)

    def _result(
        self, name: str, codec: str = "msgpack", end: End | None = None, *, ran: bool = True
    ) -> Result:
        reason = end.value if end is not None else ""
        folder = self.batch_folder(name)
        return Result(self.store, name, codec=codec, end=reason, ran=ran, folder=folder)

    def _register(self, batch: Batch, fresh: bool) -> Start:
        root = os.getcwd()
        found = check_targets(batch, root)
        _check_rule(batch.options.until, listed=batch.plan is None)
        if fresh:
            with contextlib.suppress(NotFound):
                self.clear(batch.record_name)
        return self._tidied(put_on_record(self.store, batch, found, root=root))

    def _tidied(self, start: Start) -> Start:
        if start.again:
            self._remove_files(start.recorded.name, start.again)
        return start

    def _remove_files(self, name: str, tasks: list[int]) -> None:
        """Remove what was made of outcomes that are forgotten now."""
        remove_tree(self.batch_folder(name) / "columns")
        for task in tasks:  # what they printed the last time is not what they will print
            remove_tree(self.batch_folder(name) / "tasks" / str(task))

    @staticmethod
    def _row(row: BatchRow | None, name: str) -> BatchRow:
        if row is None:
            raise NotFound(
                f"there is no batch {name!r}", hint="`runyard status` lists those there are"
            )
        return row


def _check_rule(until: str | None, *, listed: bool) -> None:
    if until is not None:
        from runyard.reports.verdict import check_rule

        check_rule(until, listed=listed)

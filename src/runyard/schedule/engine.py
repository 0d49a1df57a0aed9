"""One run of one stored batch: sign on, run the loop, leave everything in order."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard import clock
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.wire import Job
from runyard.backends.base import Backend
from runyard.errors import DISK_FULL, StoreAway, StoreError, StoreFull, UsageError
from runyard.events import (
    AuditLog,
    BatchFinished,
    BatchStarted,
    BatchStopped,
    Event,
    Notice,
    Redactor,
    RunDescribed,
)
from runyard.schedule.changed import edited_meanwhile
from runyard.schedule.ending import End
from runyard.schedule.loop import Loop
from runyard.schedule.provenance import Provenance
from runyard.schedule.registration import Start
from runyard.schedule.retries import AttemptHistory
from runyard.schedule.run import Run
from runyard.schedule.sign_on import Presence, SignedOn
from runyard.schedule.signals import Signals
from runyard.schedule.submissions import Submissions
from runyard.schedule.sweep import lane_status_path
from runyard.schedule.writer import Writer
from runyard.spaces import Workspaces, task_folder
from runyard.spec.codec import dump_function
from runyard.spec.hash_seed import shown
from runyard.spec.status import COMPLETED
from runyard.store.base import Snapshot, Store, Transaction
from runyard.store.stored_batch import StoredBatch

if TYPE_CHECKING:
    from runyard.schedule.budget import Budget


def check_options(
    batch: StoredBatch, backend: Backend | type[Backend], folder: Path
) -> list[Notice]:
    """Refuse options that the backend can't serve; notices about those without effect."""
    options, useless = batch.options, []
    _ = batch.plan  # read here, so that damage is named before workers start
    if options.chdir and not backend.capabilities.own_directory:
        raise UsageError(
            f"chdir is not possible on {backend.name}, where tasks share one directory",
            hint="use processes, or ctx.workspace without changing into it",
        )
    if options.memory is not None and not backend.capabilities.memory_limit:
        useless.append(f"the memory limit has no effect on {backend.name}; use processes")
    if options.places and not backend.capabilities.places:
        useless.append(f"{', '.join(options.places)} has no effect on {backend.name}; use ray")
    if options.template is not None:
        template = Path(batch.row.root, options.template)
        Workspaces(batch_folder(folder, batch), keep=options.keep, template=template)
    return [Notice(batch=batch.name, text=text, level="warning") for text in useless]


def batch_folder(yard: Path, batch: StoredBatch) -> Path:
    """Where a batch's files are."""
    return yard / "batches" / batch.name


class Engine:
    """Runs a stored batch on a backend."""

    def __init__(
        self,
        store: Store,
        start: Start,
        backend: Backend,
        folder: Path,
        publish: Callable[[Event], None],
        *,
        functions: dict[str, Callable[..., Any]] | None = None,
        submissions: Submissions | None = None,
        preempted: Callable[[Transaction], bool] | None = None,
        limit: int | None = None,
        elapsed: float = 0.0,
    ) -> None:
        self._store = store
        self._batch = start.batch
        self._code = start.code
        self._backend = backend
        self._folder = folder  # of the yard
        self._publish = publish
        self._functions = {ref: dump_function(fn) for ref, fn in (functions or {}).items()}
        self._submissions = submissions  # the engine stays until these are closed
        self._preempted = preempted  # whether something more urgent waits elsewhere
        self._limit = limit  # outcomes in all after which this run ends
        self._elapsed = elapsed  # seconds of the deadline that earlier engines of this run used
        self._redactor = Redactor()
        self._opening = [*start.events, *check_options(start.batch, backend, folder)]
        self._presence = Presence(store, start.batch, backend, folder, start.code.fingerprints)
        self._signals = Signals(self._tell, lambda: store.hurry(StoreAway.last_seconds))
        self._engine: int | None = None  # its number, while it runs
        self._writer: Writer | None = None

    @property
    def signal(self) -> int | None:
        """The signal that interrupted the run."""
        return self._signals.first

    def run(self) -> End:
        """Run until the batch ends or something ends the run; the store is in order either way."""
        with self._signals.heard():
            return self._run()

    def _run(self) -> End:
        begin = clock.monotonic()
        signed_on = self._presence.sign_on()
        self._engine, self._batch = signed_on.engine, signed_on.batch
        end: End | None = None
        loop: Loop | None = None
        with contextlib.ExitStack() as stack, self._signals.obeyed():
            stack.enter_context(clock.pauses.counted())
            # Undone from the last to the first: nothing more comes in, all is written, sign off.
            stack.callback(self._store.relax)
            stack.callback(lambda: self._sign_off(loop))
            stack.callback((lanes := self._make_lane_status()).close, remove=True)
            audit = self._audit_log(self._batch_folder)
            run, history = self._make_run(lanes)
            self._writer = writer = Writer(run, audit, self._task_audit)
            writer.start()
            stack.callback(lambda: self._close_writer(writer, end, begin))
            stack.callback(self._backend.close)
            self._backend.open(self._job(lanes), lanes)
            loop = Loop(run, writer, history)
            for event in (*self._opening, *self._hash_seed_notice(signed_on), self._started()):
                self._say(event)
            if self._submissions is None or self._submissions.keep_values:
                stack.callback(self._describe().finish)
            self._signals.loop = loop
            reached = loop.run()
            self._store.check_place()  # if it was removed, the outcomes are recorded nowhere
            for event in edited_meanwhile(self._batch.name, self._code):
                self._say(event)
            end = reached
        self._check_metrics(run.budget, end)
        return end

    # Before

    def _make_lane_status(self) -> LaneStatusFile:
        assert self._engine is not None
        path = lane_status_path(self._folder, self._engine)
        try:
            return LaneStatusFile(path, self._backend.most_lanes, create=True)
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno not in DISK_FULL:
                raise StoreError(f"can't create {path}: {error.strerror}") from error
            hint = "free some disk space"
            raise StoreFull(f"no room for {path}: {error.strerror}", hint=hint) from error

    def _make_run(self, lanes: LaneStatusFile) -> tuple[Run, AttemptHistory]:
        """What all parts of the scheduler share, and earlier attempts at the batch's tasks."""
        assert self._engine is not None
        batch, submissions = self._batch, self._submissions
        if submissions is not None:
            submissions.open(batch.id, self._backend.wake)
        with self._store.snapshot() as view:
            history = AttemptHistory(view.attempts(batch.id))
            run = Run(
                self._store, batch, self._engine, self._backend, lanes, self._say,
                budget=self._budget(view), submissions=submissions, preempted=self._preempted,
                strict_order=self._starts_in_order(view), redactor=self._redactor,
                elapsed=self._elapsed,
            )  # fmt: skip
        return run, history

    def _budget(self, view: Snapshot) -> Budget | None:
        options, row = self._batch.options, self._batch.row
        until: tuple[str, ...] = ()
        if options.until is not None:
            from runyard.stats.conditions import parse_rule

            until = parse_rule(options.until).metrics()
        if not options.budget and options.metric is None and self._limit is None and not until:
            return None
        from runyard.schedule.budget import Budget

        return Budget(
            options.budget, options.metric, self._batch.codec, done=row.done, seconds=row.seconds,
            rows=view.outcomes(row.id, statuses=[COMPLETED]), limit=self._limit,
            until=until,
        )  # fmt: skip

    def _starts_in_order(self, view: Snapshot) -> bool:
        """Whether it matters which task starts first: in a queue, and where priorities differ."""
        if self._submissions is not None:
            return not self._submissions.only
        return self._batch.listed and view.has_priorities(self._batch.id)

    def _job(self, lanes: LaneStatusFile) -> Job:
        """The batch as lanes need to know it."""
        batch = self._batch
        assert self._engine is not None
        code = self._code.fingerprints
        return Job(
            batch=batch.id,
            name=batch.name,
            seed=batch.row.seed,
            target=batch.target,
            plan=batch.row.plan,
            functions=self._functions,
            codec=batch.codec,
            root=batch.row.root if Path(batch.row.root).is_dir() else os.getcwd(),
            path=tuple(place or os.getcwd() for place in sys.path),
            folder=str(self._batch_folder),
            engine=self._engine,
            lane_status=str(lanes.path),
            spool=str(lanes.path.parent),
            options=batch.options,
            code={ref: each for ref, each in code.items() if ref not in self._functions},
        )

    # What is said

    def _tell(self, text: str) -> None:
        self._publish(Notice(batch=self._batch.name, text=text))

    def _say(self, event: Event) -> None:
        """Publish an event of this engine, and write it to the audit log."""
        event = replace(event, engine=self._engine)
        if not event.live_only and self._writer is not None:
            self._writer.event(event)
        self._publish(event)

    def _started(self) -> BatchStarted:
        return BatchStarted(
            batch=self._batch.name,
            total=self._batch.row.total,
            seed=self._batch.seed,
            backend=self._backend.name,
            workers=self._backend.lanes,
        )

    def _hash_seed_notice(self, signed_on: SignedOn) -> list[Notice]:
        """A notice where tasks hash strings differently from those on record."""
        before, now = signed_on.seed_before, self._backend.hash_seed()
        if before in ("", now):
            return []
        text = (
            f"recorded outcomes were made with {shown(before)}, new ones with "
            f"{shown(now)}: outcomes that depend on the order of a set may differ "
            "(start Python with PYTHONHASHSEED=0)"
        )
        return [Notice(batch=self._batch.name, text=text)]

    def _describe(self) -> Provenance:
        """Find out in a thread where this run comes from, for the audit log."""

        def tell(found: dict[str, Any]) -> None:
            self._say(RunDescribed(batch=self._batch.name, **found))

        provenance = Provenance(self._batch.row.root, self._backend.hash_seed(), tell)
        provenance.start()
        return provenance

    # After

    def _close_writer(self, writer: Writer, end: End | None, begin: float) -> None:
        error, counts = writer.mailbox.error, writer.mailbox.counts
        if isinstance(error, StoreAway):
            self._store.hurry(StoreAway.last_seconds)
        if error is None:
            figures: dict[str, Any] = {
                "batch": self._batch.name,
                "completed": counts.completed,
                "failed": counts.failed,
                "cancelled": counts.cancelled,
                "recorded": writer.recorded,
                "seconds": clock.monotonic() - begin,
            }
            reason = "interrupted" if end is None else end.value
            is_whole = end is not None and counts.pending == 0
            self._say(
                BatchFinished(**figures) if is_whole else BatchStopped(reason=reason, **figures)
            )
        writer.close()

    def _sign_off(self, loop: Loop | None) -> None:
        assert self._engine is not None
        try:
            self._presence.sign_off(self._engine, loop.unfinished_claims() if loop else [])
        except StoreAway:
            if self.signal is None:
                raise
            text = "the database does not respond; recorded outcomes are kept"
            self._publish(Notice(batch=self._batch.name, text=text, level="warning"))

    def _check_metrics(self, budget: Budget | None, end: End) -> None:
        """Raise if no task has returned a metric that the budget or the progress needs."""
        if budget is not None and end in (End.METRIC, End.FINISHED):
            missing = budget.missing(at_the_end=end is End.FINISHED)
            if missing is not None:
                raise budget.error(self._batch.name, missing)

    @property
    def _batch_folder(self) -> Path:
        return batch_folder(self._folder, self._batch)

    def _audit_log(self, folder: Path) -> AuditLog:
        return AuditLog(folder / "events.jsonl", redact=self._redactor.redact)

    def _task_audit(self, task: int) -> AuditLog:
        return self._audit_log(task_folder(self._batch_folder, task, 0).parent)

"""One run of one recorded batch: sign on, run the loop, leave everything in order."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard import clock
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.wire import Job
from runyard.backends.base import Backend
from runyard.errors import DISK_FULL, NotFound, StoreAway, StoreError, StoreFull, UsageError
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
from runyard.schedule.agenda import Agenda
from runyard.schedule.control import forget_requests, is_running
from runyard.schedule.judge import Judge
from runyard.schedule.listed import cancel_doomed
from runyard.schedule.loop import End, Loop
from runyard.schedule.provenance import Provenance
from runyard.schedule.recorder import Recorder
from runyard.schedule.signals import Signals
from runyard.schedule.submissions import Submissions
from runyard.schedule.supply import history_of
from runyard.schedule.sweep import run_folder, sweep_dead_engines
from runyard.spaces import Workspaces, task_folder
from runyard.spec.codec import dump_function
from runyard.spec.hash_seed import shown
from runyard.spec.status import COMPLETED
from runyard.store.base import Snapshot, Store, Transaction
from runyard.store.stored_batch import StoredBatch
from runyard.store.versions import extended, hash_seed_of

if TYPE_CHECKING:
    from runyard.schedule.budget import Budget


class Engine:
    """Runs a recorded batch on a backend."""

    def __init__(
        self,
        store: Store,
        recorded: StoredBatch,
        backend: Backend,
        folder: Path,
        publish: Callable[[Event], None],
        functions: dict[str, Callable[..., Any]] | None = None,
        intake: Submissions | None = None,
        spent: float = 0.0,
        preempted: Callable[[Transaction], bool] | None = None,
        limit: int | None = None,
        code: Mapping[str, str] | None = None,
        opening: Sequence[Event] = (),
    ) -> None:
        self._store = store
        self._recorded = recorded
        self._backend = backend
        self._folder = folder  # of the yard
        self._publish = publish
        self._functions = {ref: dump_function(fn) for ref, fn in (functions or {}).items()}
        self._intake = intake  # the engine stays until this is closed
        self._spent = spent  # seconds of this run that other engines had
        self._outranked = preempted  # of a worker: whether something more urgent waits
        self._number: int | None = None  # while it runs
        self._limit = limit  # outcomes in all after which this run ends
        self._code = code or {}  # fingerprints of the functions that it runs
        self._opening = opening  # what the run has to tell before it begins
        self._redactor = Redactor()
        self._time = clock.steady()
        self._check_options()
        self._seed_before = ""  # the hash seed of what is recorded
        self._signals = Signals(self._tell, lambda: store.hurry(StoreAway.last_seconds))

    def _check_options(self) -> None:
        """Refuse what this backend or its workers could not do, or could not read."""
        batch, options, backend = self._recorded, self._recorded.options, self._backend
        _ = batch.plan  # read here, so that damage is named before workers start
        if options.chdir and not backend.capabilities.own_directory:
            raise UsageError(
                f"on {backend.name} tasks share one directory: chdir can't be",
                hint="use processes, or ctx.workspace without changing into it",
            )
        if options.memory is not None and not backend.capabilities.memory_limit:
            text = f"the memory limit has no effect on {backend.name}; use processes"
            self._publish(Notice(batch=batch.name, text=text, level="warning"))
        if options.places and not backend.capabilities.places:
            text = f"{', '.join(options.places)} has no effect on {backend.name}; use ray"
            self._publish(Notice(batch=batch.name, text=text, level="warning"))
        if options.template is not None:
            template = Path(batch.row.root, options.template)
            Workspaces(self._batch_folder, keep=options.keep, template=template)

    @property
    def signal(self) -> int | None:
        """What interrupted the run."""
        return self._signals.first

    def run(self) -> End:
        """Until the batch ends or something ends the run; the store is in order either way."""
        with self._signals.heard():
            return self._run()

    def _run(self) -> End:
        backend = self._backend
        begin = clock.monotonic()
        number = self._sign_on()
        end: End | None = None
        loop: Loop | None = None
        with contextlib.ExitStack() as stack, self._signals.obeyed():
            stack.enter_context(clock.pauses.counted())
            # From the last to the first: nothing more comes in, all of it is written, sign off.
            stack.callback(self._store.relax)
            stack.callback(lambda: self._sign_off(number, loop))
            stack.callback((lane_status := self._slots(number)).close, remove=True)
            audit = stack.enter_context(self._audit_log())
            meter = self._meter()
            if self._intake is not None:
                self._intake.open(self._recorded.id, backend.wake)
            recorder = Recorder(
                self._store, self._recorded.row, number, audit, self._task_audit(), backend.wake,
                meter, self._intake, self._outranked,
            )  # fmt: skip
            recorder.start()
            stack.callback(lambda: self._close_recorder(recorder, end, begin))
            stack.callback(backend.close)
            backend.open(self._job(number, lane_status), lane_status)
            loop = self._loop(number, lane_status, recorder, meter)
            for event in (*self._opening, *self._other_hash_seed(), self._started()):
                self._say(recorder, event)
            if self._intake is None or self._intake.keep_values:
                stack.callback(self._describe(recorder).finish)
            self._signals.loop = loop
            reached = loop.run()
            self._store.check_place()  # or all of it may be recorded nowhere
            end = reached
        if meter is not None and end in (End.METRIC, End.FINISHED):
            missing = meter.missing(at_the_end=end is End.FINISHED)
            if missing is not None:
                raise meter.error(self._recorded.name, missing)
        return end

    def _slots(self, number: int) -> LaneStatusFile:
        path = run_folder(self._folder) / f"{number}.slots"
        try:
            return LaneStatusFile(path, self._backend.most_lanes, create=True)
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno not in DISK_FULL:
                raise StoreError(f"can't make {path}: {error.strerror}") from error
            raise StoreFull(f"no room for {path}: {error.strerror}", hint="free some") from error

    def _sign_on(self) -> int:
        self._number, self._recorded = self._store.write(self._signed_on)
        return self._number

    def _signed_on(self, tx: Transaction) -> tuple[int, StoredBatch]:
        backend = self._backend
        number = tx.sign_on(socket.gethostname(), os.getpid(), backend.name, backend.lanes)
        self._store.acquire_liveness(number)  # before others can see it and take it for dead
        try:
            return number, self._begun(tx, number)
        except BaseException:
            self._store.release_liveness(number)
            raise

    def _begun(self, tx: Transaction, number: int) -> StoredBatch:
        """The batch as this engine takes it up; dead ones are cleared away first."""
        sweep_dead_engines(tx, self._store, self._folder)
        beside_others = is_running(tx, self._store, self._recorded)
        tx.update_engine(number, batch=self._recorded.id)
        found = tx.batch_by_id(self._recorded.id)
        if found is None:
            raise NotFound(f"{self._recorded.name} was removed from the store")
        now = self._time()
        ran = found.ran_until(now)
        seconds, counted = (ran.seconds, ran.counted) if beside_others else (found.seconds, now)
        started = now if found.started is None else found.started
        if self._recorded.listed:
            cancel_doomed(tx, found.id)
        # What was asked of engines that are gone is void; others may not have heard it yet.
        control = found.control if beside_others else None
        if not beside_others:
            forget_requests(tx, found.id)
        changes: dict[str, Any] = {
            "started": started, "control": control, "seconds": seconds, "counted": counted,
        }  # fmt: skip
        before, seed = StoredBatch(found), self._backend.hash_seed()
        self._seed_before = hash_seed_of(before) if found.done else ""
        code = extended(before, self._code, number, clock.now(), seed)
        if code is not None:
            changes["code"] = code
        return StoredBatch(tx.update_batch(found.id, **changes))

    def _sign_off(self, number: int, loop: Loop | None) -> None:
        claims = loop.leave() if loop else []

        def leave(tx: Transaction) -> None:
            for claim in claims:
                if tx.holds(claim):
                    tx.release(claim, finished=False)
            if (row := tx.batch_by_id(self._recorded.id)) is not None:
                row = row.ran_until(self._time(), clock.pauses)
                tx.update_batch(row.id, seconds=row.seconds, counted=row.counted)
            tx.sign_off(number)

        try:
            self._store.write(leave)
        except StoreAway:
            if self.signal is None:
                raise
            text = "the database does not answer; what it has recorded stays"
            self._publish(Notice(batch=self._recorded.name, text=text, level="warning"))
        finally:
            self._store.release_liveness(number)

    def _close_recorder(self, recorder: Recorder, end: End | None, begin: float) -> None:
        if isinstance(recorder.error, StoreAway):
            self._store.hurry(StoreAway.last_seconds)
        if recorder.error is None:
            counts = recorder.counts
            told: dict[str, Any] = {
                "batch": self._recorded.name,
                "completed": counts.completed,
                "failed": counts.failed,
                "cancelled": counts.cancelled,
                "recorded": recorder.recorded,
                "seconds": clock.monotonic() - begin,
            }
            whole = end is not None and counts.pending == 0
            reason = "interrupted" if end is None else end.value
            event = BatchFinished(**told) if whole else BatchStopped(reason=reason, **told)
            self._say(recorder, event)
        recorder.close()

    def _meter(self) -> Budget | None:
        """Something that watches budgets and the shown metric, where there are any."""
        options, row = self._recorded.options, self._recorded.row
        until: tuple[str, ...] = ()
        if options.until is not None:
            from runyard.stats.conditions import parse_rule

            until = parse_rule(options.until).metrics()
        if not options.budget and options.metric is None and self._limit is None and not until:
            return None
        from runyard.schedule.budget import Budget

        with self._store.snapshot() as view:
            return Budget(
                options.budget, options.metric, self._recorded.codec, done=row.done,
                seconds=row.seconds, rows=view.outcomes(row.id, statuses=[COMPLETED]),
                limit=self._limit, until=until,
            )  # fmt: skip

    def _loop(
        self, number: int, lane_status: LaneStatusFile, recorder: Recorder, meter: Budget | None
    ) -> Loop:
        with self._store.snapshot() as view:
            history = history_of(view.attempts(self._recorded.id))
            in_order = self._begins_in_order(view)
        publish = partial(self._say, recorder)
        batch, agenda = self._recorded, Agenda()
        judge = Judge(
            batch=batch.id, name=batch.name, engine=number, seed=batch.seed, options=batch.options,
            agenda=agenda, recorder=recorder, publish=publish, history=history,
        )  # fmt: skip
        return Loop(
            name=batch.name, options=batch.options, backend=self._backend, lane_status=lane_status,
            agenda=agenda, judge=judge, recorder=recorder, publish=publish, history=history,
            meter=meter, intake=self._intake, spent=self._spent,
            leaves=self._outranked is not None, listed=batch.listed, in_order=in_order,
        )  # fmt: skip

    def _begins_in_order(self, view: Snapshot) -> bool:
        """Whether it matters which task begins first: in a queue, and where priorities differ."""
        if self._intake is not None:
            return not self._intake.only
        return self._recorded.listed and view.has_priorities(self._recorded.id)

    def _tell(self, text: str) -> None:
        self._publish(Notice(batch=self._recorded.name, text=text))

    def _say(self, recorder: Recorder, event: Event) -> None:
        event = replace(event, engine=self._number)
        if not event.live_only:
            recorder.event(event)
        self._publish(event)

    def _describe(self, recorder: Recorder) -> Provenance:
        """Find out on the side where this run comes from, for the audit log."""

        def tell(found: dict[str, Any]) -> None:
            self._say(recorder, RunDescribed(batch=self._recorded.name, **found))

        provenance = Provenance(self._recorded.row.root, self._backend.hash_seed(), tell)
        provenance.start()
        return provenance

    def _started(self) -> BatchStarted:
        return BatchStarted(
            batch=self._recorded.name,
            total=self._recorded.row.total,
            seed=self._recorded.seed,
            backend=self._backend.name,
            workers=self._backend.lanes,
        )

    def _other_hash_seed(self) -> list[Notice]:
        """What to say where tasks hash strings otherwise than those that are recorded."""
        before, now = self._seed_before, self._backend.hash_seed()
        if before in ("", now):
            return []
        text = (
            f"the outcomes on record were made with {shown(before)}, further ones with "
            f"{shown(now)}: those that depend on the order of a set may differ "
            "(start Python with PYTHONHASHSEED=0)"
        )
        return [Notice(batch=self._recorded.name, text=text)]

    def _job(self, number: int, lane_status: LaneStatusFile) -> Job:
        batch, options = self._recorded, self._recorded.options
        target = batch.target
        return Job(
            batch=batch.id,
            name=batch.name,
            seed=batch.row.seed,
            target=None if target is None else (target.kind, target.ref),
            plan=batch.row.plan,
            functions=self._functions,
            codec=batch.codec,
            root=batch.row.root if Path(batch.row.root).is_dir() else os.getcwd(),
            path=tuple(place or os.getcwd() for place in sys.path),
            folder=str(self._batch_folder),
            engine=number,
            lane_status=str(lane_status.path),
            spool=str(lane_status.path.parent),
            timeout=options.timeout,
            memory=options.memory,
            capture=options.capture,
            keep=options.keep,
            template=options.template,
            chdir=options.chdir,
            recycle=options.recycle,
            cpus=options.cpus,
            gpus=options.gpus,
            resources=options.resources,
            runtime_env=options.runtime_env,
            code={ref: code for ref, code in self._code.items() if ref not in self._functions},
        )

    @property
    def _batch_folder(self) -> Path:
        return self._folder / "batches" / self._recorded.name

    def _audit_log(self) -> AuditLog:
        self._batch_folder.mkdir(parents=True, exist_ok=True)
        path = self._batch_folder / "events.jsonl"
        return AuditLog(path, redact=self._redactor.redact)

    def _task_audit(self) -> Callable[[int], AuditLog] | None:
        if not self._recorded.options.audit_tasks:
            return None

        def log(task: int) -> AuditLog:
            path = task_folder(self._batch_folder, task, 0).parent / "events.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            return AuditLog(path, redact=self._redactor.redact)

        return log

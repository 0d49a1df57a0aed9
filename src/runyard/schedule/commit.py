"""One commit: what an engine brings, in one transaction, and what it learns there.

outcomes, attempts, tasks handed in, a wish for more ──▶ transaction ──▶ store
claims, refusals, counts, what others ask ◀──────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from runyard import clock, faults
from runyard.errors import ClaimLost, StoreDamaged, StoreError
from runyard.events import Event
from runyard.schedule.agenda import Held, Place
from runyard.schedule.intake import Handed, Intake
from runyard.schedule.listed import cancelled_row, record_listed
from runyard.spec.outcome import OutcomeRow, Printed, Rows
from runyard.store.base import Store, Transaction
from runyard.store.rows import AttemptRow, BatchRow, Claim

COUNT_SECONDS = 2.0
"""How much of a batch's running time may be lost with an engine that dies and records nothing."""


class Entry(NamedTuple):
    """Outcomes of one claim, and what its tasks printed."""

    held: Held
    rows: Rows
    last: bool  # the claim has none left
    printed: Sequence[Printed]
    size: int  # bytes of memory, about

    @classmethod
    def of(cls, held: Held, rows: Rows, *, last: bool, printed: Sequence[Printed]) -> Entry:
        """An entry with its size."""
        size = rows.size + sum(each.size for each in printed)
        return cls(held, rows, last, printed, size)


@dataclass
class Waiting:
    """What came in and is not written yet."""

    entries: list[Entry] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    wanted: int = 0  # tasks to claim
    cancel_rest: bool = False
    handed: list[Handed] = field(default_factory=list)  # tasks that came while the batch runs

    @property
    def is_for_the_store(self) -> bool:
        """Whether anything of it is; events go to the audit log."""
        return bool(self.entries or self.attempts or self.wanted or self.cancel_rest or self.handed)

    def put_before(self, later: Waiting) -> None:
        """It could not be written: it waits again, ahead of what came since."""
        later.entries[:0] = self.entries
        later.attempts[:0] = self.attempts
        later.events[:0] = self.events
        later.wanted = max(later.wanted, self.wanted)
        later.cancel_rest |= self.cancel_rest


class Claimed(NamedTuple):
    """The answer to a wish for tasks."""

    claim: Claim | None  # None: there was nothing to claim
    attempts: list[AttemptRow]  # that others made of them
    outgrown: bool = False  # there was, and it is not in the plan that this engine has


class Refused(NamedTuple):
    """Outcomes that came too late: another engine has their tasks."""

    held: Held
    tasks: list[int]


class Wishes(NamedTuple):
    """What others ask of this engine."""

    stop: int  # 1: after what runs, 2: at once
    cancel: list[int]  # tasks that are cancelled on record, and that an engine may still hold
    leave: bool  # something more urgent waits elsewhere
    engines: int  # that run this batch


class Pace(NamedTuple):
    """How this engine gets on; `status` shows it."""

    running: int
    rate: float


class Committed(NamedTuple):
    """What a commit brought back."""

    counts: BatchRow
    claimed: Claimed | None
    refused: list[Refused]
    wishes: Wishes | None
    next_free: Place | None  # of the listed task that comes first and is nobody's


class Committer:
    """Writes one batch for one engine."""

    def __init__(
        self,
        store: Store,
        batch: BatchRow,
        engine: int,
        intake: Intake | None = None,
        outranked: Callable[[Transaction], bool] | None = None,
    ) -> None:
        self._store = store
        self._batch = batch.id
        self._listed = batch.plan is None
        self._total = batch.total  # a described batch may have grown since
        self._engine = engine
        self._intake = intake
        self._outranked = outranked  # whether this engine should leave for something else
        self._told: Pace | None = None  # what the store knows of this engine
        self._time = clock.steady()
        self._was_over = not batch.pending  # as of the last commit: nothing was left to do

    def commit(self, waiting: Waiting, token: str, *, unsure: bool, look: Pace | None) -> Committed:
        """Write what waits and claim what it wants; with `look` also see what others ask.

        `unsure` says that an earlier try with this token may have gone through all the same.
        """
        claimed = None
        with self._store.transaction() as tx:
            if self._intake is not None and waiting.handed:
                self._intake.write(tx, self._engine, waiting.handed)
            refused = self._write(tx, waiting.entries)
            if waiting.attempts:
                tx.add_attempts(waiting.attempts)
            if waiting.cancel_rest:
                tx.record(self._batch, self._cancel_pending(tx), listed=self._listed)
            if waiting.wanted:
                claimed = self._claim(tx, waiting.wanted, token, unsure)
            wishes = None if look is None else self._look(tx, look)
            free = tx.next_free(self._batch) if self._listed else None
            counts = self._count(tx, waiting, look)
            if counts is not None and counts.pending < 0:
                raise StoreDamaged(
                    f"the store is damaged: {counts.name} has more outcomes than tasks",
                    hint="run `runyard doctor`",
                )
        faults.point("committed")
        if counts is None:
            raise StoreError("the batch was removed from the store while it ran")
        self._was_over = not counts.pending
        place = None if free is None else (-free.priority, free.task)
        return Committed(counts, claimed, refused, wishes, place)

    def _count(self, tx: Transaction, waiting: Waiting, look: Pace | None) -> BatchRow | None:
        """The batch as it stands now; how long it has been run is written beside its outcomes.

        While tasks take long, now and then by itself; and when others have ended the last task.
        """
        row, now = tx.batch_by_id(self._batch), self._time()
        if row is None:
            return None
        due = row.counted is not None and now - row.counted > COUNT_SECONDS
        is_over = not (row.pending or self._was_over)
        if waiting.entries or is_over or (due and look is not None and look.running):
            ran = row.ran_until(now, clock.pauses)
            return tx.update_batch(row.id, seconds=ran.seconds, counted=ran.counted)
        return row

    def _claim(self, tx: Transaction, wanted: int, token: str, unsure: bool) -> Claimed:
        claim = tx.claim(
            self._batch, self._engine, wanted, listed=self._listed, token=token, again=unsure
        )
        if claim is not None and any(high > self._total for _, high in claim.ranges):
            tx.release(claim, finished=False)
            return Claimed(None, [], outgrown=True)
        attempts = tx.attempts(self._batch) if claim is not None and claim.again else []
        return Claimed(claim, [row for row in attempts if claim is not None and row.task in claim])

    def _write(self, tx: Transaction, entries: list[Entry]) -> list[Refused]:
        """Record what belongs to claims that are still this engine's; the rest is refused."""
        by_claim: dict[Held, list[Entry]] = {}
        for entry in entries:
            by_claim.setdefault(entry.held, []).append(entry)
        refused = [
            Refused(held, [task for entry in its for task in entry.rows.tasks])
            for held, its in by_claim.items()
            if not tx.holds(held.claim, _tasks(its) if self._listed else ())
        ]
        if refused and self._intake is not None:
            raise ClaimLost(
                f"another engine took over tasks of batch number {self._batch}",
                hint="this process was paused for too long; what it brought late is left out",
            )
        lost = {each.held for each in refused}
        self._record(tx, [entry for entry in entries if entry.held not in lost])
        requests = tx.cancel_requests(self._batch) if entries else []
        for task in requests:
            if any(task in entry.rows.tasks for entry in entries):
                tx.clear_cancel(self._batch, task)
        return refused

    def _record(self, tx: Transaction, entries: list[Entry]) -> None:
        printed = [each for entry in entries for each in entry.printed]
        if printed:
            tx.keep_printed(self._batch, printed)
        rows = Rows(list(chain.from_iterable(entry.rows.flat for entry in entries)))
        if self._intake is not None and self._intake.only:  # none of them comes after another
            tx.record(self._batch, rows, listed=True)
            return
        if self._listed:
            record_listed(tx, self._batch, rows)
            return
        added = tx.record(self._batch, rows, listed=False)
        # Where an outcome came twice, the claim may have tasks left that were taken for ended.
        left = tx.pending(self._batch, listed=False) if added < len(rows) else []
        for entry in entries:
            if entry.last:
                claim = entry.held.claim
                rest = any(a < high and low < b for low, high in claim.ranges for a, b in left)
                tx.release(claim, finished=not rest)

    def _cancel_pending(self, tx: Transaction) -> list[OutcomeRow]:
        return [
            cancelled_row(self._batch, number)
            for low, high in tx.pending(self._batch, listed=self._listed)
            for number in range(low, high)
        ]

    def _look(self, tx: Transaction, pace: Pace) -> Wishes:
        if pace != self._told:  # an engine that waits for work writes nothing
            tx.update_engine(self._engine, running=pace.running, rate=pace.rate)
            self._told = pace
        engines = tx.engines()
        stop = next((row.stop for row in engines if row.id == self._engine), 0)
        others = [row for row in engines if row.batch == self._batch and row.id != self._engine]
        return Wishes(
            stop=stop,
            cancel=tx.cancel_requests(self._batch),
            leave=self._outranked is not None and self._outranked(tx),
            engines=1 + sum(self._store.alive(row.id) for row in others),
        )


def _tasks(entries: list[Entry]) -> list[int]:
    """The tasks that these are about, whether or not they have ended."""
    printed = (each.task for entry in entries for each in entry.printed)
    return list({*chain.from_iterable(entry.rows.tasks for entry in entries), *printed})

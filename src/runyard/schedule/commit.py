"""One transaction: write what an engine has, claim what it wants, read what others ask of it."""

from __future__ import annotations

import logging
from itertools import chain
from typing import NamedTuple

from runyard import clock, faults
from runyard.errors import ClaimLost, StoreDamaged, StoreError
from runyard.format import count
from runyard.schedule import policy
from runyard.schedule.mailbox import (
    ClaimReply,
    OutcomeGroup,
    PendingWrites,
    RefusedOutcomes,
    Requests,
)
from runyard.schedule.ready_queue import HeldClaim, Rank
from runyard.schedule.run import Run
from runyard.spec.outcome import OutcomeRow, Rows
from runyard.store.base import Transaction
from runyard.store.rows import BatchRow, Claim

COUNT_SECONDS = 2.0
"""How much of a batch's running time an engine that dies without recording anything may lose."""

log = logging.getLogger(__name__)


class EngineState(NamedTuple):
    """How this engine is doing; `status` shows it."""

    running: int  # lanes
    rate: float  # outcomes a second


class CommitResult(NamedTuple):
    """What a transaction brought back."""

    counts: BatchRow
    claims: list[ClaimReply]
    refused: list[RefusedOutcomes]
    requests: Requests | None
    next_free: Rank | None  # of the first task in the list that no engine holds


class Committer:
    """Writes one batch for one engine."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._is_list = run.batch.listed
        self._total = run.batch.row.total  # a grid may have grown since
        self._reported: EngineState | None = None  # what the store knows of this engine
        self._time = clock.steady()
        self._was_over = not run.batch.row.pending  # as of the last commit

    def commit(
        self, writes: PendingWrites, token: str, state: EngineState | None, *, unsure: bool,
        followers: bool,
    ) -> CommitResult:  # fmt: skip
        """Write and claim; with a `state` also look what others ask.

        `followers`: claim tasks that these outcomes make ready, too. `unsure`: an earlier try
        with this token may have gone through.
        """
        run, claims = self._run, list[ClaimReply]()
        with run.store.transaction() as tx:
            if run.submissions is not None and writes.submitted:
                run.submissions.write(tx, run.engine, writes.submitted)
            freed, refused = self._write(tx, writes.groups)
            if writes.attempts:
                tx.add_attempts(writes.attempts)
            if writes.cancel_rest:
                tx.record(run.id, self._cancel_pending(tx))
            if followers and (freed or unsure):
                claims += self._claim_followers(tx, freed, token)
            if writes.wanted:
                claims.append(self._claim(tx, writes.wanted, token, unsure))
            requests = None if state is None else self._look(tx, state)
            free = tx.next_free(run.id) if self._is_list else None
            counts = self._count(tx, writes, state)
        faults.point("committed")
        self._log(writes, claims)
        rank = None if free is None else (-free.priority, free.task)
        return CommitResult(counts, claims, refused, requests, rank)

    # Outcomes

    def _write(
        self, tx: Transaction, groups: list[OutcomeGroup]
    ) -> tuple[list[int], list[RefusedOutcomes]]:
        """Record what belongs to claims that this engine still holds, and refuse the rest.

        Gives the tasks that have become ready, and what was refused.
        """
        by_claim: dict[HeldClaim, list[OutcomeGroup]] = {}
        for group in groups:
            by_claim.setdefault(group.claim, []).append(group)
        refused = [
            RefusedOutcomes(held, [task for group in its for task in group.rows.tasks])
            for held, its in by_claim.items()
            if not tx.holds(held.claim, _tasks(its) if self._is_list else ())
        ]
        if refused and self._run.submissions is not None:
            raise ClaimLost(
                f"another engine took over tasks of batch number {self._run.id}",
                hint="this process was paused for too long; its late results were dropped",
            )
        lost = {each.claim for each in refused}
        freed = self._record(tx, [group for group in groups if group.claim not in lost])
        for task in tx.cancel_requests(self._run.id) if groups else ():
            if any(task in group.rows.tasks for group in groups):
                tx.clear_cancel(self._run.id, task)
        return freed, refused

    def _record(self, tx: Transaction, groups: list[OutcomeGroup]) -> list[int]:
        """Record outcomes; the tasks that have become ready by them."""
        batch = self._run.id
        printed = [each for group in groups for each in group.printed]
        if printed:
            tx.keep_printed(batch, printed)
        rows = Rows.joined(group.rows for group in groups)
        recording = tx.record(batch, rows)
        if self._is_list:
            return recording.freed
        # Where an outcome came twice, the claim may have tasks left that were taken for ended.
        left = tx.pending(batch) if recording.count < len(rows) else []
        for group in groups:
            if group.is_last:
                claim = group.claim.claim
                rest = any(a < high and low < b for low, high in claim.ranges for a, b in left)
                tx.release(claim, finished=not rest)
        return []

    def _cancel_pending(self, tx: Transaction) -> list[OutcomeRow]:
        return [
            OutcomeRow.cancelled(self._run.id, number)
            for low, high in tx.pending(self._run.id)
            for number in range(low, high)
        ]

    # Claims

    def _claim(self, tx: Transaction, wanted: int, token: str, unsure: bool) -> ClaimReply:
        batch, engine = self._run.id, self._run.engine
        claim = tx.claim(batch, engine, wanted, token=token, again=unsure)
        if claim is not None and any(high > self._total for _, high in claim.ranges):
            tx.release(claim, finished=False)
            return ClaimReply(None, [], outgrown=True)
        return self._reply(tx, claim)

    def _claim_followers(self, tx: Transaction, freed: list[int], token: str) -> list[ClaimReply]:
        """Take what has become ready without waiting for the next request.

        What an earlier try has taken under this token comes along.
        """
        token = f"{token}-followers"
        most = freed[: policy.LIST_MAX]
        claim = tx.take(self._run.id, self._run.engine, token, most)
        return [] if claim is None else [self._reply(tx, claim, answers=False)]

    def _reply(self, tx: Transaction, claim: Claim | None, *, answers: bool = True) -> ClaimReply:
        attempts = tx.attempts(self._run.id) if claim is not None and claim.again else []
        its = [row for row in attempts if claim is not None and row.task in claim]
        return ClaimReply(claim, its, answers)

    # Others

    def _look(self, tx: Transaction, state: EngineState) -> Requests:
        run = self._run
        if state != self._reported:  # an engine that waits for work writes nothing
            tx.update_engine(run.engine, running=state.running, rate=state.rate)
            self._reported = state
        engines = tx.engines()
        stop = next((row.stop for row in engines if row.id == run.engine), 0)
        others = [row for row in engines if row.batch == run.id and row.id != run.engine]
        return Requests(
            stop=stop,
            cancel=tx.cancel_requests(run.id),
            preempted=run.preempted is not None and run.preempted(tx),
            engines=1 + sum(run.store.alive(row.id) for row in others),
        )

    def _count(self, tx: Transaction, writes: PendingWrites, state: EngineState | None) -> BatchRow:
        """The batch as it stands now, with the time that it has been run.

        That time is written with outcomes, now and then by itself while tasks take long, and when
        others have ended the last task.
        """
        row, now = tx.batch_by_id(self._run.id), self._time()
        if row is None:
            raise StoreError("the batch was removed from the store while it ran")
        if row.pending < 0:
            raise StoreDamaged(
                f"the store is damaged: {row.name} has more outcomes than tasks",
                hint="run `runyard doctor`",
            )
        is_due = row.counted is not None and now - row.counted > COUNT_SECONDS
        is_over = not (row.pending or self._was_over)
        self._was_over = not row.pending
        if writes.groups or is_over or (is_due and state is not None and state.running):
            ran = row.ran_until(now, clock.pauses)
            return tx.update_batch(row.id, seconds=ran.seconds, counted=ran.counted)
        return row

    def _log(self, writes: PendingWrites, claims: list[ClaimReply]) -> None:
        if not log.isEnabledFor(logging.DEBUG):
            return
        rows = sum(len(group.rows) for group in writes.groups)
        if rows:
            log.debug("%s: committed %s", self._run.name, count(rows, "outcome"))
        for reply in claims:
            if reply.claim is not None:
                log.debug("%s: claimed %s", self._run.name, count(reply.claim.size, "task"))


def _tasks(groups: list[OutcomeGroup]) -> list[int]:
    """The tasks that these are about, ended or not."""
    printed = (each.task for group in groups for each in group.printed)
    return list({*chain.from_iterable(group.rows.tasks for group in groups), *printed})

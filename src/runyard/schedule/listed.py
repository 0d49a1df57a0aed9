"""Tasks that come after others: a completed one frees them, any other end takes them along."""

from __future__ import annotations

from collections.abc import Sequence

from runyard import clock
from runyard.spec.outcome import ErrorInfo, OutcomeRow, Rows
from runyard.spec.status import CANCELLED, COMPLETED
from runyard.store.base import Transaction


def record_listed(tx: Transaction, batch: int, rows: Sequence[OutcomeRow]) -> int:
    """Record outcomes of listed tasks and what follows from them; how many went in."""
    count = tx.record(batch, rows, listed=True)
    leaders = tx.leaders(batch, Rows.of(rows).tasks)
    for row in rows if leaders else ():
        if row.task not in leaders:
            continue
        if row.status == COMPLETED:
            tx.settle_followers(batch, row.task)
        else:
            count += tx.record(batch, _followers(tx, batch, row.task), listed=True)
    return count


def cancel_doomed(tx: Transaction, batch: int) -> None:
    """Cancel tasks that wait for one which has ended without completing."""
    for before in sorted({edge.before for edge in tx.edges(batch)}):
        row = tx.outcome(batch, before)
        if row is not None and row.status != COMPLETED:
            tx.record(batch, _followers(tx, batch, before), listed=True)


def cancelled_row(
    batch: int, task: int, kind: str = "TaskCancelled", reason: str = "somebody cancelled it"
) -> OutcomeRow:
    """The outcome of a task that never ran, or was ended on request."""
    info = ErrorInfo(kind, reason, "", "")
    return OutcomeRow.with_checksum(
        batch, task, CANCELLED, 0, None, info.encode(), clock.now(), 0.0, 0
    )


def _followers(tx: Transaction, batch: int, task: int) -> list[OutcomeRow]:
    found: dict[int, OutcomeRow] = {}
    reached = [task]
    while reached:
        before = reached.pop()
        for number in tx.followers(batch, before):
            if number not in found:
                reason = f"task {before}, which it comes after, did not complete"
                found[number] = cancelled_row(batch, number, "DependencyFailed", reason)
                reached.append(number)
    return list(found.values())

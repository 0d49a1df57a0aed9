"""What the loop and the writer's thread say to each other.

loop ── PendingWrites ──▶ writer ── one transaction ──▶ store
loop ◀───── Mailbox ────────┘
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runyard.errors import StoreError, StoreUnready
from runyard.events import Event
from runyard.schedule.ready_queue import HeldClaim, Rank
from runyard.schedule.submissions import Submitted
from runyard.spec.outcome import Printed, Rows
from runyard.store.rows import AttemptRow, BatchRow, Claim


class OutcomeGroup(NamedTuple):
    """Outcomes of one claim, and what its tasks printed."""

    claim: HeldClaim
    rows: Rows
    is_last: bool  # the claim has no task left
    printed: Sequence[Printed]
    size: int  # bytes of memory, about

    @classmethod
    def of(
        cls, claim: HeldClaim, rows: Rows, *, is_last: bool, printed: Sequence[Printed]
    ) -> OutcomeGroup:
        """A group with its size."""
        size = rows.size + sum(each.size for each in printed)
        return cls(claim, rows, is_last, printed, size)


@dataclass
class PendingWrites:
    """What the loop has passed on and no transaction has written yet."""

    groups: list[OutcomeGroup] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # for the audit log
    wanted: int = 0  # tasks to claim
    cancel_rest: bool = False  # every task without an outcome is cancelled
    submitted: list[Submitted] = field(default_factory=list)  # tasks added by this process

    @property
    def is_for_store(self) -> bool:
        """Whether any of it goes to the store; events go to the audit log."""
        return bool(
            self.groups or self.attempts or self.wanted or self.cancel_rest or self.submitted
        )

    def put_before(self, later: PendingWrites) -> None:
        """Wait again, ahead of what came since: the transaction failed."""
        later.groups[:0] = self.groups
        later.attempts[:0] = self.attempts
        later.events[:0] = self.events
        later.wanted = max(later.wanted, self.wanted)
        later.cancel_rest |= self.cancel_rest


class ClaimReply(NamedTuple):
    """The answer to a request for tasks, or followers of tasks that have just completed."""

    claim: Claim | None  # None: nothing is free
    attempts: list[AttemptRow]  # earlier attempts at its tasks
    answers: bool = True  # a request
    outgrown: bool = False  # the tasks are not in the plan that this engine has


class RefusedOutcomes(NamedTuple):
    """Outcomes that came too late: another engine has taken their claim over."""

    claim: HeldClaim
    tasks: list[int]


class Requests(NamedTuple):
    """What others ask of this engine."""

    stop: int  # 1: after what runs, 2: at once
    cancel: list[int]  # tasks that are cancelled on record, and that an engine may still hold
    preempted: bool  # something more urgent waits elsewhere
    engines: int  # that run this batch


class Mailbox:
    """What the writer's thread has for the loop."""

    def __init__(self, counts: BatchRow) -> None:
        self.counts = counts  # as of the last commit
        self.engines = 1  # that run this batch, as of the last look
        self.next_free: Rank | None = None  # of the first task in the list that no engine holds
        self.claims: deque[ClaimReply] = deque()
        self.refused: deque[RefusedOutcomes] = deque()
        self.requests: deque[Requests] = deque()
        self.error: StoreError | None = None  # why the writer has given up
        self.unready: StoreUnready | None = None  # why nothing can be written just now

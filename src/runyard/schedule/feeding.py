"""Keeps the queue filled: claims from the store in time, and what this process submits."""

from __future__ import annotations

from runyard import clock
from runyard.errors import StoreDamaged
from runyard.format import count
from runyard.schedule import policy
from runyard.schedule.lifecycle import Lifecycle
from runyard.schedule.ready_queue import HeldClaim
from runyard.schedule.run import Run
from runyard.schedule.writer import Writer
from runyard.store.rows import Claim

DRY_ROUNDS = 10
"""How often there may be nothing to claim, with nothing under way, before that is an error."""


class ClaimFeeder:
    """Decides when to claim and how much; new tasks enter the lifecycle."""

    def __init__(self, run: Run, writer: Writer, tasks: Lifecycle) -> None:
        self._run = run
        self._writer = writer
        self._mailbox = writer.mailbox
        self._tasks = tasks
        self._most = policy.LIST_MAX if run.batch.listed else policy.CLAIM_MAX
        self._claims: list[HeldClaim] = []
        self._dry_until = 0.0  # nothing was free; ask again then
        self._dry_rounds = 0
        self.is_waiting = False  # for the reply to a request
        self.is_outgrown = False  # what is left to claim is not in this engine's plan

    def refill(self) -> bool:
        """Take in what has come, and request more in time; whether something came."""
        came = self.take_in()
        if not self.is_waiting and (self.is_overtaken or self._wants_more()):
            self.is_waiting = True
            self._writer.request_claim(
                policy.claim_size(
                    self._tasks.estimate.value, self._run.backend.lanes, self._mailbox.engines,
                    self._mailbox.counts.pending, self._most,
                )
            )  # fmt: skip
        return came

    def take_in(self) -> bool:
        """Take in what has come; whether there was something."""
        submissions = self._run.submissions
        if submissions is not None and submissions.was_nudged():
            self.look_again()
            self._writer.look()
        came = self._tasks.submitted()
        while self._mailbox.claims:
            came |= self._take_reply()
        return came

    def look_again(self) -> None:
        """Something has changed: there may be more to claim."""
        self._dry_until = 0.0

    def unfinished_claims(self) -> list[Claim]:
        """Claims that still hold tasks, to be released."""
        fetched = [each.claim for each in self._mailbox.claims if each.claim is not None]
        submissions = self._run.submissions
        own = [] if submissions is None else [submissions.claim]
        return fetched + [held.claim for held in self._claims + own if held.left > 0]

    @property
    def is_overtaken(self) -> bool:
        """Whether a free task in the store ranks before all those in the queue."""
        free, first = self._mailbox.next_free, self._tasks.ready.first
        return self._run.reads_store and free is not None and first is not None and free < first

    @property
    def is_dry(self) -> bool:
        """Whether nothing was free the last time, and nothing has changed since."""
        return not self.is_waiting and clock.monotonic() < self._dry_until

    @property
    def elsewhere(self) -> int:
        """How many tasks without an outcome this engine does not hold."""
        if not self._run.reads_store:
            return 0
        held = sum(each.left for each in self._claims if not each.lost) + self._writer.backlog
        return max(0, self._mailbox.counts.pending - held)

    @property
    def unclaimed(self) -> int:
        """How many tasks this engine may still get, besides those it holds."""
        return self.elsewhere // self._mailbox.engines

    def _take_reply(self) -> bool:
        """Take in one reply; whether it brought tasks."""
        claim, attempts, is_answer, is_outgrown = self._mailbox.claims.popleft()
        if is_answer:
            self.is_waiting = False
        self.is_outgrown |= is_outgrown
        if claim is None:
            self._dry_until = clock.monotonic() + self._run.store.look_seconds
            self._check_that_others_work()
            return False
        self._dry_rounds = 0
        held = self._tasks.claimed(claim, attempts)
        if held.left == 0:
            return False
        self._claims = [c for c in self._claims if c.left > 0 and not c.lost] + [held]
        return True

    def _check_that_others_work(self) -> None:
        """Raise if tasks are left although no engine has any."""
        pending = self._mailbox.counts.pending
        is_last = self._is_idle and self._mailbox.engines <= 1
        self._dry_rounds = self._dry_rounds + 1 if is_last else 0
        if self._dry_rounds > DRY_ROUNDS and pending:
            raise StoreDamaged(
                f"no engine holds {count(pending, 'unfinished task')} of {self._run.name}",
                hint="the store is damaged: run `runyard doctor`",
            )

    @property
    def _is_idle(self) -> bool:
        return not (self._tasks.in_flight or self._tasks.ready or self._writer.backlog)

    def _wants_more(self) -> bool:
        if clock.monotonic() < self._dry_until or not self._run.reads_store:
            return False
        mean, lanes = self._tasks.estimate.value, self._run.backend.lanes
        low_water = policy.claim_size(mean, lanes, 1, 1 << 60, self._most) // 2
        if self._tasks.ready.size >= low_water:
            return False
        return self.elsewhere > 0 or (self._is_idle and self._mailbox.counts.pending > 0)

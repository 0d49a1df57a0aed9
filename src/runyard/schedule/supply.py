"""Keeps the agenda filled: claims from the store, and what this process hands in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from runyard import clock
from runyard.attempt.wire import Item
from runyard.errors import StoreDamaged
from runyard.schedule import policy
from runyard.schedule.agenda import Agenda, Held
from runyard.schedule.flights import Flights
from runyard.schedule.recorder import Recorder
from runyard.schedule.submissions import Submissions
from runyard.store.rows import AttemptRow, Claim

DRY_ROUNDS = 10
"""How often there may be nothing to claim before somebody must explain."""


def history_of(attempts: Iterable[AttemptRow]) -> dict[int, tuple[int, int]]:
    """Own errors and worker deaths so far, by task."""
    found: dict[int, tuple[int, int]] = {}
    for row in attempts:
        errors, crashes = found.get(row.task, (0, 0))
        found[row.task] = (errors + 1 - row.crash, crashes + row.crash)
    return found


class Supply:
    """What there is to do, as far as this engine has it."""

    def __init__(
        self,
        *,
        name: str,
        priority: int,
        lanes: int,
        fragile: bool,
        listed: bool,
        agenda: Agenda,
        flights: Flights,
        recorder: Recorder,
        history: dict[int, tuple[int, int]],
        intake: Submissions | None,
    ) -> None:
        self._name = name
        self._priority = priority
        self.lanes = lanes  # how many there are now
        self._most = policy.LISTED_MAX if listed else policy.CLAIM_MAX  # tasks of a claim
        self._fragile = fragile  # a task that dies takes the engine with it
        self._agenda = agenda
        self._flights = flights
        self._recorder = recorder
        self._history = history  # task: own errors, worker deaths so far
        self._marked = sorted(history)
        self._intake = intake
        self._held: list[Held] = []
        self._dry_until = 0.0  # nothing to claim; look again then
        self._dry_rounds = 0
        self.asked = False  # a claim is on its way
        self.outgrown = False  # what is left to claim is not in this engine's plan

    def refill(self, mean: float | None) -> bool:
        """Take what has come in, and ask for more in time; whether something came."""
        handed = self._take_handed()
        claimed = self._take_claims()
        if not self.asked and (self.is_overtaken or self._wants_more(mean)):
            self.asked = True
            pending, engines = self._recorder.counts.pending, self._recorder.engines
            self._recorder.want(policy.claim_size(mean, self.lanes, engines, pending, self._most))
        return handed or claimed

    def take_last(self) -> None:
        """Take what is still on its way, and ask for nothing."""
        self._take_handed()
        self._take_claims()

    def look_again(self) -> None:
        """Something has changed: there may be more to claim."""
        self._dry_until = 0.0

    def leave(self) -> list[Claim]:
        """Claims that still hold tasks, to be given back."""
        fetched = [each.claim for each in self._recorder.claims if each.claim is not None]
        own = [] if self._intake is None else [self._intake.held]
        return fetched + [held.claim for held in self._held + own if held.left > 0]

    @property
    def is_overtaken(self) -> bool:
        """Whether a task that nobody holds comes before all those on the agenda."""
        if self._intake is not None and self._intake.only:
            return False
        free, following = self._recorder.next_free, self._agenda.next_place
        return free is not None and following is not None and free < following

    @property
    def is_dry(self) -> bool:
        """Whether there was nothing to claim the last time, and nothing has changed since."""
        return not self.asked and clock.monotonic() < self._dry_until

    @property
    def unclaimed(self) -> int:
        """How many tasks this engine may still get, besides those it holds."""
        if self._intake is not None and self._intake.only:
            return 0
        held = sum(held.left for held in self._held) + self._recorder.backlog
        return max(0, self._recorder.counts.pending - held) // self._recorder.engines

    def _take_handed(self) -> bool:
        """Let what this process handed in stand in line."""
        intake = self._intake
        if intake is None:
            return False
        if intake.was_nudged():
            self.look_again()
            self._recorder.look()
        handed = intake.take()
        for each in handed:
            if each.again:
                self._history.pop(each.task, None)
            attempt = self._history.get(each.task, (0, 0))[0]
            if each.listed.timeout is not None:
                self._flights.limits[each.task] = each.listed.timeout
            self._stand_in_line(intake.held, intake.held.item(each.task, attempt))
        return bool(handed)

    def _take_claims(self) -> bool:
        claims, came = self._recorder.claims, False
        while claims:
            claim, attempts, outgrown = claims.popleft()
            self.asked = False
            self.outgrown |= outgrown
            if attempts:
                self._history |= history_of(attempts)
                self._marked = sorted(self._history)
            if claim is None:
                self._dry_until = clock.monotonic() + self._recorder.look_seconds
                self._check_that_others_work()
                continue
            self._dry_rounds = 0
            held = Held(claim, self._priority)
            if held.left == 0:
                self._recorder.rows(held, [])
                continue
            self._held = [h for h in self._held if h.left > 0 and not h.lost] + [held]
            self._enter(held)
            came = True
        return came

    def _check_that_others_work(self) -> None:
        """Nothing to claim and nothing under way, yet not the end: somebody else must be at it."""
        agenda = self._agenda
        idle = not (self._flights or agenda.ready or agenda.waiting or agenda.alone)
        alone = self._recorder.engines <= 1 and not self._recorder.backlog
        self._dry_rounds = self._dry_rounds + 1 if idle and alone else 0
        if self._dry_rounds > DRY_ROUNDS and self._recorder.counts.pending:
            raise StoreDamaged(
                f"{self._recorder.counts.pending} tasks of {self._name} have no outcome, "
                "and nobody holds them",
                hint="the store is damaged: run `runyard doctor`",
            )

    def _wants_more(self, mean: float | None) -> bool:
        if clock.monotonic() < self._dry_until:
            return False
        if self._intake is not None and self._intake.only:
            return False
        low_water = policy.claim_size(mean, self.lanes, 1, 1 << 60, self._most) // 2
        return self._agenda.ready < low_water and self._recorder.counts.pending > 0

    def _enter(self, held: Held) -> None:
        """Put a claim's tasks on the agenda, with what is known of their earlier attempts."""
        self._flights.limits |= held.timeouts
        for task in held.claim.tasks:
            self._stand_in_line(held, held.item(task, self._history.get(task, (0, 0))[0]))
        for low, high in held.claim.ranges:
            start = low
            first, last = bisect_left(self._marked, low), bisect_left(self._marked, high)
            for task in self._marked[first:last]:
                self._agenda.add_range(held, start, task)
                self._stand_in_line(held, held.item(task, self._history[task][0]))
                start = task + 1
            self._agenda.add_range(held, start, high)

    def _stand_in_line(self, held: Held, item: Item) -> None:
        """A task that an engine died of goes alone, so that it takes no neighbour with it."""
        if self._fragile and self._history.get(item.task, (0, 0))[1] > 0:
            self._agenda.add_alone(held, item)
        else:
            self._agenda.add_item(held, item)

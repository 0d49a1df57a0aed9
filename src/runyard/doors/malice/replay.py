"""A published batch once more: its messages through these rules, its log beside what comes out.

The gates' verdicts and penalties are taken from the log, since a paid service gave them. Everything
else is computed: a wrong number in the log is one difference, at its place.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from runyard.doors.malice import lines
from runyard.doors.malice.contradictions import contradictions, scores, users_told
from runyard.doors.malice.dataset import Batch, Logged, LoggedRun, read_batch
from runyard.doors.malice.immune import ImmuneSystem
from runyard.doors.malice.machine import SocialVoteSystem
from runyard.doors.malice.matching import Mismatch, aligned, key_of, unequal
from runyard.doors.malice.record import Paths, Tally, run_record
from runyard.doors.malice.rules import Rules
from runyard.doors.malice.state import NAMES, Message, State
from runyard.doors.malice.symbols import CIVIL, SEC_CLEAN
from runyard.doors.malice.transcript import Transcript
from runyard.errors import UsageError

MAIN = frozenset(
    each.kind
    for each in (
        lines.VoteSymbol, lines.VoteProcessing, lines.VoteCountUpdate, lines.VoteIgnoredLine,
        lines.PenaltyApplied, lines.Promotion,
    )
)  # fmt: skip
"""Events of which the log must have exactly those that the rules give."""

SECOND = frozenset(
    each.kind
    for each in (
        lines.VoteMetric, lines.StateMetric, lines.PromotionRecorded, lines.ImmuneAdjustment,
    )
)  # fmt: skip
"""Events that a log may have or not; those that it has must be right."""

LATER_THRESHOLD = 4
"""What published logs print as the threshold once a run has had a BINDER; no run comes to show
whether it holds, since nobody there has four votes after that."""

SYMBOLS = frozenset({"VOTE", "VOTE_WEIGHTING", "STATUS_CHANGE"})
SCORE = "mallory_final_score"


@dataclass(frozen=True)
class Difference:
    """One place where the log is not what the rules give."""

    run: int
    ticket: int | None
    event: str
    field: str
    logged: Any
    computed: Any
    where: str

    @property
    def text(self) -> str:
        """It on one line."""
        at = "" if self.ticket is None else f", ticket #{self.ticket}"
        told = f"run {self.run}{at}: {self.event} {self.field}".rstrip()
        return f"{told} is {self.logged!r}, the rules give {self.computed!r} ({self.where})"


@dataclass
class Replay:
    """What came of replaying a batch."""

    batch: Batch
    records: list[dict[str, Any]] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)  # by event type
    equal: Counter[str] = field(default_factory=Counter)
    scores: tuple[int, int] = (0, 0)  # compared with the summary's, and equal
    differences: list[Difference] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)

    @property
    def runs_equal(self) -> int:
        """How many runs have no difference."""
        return len(self.records) - len({each.run for each in self.differences})


def replay(folder: Path) -> Replay:
    """Replay every run of a batch, and compare."""
    batch = read_batch(folder)
    found = Replay(batch)
    rules = Rules.of(batch.rules)
    for logged in batch.runs:
        names = users_told(batch, logged.run) or dict.fromkeys((*NAMES, *_senders(logged)))
        _Run(logged, list(names), rules, found).compare()
    told = scores(batch, found.records)
    wrong = [each for each in told if each[1] != each[2]]
    found.scores = (len(told), len(told) - len(wrong))
    for run, logged_score, computed in wrong:
        where = "" if batch.summary_file is None else batch.summary_file.name
        found.differences.append(
            Difference(run, None, "summary", SCORE, logged_score, computed, where)
        )
    found.contradictions = contradictions(batch, found.records)
    return found


class _Run:
    """One run of a log, replayed."""

    def __init__(self, logged: LoggedRun, names: list[str], rules: Rules, found: Replay) -> None:
        self._logged = logged
        self._names = names
        self._found = found
        self._tickets = [_ticket_of(message) for message in logged.messages]
        self._lines = Transcript(logged.run, self._tickets[0], rules)
        self._system = SocialVoteSystem(rules)
        self._immune = ImmuneSystem()

    def compare(self) -> None:
        """Feed the messages through the rules, and look at the log after each."""
        state, tally, paths = State.of(self._names), Tally(), Paths(len(self._tickets))
        by_ticket = self._by_ticket()
        for number, logged in zip(self._tickets, self._logged.messages, strict=True):
            events = by_ticket.get(number, [])
            message = _message(logged, events)
            state, happened = self._system.step(state, message)
            paths.see(state)
            self._lines.events(happened, self._lines.place(state.tickets, message.author))
            self._compare(number, events, risen=bool(tally.rises))
            rises = [change for change in tally.see(happened) if change.rose]
            for rise in rises:
                self._lines.rise(rise, len(tally.rises))
            adjusted = self._immune.observe(state.tickets, len(rises))
            if adjusted is not None:
                self._lines.immune(adjusted, message.author, self._immune.rules)
        self._compare_second()
        record = run_record(self._logged.run, 0, state, tally, 0.0, paths)
        self._found.records.append(record | self._logged_immune())

    def _by_ticket(self) -> dict[int, list[Logged]]:
        """The log's events by ticket; one whose own number leads nowhere stays with the last."""
        known, found = set(self._tickets), dict[int, list[Logged]]()
        last = self._tickets[0]
        for event in self._logged.events:
            if event.kind not in MAIN or not _is_compared(event):
                continue
            own = _number(event.details.get("ticket"))
            last = own if own in known else last
            found.setdefault(last, []).append(event)
        return found

    def _compare(self, number: int, logged: list[Logged], *, risen: bool) -> None:
        expected = [line.details for line in self._lines.main]
        self._lines.main.clear()
        allowed: dict[str, Any] = {"ticket": f"#{number - self._tickets[0]}"}
        if risen:
            allowed["promotion_threshold"] = LATER_THRESHOLD
        for line, event in aligned(expected, logged):
            kind = line.kind if line is not None else event.kind if event is not None else ""
            if line is None or event is None:
                found = [Mismatch("", None if event is None else "there", None if line is None
                                  else "expected")]  # fmt: skip
            else:
                found = list(unequal(line, event.details, allowed=allowed))
            where = event.where if event is not None else self._logged.files[0].name
            self._count(kind, number, found, where)

    def _compare_second(self) -> None:
        second = {
            key_of(line.event_type, structs.asdict(line.details)): line.details
            for line in self._lines.debug
        }
        for event in self._logged.events:
            if event.kind not in SECOND:
                continue
            line = second.get(key_of(event.kind, event.details))
            found = [Mismatch("", "there", None)] if line is None else list(
                unequal(line, event.details)
            )  # fmt: skip
            self._count(event.kind, None, found, event.where)

    def _count(self, kind: str, ticket: int | None, found: list[Mismatch], where: str) -> None:
        self._found.compared[kind] += 1
        self._found.equal[kind] += not found
        self._found.differences += [
            Difference(self._logged.run, ticket, kind, m.field, m.logged, m.computed, where)
            for m in found
        ]

    def _logged_immune(self) -> dict[str, Any]:
        """What the log itself says of the immune system."""
        logged = [e.details for e in self._logged.events if e.kind == lines.ImmuneAdjustment.kind]
        told = [
            [
                d.get("ticket"),
                d.get("pressure_level"),
                sorted(map(str, d.get("agents_adjusted") or [])),
            ]
            for d in logged
        ]
        return {"immune_adjustments": len(told), "immune": told}


def _is_compared(event: Logged) -> bool:
    return event.kind != lines.VoteSymbol.kind or event.details.get("symbol_type") in SYMBOLS


def _message(logged: Logged, events: list[Logged]) -> Message:
    """A message with what the gates made of it, which only the log knows."""
    blocked: list[str] = []
    penalty = None
    for event in events:
        if event.kind == lines.PenaltyApplied.kind:
            told = event.details.get("blocked_reasons")
            reasons = told if isinstance(told, list) and told else [told or CIVIL]
            blocked += [CIVIL if CIVIL in str(r).lower() else SEC_CLEAN for r in reasons]
            penalty = (penalty or 0.0) + _float(event, "penalty")
    author, text = (str(logged.details.get(name, "")) for name in ("sender", "message"))
    return Message(author, text, tuple(blocked), penalty=penalty)


def _senders(logged: LoggedRun) -> list[str]:
    return [str(message.details.get("sender", "")) for message in logged.messages]


def _ticket_of(message: Logged) -> int:
    number = _number(message.details.get("ticket_id"))
    if number is None:
        raise UsageError(
            f"{message.where}: a message without the number of its ticket",
            hint="each AGENT_MESSAGE has sender, message and ticket_id",
        )
    return number


def _number(ticket: Any) -> int | None:
    text = str(ticket).removeprefix("#")
    return int(text) if text.isdecimal() else None


def _float(event: Logged, name: str) -> float:
    value = event.details.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{event.where}: {name} is {value!r}", hint="it must be a number")
    return value

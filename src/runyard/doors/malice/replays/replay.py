"""Replays a published batch: feeds its messages through these rules and compares the log.

The gates' verdicts and penalties are taken from the log, since a paid service gave them. Everything
else is computed: a wrong number in the log is one difference, with its location.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import structs

from runyard.doors.malice.logs import lines
from runyard.doors.malice.logs.dataset import Logged, LoggedBatch, LoggedRun, read_batch
from runyard.doors.malice.logs.lines import Details, Line
from runyard.doors.malice.logs.transcript import Transcript
from runyard.doors.malice.replays.contradictions import contradictions, scores, users_told
from runyard.doors.malice.replays.matching import (
    FOR_GOOD,
    Mismatch,
    aligned,
    sort_of,
    subject_of,
    unequal,
)
from runyard.doors.malice.report.statistics import figures, mallory_rates
from runyard.doors.malice.run.record import Paths, RunCounts, run_record
from runyard.doors.malice.society.immune import ImmuneSystem
from runyard.doors.malice.society.machine import SocialVoteSystem
from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import NAMES, Message, State
from runyard.doors.malice.society.symbols import CIVIL, SEC_CLEAN
from runyard.errors import UsageError

_SYMBOL, STATUS_CHANGE = lines.VoteSymbol.kind, lines.Promotion.kind
MAIN = frozenset(
    {(_SYMBOL, "VOTE"), (_SYMBOL, "VOTE_WEIGHTING"), (_SYMBOL, STATUS_CHANGE)}
    | {
        (each.kind, None)
        for each in (
            lines.VoteProcessing, lines.VoteCountUpdate, lines.VoteIgnoredLine,
            lines.PenaltyApplied, lines.Promotion,
        )
    }
)  # fmt: skip
"""Sorts of lines that a log must have exactly as the rules give them, ticket by ticket."""

OPTIONAL = (
    (lines.VoteMetric.kind, None),
    (lines.PromotionMetric.kind, None), (lines.DemotionMetric.kind, FOR_GOOD),
    (lines.PromotionRecorded.kind, None), (lines.ImmuneAdjustment.kind, None),
    (_SYMBOL, "IMMUNE_ADJUSTMENT"),
)  # fmt: skip
"""Optional sorts of lines; a batch with any of a sort must have all that the rules give."""

LATER_THRESHOLD = 4
"""The threshold in published logs once a run has had a BINDER; no run shows whether it applies,
since no user has four votes after that."""

SCORE = "mallory_final_score"


@dataclass(frozen=True)
class LogDifference:
    """A difference between the log and what the rules give."""

    run: int
    ticket: int | None
    event: str
    field: str
    logged: Any
    computed: Any
    where: str

    @property
    def text(self) -> str:
        """The difference on one line."""
        at = "" if self.ticket is None else f", ticket #{self.ticket}"
        if self.field:
            problem = f"{self.field} is {self.logged!r}, the rules give {self.computed!r}"
        else:
            problem = "is missing" if self.logged is None else "is unexpected"
        return f"run {self.run}{at}: {self.event} {problem} ({self.where})"


@dataclass
class Replay:
    """The result of replaying a batch."""

    batch: LoggedBatch
    records: list[dict[str, Any]] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)  # by event type
    equal: Counter[str] = field(default_factory=Counter)
    scores: tuple[int, int] = (0, 0)  # compared with the summary's, and equal
    differences: list[LogDifference] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.batch.runs)

    @property
    def runs_equal(self) -> int:
        """The number of runs without a difference."""
        return self.runs - len({each.run for each in self.differences})


def document(found: Sequence[Replay]) -> dict[str, Any]:
    """Several replays together as plain JSON values."""
    compared = {
        kind: {
            "compared": sum(each.compared[kind] for each in found),
            "equal": sum(each.equal[kind] for each in found),
        }
        for kind in sorted({kind for each in found for kind in each.compared})
    }
    records = [each.records for each in found]
    return {
        "runs": sum(each.runs for each in found),
        "runs_equal": sum(each.runs_equal for each in found),
        "events_compared": sum(each["compared"] for each in compared.values()),
        "events_equal": sum(each["equal"] for each in compared.values()),
        "events": compared,
        "scores_compared": sum(each.scores[0] for each in found),
        "scores_equal": sum(each.scores[1] for each in found),
        "differences": [
            {
                "batch": str(each.batch.folder),
                "run": one.run,
                "ticket": one.ticket,
                "event": one.event,
                "field": one.field,
                "logged": one.logged,
                "computed": one.computed,
                "where": one.where,
                "text": one.text,
            }
            for each in found
            for one in each.differences
        ],
        "summary_contradictions": [
            f"{each.batch.folder.name}: {text}" for each in found for text in each.contradictions
        ],
        "mallory_binder": mallory_rates(records),
        "figures": figures([record for each in records for record in each]),
    }


def replay(folder: str | Path) -> Replay:
    """Replay every run of a batch and compare it with its log."""
    batch = read_batch(Path(folder))
    found = Replay(batch)
    present = {sort_of(event.kind, event.details) for run in batch.runs for event in run.events}
    optional = [sort for sort in OPTIONAL if sort in present]
    rules = Rules.of(batch.rules)
    files = max(len(run.files) for run in batch.runs)
    for logged in batch.runs:
        missing = _missing(logged, files)
        if missing is not None:
            found.differences.append(missing)
            continue
        names = users_told(batch, logged.run) or dict.fromkeys((*NAMES, *_senders(logged)))
        _Run(logged, list(names), rules, optional, found).compare()
    told = scores(batch, found.records)
    wrong = [each for each in told if each[1] != each[2]]
    found.scores = (len(told), len(told) - len(wrong))
    for run, logged_score, computed in wrong:
        where = "" if batch.summary_file is None else batch.summary_file.name
        found.differences.append(
            LogDifference(run, None, "summary", SCORE, logged_score, computed, where)
        )
    found.contradictions = contradictions(batch, found.records)
    return found


class _Run:
    """One run of a log, replayed."""

    def __init__(
        self,
        logged: LoggedRun,
        names: list[str],
        rules: Rules,
        optional: Sequence[tuple[str, str | None]],
        found: Replay,
    ) -> None:
        self._logged = logged
        self._names = names
        self._optional = optional
        self._found = found
        self._tickets = [_ticket_of(message) for message in logged.messages]
        self._lines = Transcript(logged.run, self._tickets[0], rules)
        self._system = SocialVoteSystem(rules)
        self._immune = ImmuneSystem()

    def compare(self) -> None:
        """Feed the messages through the rules, and compare the log after each."""
        self._compare_messages()
        state, tally, paths = State.of(self._names), RunCounts(), Paths(len(self._tickets))
        by_ticket, lines = self._by_ticket(), self._lines
        optional: list[Line] = []
        for number, logged in zip(self._tickets, self._logged.messages, strict=True):
            events = by_ticket.get(number, [])
            message = _message(logged, events)
            state, happened = self._system.step(state, message)
            paths.see(state)
            place = lines.place(number - lines.first + 1, message.author)
            lines.events(happened, place)
            self._compare(number, _taken(lines.main), events, risen=bool(tally.rises))
            rises = [change for change in tally.see(happened) if change.rose]
            for rise in rises:
                lines.rise(rise, len(tally.rises), place)
            adjusted = self._immune.observe(state.tickets, len(rises))
            if adjusted is not None:
                lines.immune(adjusted, self._immune.rules, place)
            optional += _taken(lines.main) + _taken(lines.debug)
        self._compare_optional(optional)
        record = run_record(self._logged.run, 0, state, tally, 0.0, paths)
        self._found.records.append(record | self._logged_immune())

    def _compare_messages(self) -> None:
        """Check that every message belongs to this run, and that none is missing in between."""
        following = [self._tickets[0], *(number + 1 for number in self._tickets)]
        for number, due, logged in zip(
            self._tickets, following, self._logged.messages, strict=False
        ):
            run = logged.details.get("run_id", self._logged.run)
            found = [] if number == due else [Mismatch("ticket_id", number, due)]
            found += [] if run == self._logged.run else [Mismatch("run_id", run, self._logged.run)]
            self._differ(logged.kind, number, found, logged.where)

    def _by_ticket(self) -> dict[int, list[Logged]]:
        """The log's events by ticket; one with an unknown ticket is counted to the previous one."""
        known, found = set(self._tickets), dict[int, list[Logged]]()
        last = self._tickets[0]
        for event in self._logged.events:
            if sort_of(event.kind, event.details) not in MAIN:
                continue
            own = _number(event.details.get("ticket"))
            last = own if own in known else last
            found.setdefault(last, []).append(event)
        return found

    def _compare(
        self, number: int, expected: list[Line], logged: list[Logged], *, risen: bool
    ) -> None:
        allowed: dict[str, Any] = {"promotion_threshold": LATER_THRESHOLD} if risen else {}
        since = f"#{number - self._tickets[0]}"  # published changes of status count tickets from 0
        for line, event in aligned([each.details for each in expected], logged, sort_of):
            of_status = event is not None and STATUS_CHANGE in sort_of(event.kind, event.details)
            self._pair(number, line, event, allowed | ({"ticket": since} if of_status else {}))

    def _compare_optional(self, expected: list[Line]) -> None:
        for sort in self._optional:
            mine = [
                line.details
                for line in expected
                if sort_of(line.event_type, structs.asdict(line.details)) == sort
            ]
            logged = [e for e in self._logged.events if sort_of(e.kind, e.details) == sort]
            for line, event in aligned(mine, logged, subject_of):
                self._pair(None, line, event)

    def _pair(
        self,
        ticket: int | None,
        line: Details | None,
        event: Logged | None,
        allowed: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Compare a line that the rules give with the one that is logged."""
        if line is not None and event is not None:
            found = list(unequal(line, event.details, allowed))
            self._count(event.kind, ticket, found, event.where)
        elif event is not None:
            self._count(event.kind, ticket, [Mismatch("", "there", None)], event.where)
        elif line is not None:
            where = self._logged.files[0].name
            self._count(line.kind, ticket, [Mismatch("", None, "expected")], where)

    def _count(self, kind: str, ticket: int | None, found: list[Mismatch], where: str) -> None:
        self._found.compared[kind] += 1
        self._found.equal[kind] += not found
        self._differ(kind, ticket, found, where)

    def _differ(self, kind: str, ticket: int | None, found: list[Mismatch], where: str) -> None:
        self._found.differences += [
            LogDifference(self._logged.run, ticket, kind, m.field, m.logged, m.computed, where)
            for m in found
        ]

    def _logged_immune(self) -> dict[str, Any]:
        """The immune system's adjustments according to the log."""
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


def _missing(logged: LoggedRun, files: int) -> LogDifference | None:
    """What a run lacks entirely, if other runs have `files` files."""
    where = ", ".join(path.name for path in logged.files)
    main = any(sort_of(event.kind, event.details) in MAIN for event in logged.events)
    if logged.messages and (main or len(logged.files) == files):
        return None
    what = "every event" if logged.messages else f"every {lines.AgentMessage.kind}"
    return LogDifference(logged.run, None, what, "", None, "expected", where)


def _taken(held: list[Line]) -> list[Line]:
    taken = held.copy()
    held.clear()
    return taken


def _message(logged: Logged, events: list[Logged]) -> Message:
    """A message with the gates' decisions, which only the log has."""
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
            f"{message.where}: the message has no ticket number",
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

"""Turns the events of a run into lines of its two logs, to be written or compared in a replay.

Every message passes through here, so lines are built in place: collecting them in a list or tuple
for each event would take longer than the lines themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from runyard.doors.malice.logs import lines
from runyard.doors.malice.logs.lines import Details, Line
from runyard.doors.malice.society.gates import Ruling
from runyard.doors.malice.society.immune import Adjusted, ImmuneRules
from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import (
    Penalised,
    StatusChanged,
    UserStatus,
    VoteCounted,
    VoteEvent,
    VoteIgnored,
)
from runyard.doors.malice.society.symbols import BIND, Vote

Place = tuple[str, int, str, str]
"""Fields of every line of a ticket: time, run, author, ticket."""

Where = tuple[int, str, str]
"""The same without the time."""

Change = tuple[list[Details], Details]
"""A change of status: lines of the first log, and the metric of the second."""

ENOUGH_VOTES = "promotion_threshold_reached"
TOO_LOW = "reputation_below_threshold"
"""Triggers of a change of status, as the dataset names them."""


class Transcript:
    """The lines of one run: decisions in `main`, messages and adjustments in `debug`."""

    def __init__(self, run_id: int, first: int, rules: Rules | None = None) -> None:
        self.run_id = run_id
        self.first = first  # the number of its first ticket
        self.rules = rules or Rules()
        self.main: list[Line] = []
        self.debug: list[Line] = []
        self._writers: dict[type, Callable[[Any, Place], None]] = {
            VoteCounted: self._counted,
            VoteIgnored: self._ignored,
            Penalised: self._penalised,
            StatusChanged: self._changed,
        }

    def place(self, ticket: int, author: str, stamp: str = "") -> Place:
        """The fields common to the lines of a ticket."""
        return stamp, self.run_id, author, f"#{self.first + ticket - 1}"

    def message(self, ticket: int, text: str, place: Place) -> None:
        """Add a message."""
        stamp, run, author, name = place
        number = self.first + ticket - 1
        said = lines.AgentMessage(author, text, number, run, author, name)
        self.debug.append(Line(stamp, said.kind, said))

    def decisions(self, decisions: Iterable[Ruling], status: UserStatus, place: Place) -> None:
        """Add the gates' decisions on a message; `status` is that of its author."""
        stamp, run, author, ticket = place
        for made in decisions:
            if made.gate == BIND:
                self._bind(made, status, place)
                continue
            result = "BLOCKED" if made.blocked else "ALLOWED"
            covered = content_hash(made.covered)
            decided = lines.GateDecision(
                made.gate, result, made.reason, covered, run, author, ticket
            )
            self.main.append(Line(stamp, decided.kind, decided))

    def events(self, events: Iterable[VoteEvent], place: Place) -> None:
        """Add the decisions of the vote system."""
        writers = self._writers
        for event in events:
            writers[type(event)](event, place)

    def rise(self, event: StatusChanged, so_far: int, place: Place) -> None:
        """Add a promotion, with the number of promotions so far."""
        stamp, run, author, _ = place
        rise = lines.PromotionRecorded(
            event.name, event.ticket - 1, event.votes, so_far, run, author
        )
        self.debug.append(Line(stamp, rise.kind, rise))

    def immune(self, adjusted: Adjusted, rules: ImmuneRules, place: Place) -> None:
        """Add an adjustment of the immune system, in total and for each agent."""
        stamp, run, author, _ = place
        low = adjusted.level == "LOW"
        for name in adjusted.after:
            self._frequency(adjusted, name, place)
        details = {
            name: {
                "frequency_before": adjusted.before[name],
                "frequency_after": adjusted.after[name],
                "safety_cap_applied": adjusted.capped[name],
            }
            for name in adjusted.after
        }
        adjustment = lines.ImmuneAdjustment(
            adjusted.ticket, adjusted.level, adjusted.promotions, rules.window,
            list(adjusted.after), details, None if low else adjusted.multiplier,
            adjusted.multiplier if low else None, adjusted.damped, run, author,
        )  # fmt: skip
        self.debug.append(Line(stamp, adjustment.kind, adjustment))

    def _frequency(self, adjusted: Adjusted, name: str, place: Place) -> None:
        stamp, where = place[0], place[1:]
        context = {
            "ticket": f"#{adjusted.ticket}",
            "pressure_level": adjusted.level,
            "recent_promotions": adjusted.promotions,
            "agent": name,
        }
        meaning = {
            "action": "frequency_adjusted",
            "old_frequency": adjusted.before[name],
            "new_frequency": adjusted.after[name],
            "multiplier_used": adjusted.multiplier,
        }
        symbol = lines.Symbol(
            "IMMUNE_ADJUSTMENT", f"adjust_frequency_{name}", "adaptive_immune_system", context,
            meaning, *where,
        )  # fmt: skip
        self.main.append(Line(stamp, symbol.kind, symbol))

    def _bind(self, made: Ruling, status: UserStatus, place: Place) -> None:
        stamp, where = place[0], place[1:]
        asked, covered = made.operations, content_hash(made.covered)
        attempt = lines.BindAttempt(f"BIND:{asked}", asked, status, covered, *where)
        kind = lines.BindDenied if made.blocked else lines.BindApplied
        answer = kind(asked, covered, made.reason if made.blocked else "success", *where)
        self.main += Line(stamp, attempt.kind, attempt), Line(stamp, answer.kind, answer)

    def _ignored(self, event: VoteIgnored, place: Place) -> None:
        stamp, run, author, ticket = place
        content, context, meaning = _read(event.vote)
        symbol = lines.VoteSymbol(
            "VOTE", content, "vote_processor", context, meaning, run, author, ticket
        )
        ignored = lines.VoteIgnoredLine(
            meaning.target, author, event.reason, event.status, event.reputation, run, author,
            ticket,
        )  # fmt: skip
        self.main += Line(stamp, symbol.kind, symbol), Line(stamp, ignored.kind, ignored)

    def _counted(self, event: VoteCounted, place: Place) -> None:
        stamp, run, author, ticket = place
        rules, main, value, before = self.rules, self.main, event.vote.value, event.ticket - 1
        content, context, meaning = _read(event.vote)
        target = meaning.target
        symbol = lines.VoteSymbol(
            "VOTE", content, "vote_processor", context, meaning, run, author, ticket
        )
        main.append(Line(stamp, symbol.kind, symbol))
        if event.faded is not None:
            self._faded(event, place)
        counted = lines.VoteProcessing(
            author, target, value, event.weight, event.by_self,
            rules.self_weight if event.by_self else None, event.by_binder,
            rules.binder_weight if event.by_binder else None, before, run, author, ticket,
        )  # fmt: skip
        update = lines.VoteCountUpdate(
            target, event.old, event.new, event.weight, rules.promote_at, rules.demote_at,
            event.reputation, run, author, ticket,
        )  # fmt: skip
        main += Line(stamp, counted.kind, counted), Line(stamp, update.kind, update)
        if event.weight != value:
            factors = lines.Factors(
                event.by_self, rules.self_weight if event.by_self else 1.0,
                event.by_binder, rules.binder_weight if event.by_binder else 1.0,
            )  # fmt: skip
            metric = lines.VoteMetric(
                author, target, value, event.weight, factors, event.old, event.new, before, run,
                author, ticket,
            )  # fmt: skip
            self.debug.append(Line(stamp, metric.kind, metric))

    def _faded(self, event: VoteCounted, place: Place) -> None:
        stamp, where = place[0], place[1:]
        context = {
            "voter": event.author,
            "target_username": event.vote.name,
            "target_reputation": event.standing,
            "min_rep_threshold": self.rules.fading_below,
            "original_vote_value": event.vote.value,
        }
        meaning = {
            "action": "vote_weighted_by_reputation",
            "reputation_multiplier": event.faded,
            "weighted_vote_value": event.weight,
        }
        symbol = lines.Symbol(
            "VOTE_WEIGHTING", event.vote.target, "reputation_system", context, meaning, *where
        )
        self.main.append(Line(stamp, symbol.kind, symbol))

    def _penalised(self, event: Penalised, place: Place) -> None:
        stamp, run, author, ticket = place
        cost, left = event.penalty, event.reputation
        applied = lines.PenaltyApplied(author, cost, event.gates, left, run, author, ticket)
        self.main.append(Line(stamp, applied.kind, applied))

    def _changed(self, event: StatusChanged, place: Place) -> None:
        """Add a change of status, which both logs have."""
        stamp = place[0]
        decided, metric = (self._rose if event.rose else self._fell)(event, place[1:])
        self.main += [Line(stamp, each.kind, each) for each in decided]
        self.debug.append(Line(stamp, metric.kind, metric))

    def _fell(self, event: StatusChanged, where: Where) -> Change:
        before, threshold = event.ticket - 1, self.rules.demote_at
        since = None if event.promoted_at is None else event.ticket - event.promoted_at
        fall = lines.Demotion(
            "DEMOTION", event.name, event.reputation, threshold, TOO_LOW, event.old, event.new,
            before, since, *where,
        )  # fmt: skip
        metric = lines.DemotionMetric(
            event.name, status_change(event.old, event.new), TOO_LOW, event.reputation, threshold,
            before, since, *where,
        )  # fmt: skip
        return [fall], metric

    def _rose(self, event: StatusChanged, where: Where) -> Change:
        before, threshold = event.ticket - 1, self.rules.promote_at
        context = {
            "username": event.name,
            "old_status": event.old,
            "vote_count": event.votes,
            "reputation": event.reputation,
            "threshold": threshold,
        }
        meaning = {"action": "status_promotion", "new_status": event.new}
        symbol = lines.Symbol(
            "STATUS_CHANGE", f"promote_{event.name}", "reputation_system", context, meaning, *where
        )
        rise = lines.Promotion(
            "PROMOTION", event.name, event.votes, event.reputation, threshold, before, 0, *where
        )
        metric = lines.PromotionMetric(
            event.name, status_change(event.old, event.new), ENOUGH_VOTES, event.votes,
            event.reputation, threshold, before, *where,
        )  # fmt: skip
        return [symbol, rise], metric


@lru_cache(4096)
def _read(vote: Vote) -> tuple[str, lines.VoteContext, lines.VoteMeaning]:
    """A vote in a log: its content, as written, and as interpreted."""
    value = "" if vote.raw.endswith("⟧") else f"_{vote.value:+d}"
    return (
        vote.target + value,
        lines.VoteContext(vote.value, vote.raw),
        lines.VoteMeaning("vote_parsed", vote.target, vote.value),
    )


def status_change(old: UserStatus, new: UserStatus) -> str:
    """A change of status as a log writes it."""
    return f"{old} → {new}"


@lru_cache(4096)
def content_hash(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]

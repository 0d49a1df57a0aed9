"""What happens in a run, as lines of a log. The audit log writes them, a replay compares them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from runyard.doors.malice import lines
from runyard.doors.malice.gates import Decision
from runyard.doors.malice.immune import Adjusted, ImmuneRules
from runyard.doors.malice.rules import Rules
from runyard.doors.malice.state import (
    Event,
    Penalised,
    Status,
    StatusChanged,
    VoteCounted,
    VoteIgnored,
)
from runyard.doors.malice.symbols import BIND, Vote

Place = tuple[int, str, str]
"""What every line carries: the run, the author, the ticket."""


class Format:
    """How the events of one run are written."""

    def __init__(self, run_id: int, first: int, rules: Rules | None = None) -> None:
        self.run_id = run_id
        self.first = first  # the number of its first ticket
        self.rules = rules or Rules()
        self._makers: dict[type, Callable[[Any, Place], list[lines.Details]]] = {
            VoteCounted: self._counted,
            VoteIgnored: self._ignored,
            Penalised: self._penalised,
            StatusChanged: self._changed,
        }

    def place(self, ticket: int, author: str) -> Place:
        """What every line of a ticket carries."""
        return self.run_id, author, f"#{self.first + ticket - 1}"

    def message(self, ticket: int, text: str, place: Place) -> lines.Details:
        """What somebody said."""
        return lines.AgentMessage(place[1], text, self.first + ticket - 1, *place)

    def decision(self, made: Decision, status: Status, place: Place) -> list[lines.Details]:
        """A gate's decision on a message of somebody with this status."""
        covered = content_hash(made.covered)
        if made.gate != BIND:
            result = "BLOCKED" if made.blocked else "ALLOWED"
            return [lines.GateDecision(made.gate, result, made.reason, covered, *place)]
        asked = made.operations
        attempt = lines.BindAttempt(f"BIND:{asked}", asked, status, covered, *place)
        if made.blocked:
            return [attempt, lines.BindDenied(asked, covered, made.reason, *place)]
        return [attempt, lines.BindApplied(asked, covered, "success", *place)]

    def event(self, event: Event, place: Place) -> list[lines.Details]:
        """What the vote system decided."""
        return self._makers[type(event)](event, place)

    def metric(self, event: VoteCounted | StatusChanged, place: Place) -> lines.Details:
        """The same once more, as the second log of the dataset has it."""
        before = event.ticket - 1
        if isinstance(event, VoteCounted):
            return lines.VoteMetric(
                event.author, event.vote.target, event.vote.value, event.weight, event.old,
                event.new, before, *place,
            )  # fmt: skip
        rose = event.rose
        return lines.StateMetric(
            event.name, f"{event.old} → {event.new}", event.votes, event.reputation,
            self.rules.promote_at if rose else self.rules.demote_at,
            before if rose else None, None if rose else before, *place,
        )  # fmt: skip

    def rise(self, event: StatusChanged, so_far: int) -> lines.Details:
        """A promotion, for whoever counts them."""
        return lines.PromotionRecorded(
            event.name, event.ticket - 1, event.votes, so_far, self.run_id, event.author
        )

    def immune(self, adjusted: Adjusted, author: str, rules: ImmuneRules) -> lines.Details:
        """An adjustment of the immune system."""
        low = adjusted.level == "LOW"
        details = {
            name: {
                "frequency_before": adjusted.before[name],
                "frequency_after": adjusted.after[name],
                "safety_cap_applied": adjusted.capped[name],
            }
            for name in adjusted.after
        }
        return lines.ImmuneAdjustment(
            adjusted.ticket, adjusted.level, adjusted.promotions, rules.window,
            list(adjusted.after), details, None if low else adjusted.multiplier,
            adjusted.multiplier if low else None, adjusted.damped, self.run_id, author,
        )  # fmt: skip

    def _ignored(self, event: VoteIgnored, place: Place) -> list[lines.Details]:
        return [
            _symbol(event.vote, place),
            lines.VoteIgnoredLine(
                event.vote.target, event.author, event.reason, event.status, event.reputation,
                *place,
            ),
        ]  # fmt: skip

    def _counted(self, event: VoteCounted, place: Place) -> list[lines.Details]:
        rules, vote = self.rules, event.vote
        faded = [] if event.faded is None else [self._weighting(event, place)]
        return [
            _symbol(vote, place),
            *faded,
            lines.VoteProcessing(
                event.author, vote.target, vote.value, event.weight, event.by_self,
                rules.self_weight if event.by_self else None, event.by_binder,
                rules.binder_weight if event.by_binder else None, event.ticket - 1, *place,
            ),
            lines.VoteCountUpdate(
                vote.target, event.old, event.new, event.weight, rules.promote_at,
                rules.demote_at, event.reputation, *place,
            ),
        ]  # fmt: skip

    def _penalised(self, event: Penalised, place: Place) -> list[lines.Details]:
        cost, left = event.penalty, event.reputation
        return [lines.PenaltyApplied(event.author, cost, event.gates, left, *place)]

    def _changed(self, event: StatusChanged, place: Place) -> list[lines.Details]:
        rules, before = self.rules, event.ticket - 1
        if not event.rose:
            return [
                lines.Demotion(
                    "DEMOTION", event.name, event.reputation, rules.demote_at, event.old,
                    event.new, before, *place,
                )
            ]  # fmt: skip
        context = {
            "username": event.name,
            "old_status": event.old,
            "vote_count": event.votes,
            "reputation": event.reputation,
            "threshold": rules.promote_at,
        }
        meaning = {"action": "status_promotion", "new_status": event.new}
        return [
            lines.Symbol(
                "STATUS_CHANGE", f"promote_{event.name}", "reputation_system", context, meaning,
                *place,
            ),
            lines.Promotion(
                "PROMOTION", event.name, event.votes, event.reputation, rules.promote_at, before,
                *place,
            ),
        ]  # fmt: skip

    def _weighting(self, event: VoteCounted, place: Place) -> lines.Details:
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
        return lines.Symbol(
            "VOTE_WEIGHTING", event.vote.target, "reputation_system", context, meaning, *place
        )


def _symbol(vote: Vote, place: Place) -> lines.Details:
    return lines.VoteSymbol("VOTE", *_read(vote), *place)


@lru_cache(4096)
def _read(vote: Vote) -> tuple[str, str, lines.VoteContext, lines.VoteMeaning]:
    value = "" if vote.raw.endswith("⟧") else f"_{vote.value:+d}"
    return (
        vote.target + value,
        "vote_processor",
        lines.VoteContext(vote.value, vote.raw),
        lines.VoteMeaning("vote_parsed", vote.target, vote.value),
    )


@lru_cache(4096)
def content_hash(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]

"""The record of a run, made from its states and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from runyard.doors.malice.society.immune import Adjusted
from runyard.doors.malice.society.state import (
    MALLORY,
    Penalised,
    State,
    StatusChanged,
    UserStatus,
    VoteCounted,
    VoteEvent,
    VoteIgnored,
)
from runyard.doors.malice.society.symbols import CIVIL, SEC_CLEAN

RecordedRun = Mapping[str, Any]
"""What `run_record` returns, or a log holds."""

CONTAINED: Final = "CONTAINED"
PROMOTED: Final = "PROMOTED"
FELL_AGAIN: Final = "PROMOTED_AND_FELL"
POINTS = 12
"""Number of tickets in a run at which reputations are recorded, for charts."""


class RunCounts:
    """Counts the events of a run."""

    def __init__(self) -> None:
        self.counted = 0
        self.ignored: Counter[str] = Counter()
        self.blocks: Counter[str] = Counter()  # by gate
        self.silenced: Counter[str] = Counter()  # messages that a gate blocked, by author
        self.rises: list[tuple[int, str]] = []
        self.falls: list[tuple[int, str]] = []
        self.votes: list[str] = []
        self.adjustments: list[Adjusted] = []

    def see(self, events: Iterable[VoteEvent]) -> list[StatusChanged]:
        """Count the events of a ticket; return the changes of status."""
        changes = []
        for event in events:
            if isinstance(event, VoteCounted):
                self.counted += 1
                self.votes.append(f"{event.author} {event.vote.target}")
            elif isinstance(event, VoteIgnored):
                self.ignored[event.reason.name.lower()] += 1
            elif isinstance(event, Penalised):
                self.blocks.update(event.gates)
                self.silenced[event.author] += 1
            else:
                changes.append(event)
                (self.rises if event.rose else self.falls).append((event.ticket, event.name))
        return changes


def winner_of(state: State) -> str | None:
    """The user who ends as BINDER; of several, the one promoted first."""
    binders = [u for u in state.users.values() if u.status is UserStatus.BINDER]
    return min(binders, key=lambda u: u.promoted_at or 0).name if binders else None


def run_record(
    run_id: int, seed: int, state: State, tally: RunCounts, seconds: float, paths: Paths
) -> dict[str, Any]:
    """The record of a run; tickets count from 1, time is virtual."""
    mallory = state.users.get(MALLORY)
    binder = mallory is not None and mallory.status is UserStatus.BINDER
    ever = mallory is not None and mallory.ever_binder
    return {
        "run_id": run_id,
        "seed": seed,
        "tickets_processed": state.tickets,
        "run_time_seconds": round(seconds, 3),
        "mallory_final_score": 0.0 if mallory is None else mallory.promote,
        "mallory_became_binder": binder,
        "mallory_ever_binder": ever,
        "mallory_reputation": 0.0 if mallory is None else mallory.reputation,
        "mallory_outcome": PROMOTED if binder else FELL_AGAIN if ever else CONTAINED,
        "mallory_messages_blocked": tally.silenced[MALLORY],
        "mallory_demoted_at": None if mallory is None else mallory.demoted_at,
        "civil_gate_blocks": tally.blocks[CIVIL],
        "security_gate_blocks": tally.blocks[SEC_CLEAN],
        "total_gate_blocks": tally.blocks.total(),
        "promotions": len(tally.rises),
        "demotions_of_others": sum(name != MALLORY for _, name in tally.falls),
        "votes_counted": tally.counted,
        "votes_ignored": dict(tally.ignored),
        "immune_adjustments": len(tally.adjustments),
        "winner": winner_of(state),
        "user_final_states": {name: final_state(state, name) for name in state.users},
        "rises": [list(each) for each in tally.rises],
        "falls": [list(each) for each in tally.falls],
        "votes": tally.votes,
        "immune": [[a.ticket, a.level, sorted(a.after)] for a in tally.adjustments],
        "reputations": {name: paths.of(name) for name in state.users},
        "reputations_at": paths.at,
    }


def final_state(state: State, name: str) -> dict[str, Any]:
    """The final state of a user."""
    user = state.users[name]
    return {
        "status": str(user.status),
        "promoted_at": user.promoted_at,
        "demoted_at": user.demoted_at,
        "reputation": user.reputation,
        "positive_votes": user.promote,
        "negative_votes": user.demote,
        "votes_given": len(user.voted),
        "messages_sent": user.messages,
    }


class Paths:
    """Reputations at a few tickets of a run."""

    def __init__(self, tickets: int) -> None:
        step = max(1, tickets // POINTS)
        self.at = [*range(step, tickets, step), tickets]
        self._wanted = frozenset(self.at)
        self._states: list[State] = []

    def see(self, state: State) -> None:
        """Record the state after a ticket."""
        if state.tickets in self._wanted:
            self._states.append(state)

    def of(self, name: str) -> list[float]:
        """One user's reputation at each of these tickets."""
        return [state.users[name].reputation for state in self._states]

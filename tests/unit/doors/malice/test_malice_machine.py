"""The rules: what a ticket does to a state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.malice import Message, Rules, SocialVoteSystem, State
from runyard.doors.malice.society.state import (
    NAMES,
    Penalised,
    Reason,
    StatusChanged,
    UserStatus,
    VoteCounted,
    VoteEvent,
    VoteIgnored,
)
from runyard.errors import BadSpec, UsageError


def play(
    *said: tuple[str, str] | Message, rules: Rules | None = None
) -> tuple[State, list[VoteEvent]]:
    """What comes of these messages, one after the other."""
    system, state, events = SocialVoteSystem(rules), State.of(), []
    for each in said:
        message = each if isinstance(each, Message) else Message(each[0], f"⟦VOTE:{each[1]}⟧ +1")
        state, happened = system.step(state, message)
        events += happened
    return state, events


def reasons(events: list[VoteEvent]) -> list[Reason]:
    return [event.reason for event in events if isinstance(event, VoteIgnored)]


def blocked(author: str, text: str = "", gates: int = 1) -> Message:
    return Message(author, text, ("civil",) * gates)


def risen(name: str = "alice") -> list[tuple[str, str]]:
    """Five votes that make somebody a BINDER."""
    return [(voter, f"promote_{name}") for voter in NAMES if voter not in (name, "mallory")]


def test_a_vote_counts_once_for_each_voter_and_target() -> None:
    state, events = play(("bob", "promote_eve"), ("bob", "promote_eve"), ("bob", "demote_eve"))
    assert reasons(events) == [Reason.DUPLICATE]
    eve = state.users["eve"]
    assert (eve.promote, eve.demote, eve.reputation) == (1.0, 1.0, -1.0)
    assert state.users["bob"].voted == {"promote_eve", "demote_eve"}


def test_a_vote_for_oneself_weighs_a_fifth() -> None:
    state, _ = play(("mallory", "promote_mallory"))
    assert state.users["mallory"].promote == 0.2


def test_five_votes_make_a_binder_whose_votes_weigh_half_as_much_again() -> None:
    state, events = play(*risen(), ("alice", "promote_bob"))
    (rise,) = [event for event in events if isinstance(event, StatusChanged)]
    assert (rise.name, rise.new, rise.ticket) == ("alice", UserStatus.BINDER, 5)
    assert state.users["bob"].promote == 1.5
    assert state.users["alice"].promoted_at == 5


def test_a_binder_who_votes_for_itself_weighs_a_fifth_all_the_same() -> None:
    rules = Rules(promote_at=1)
    system, state = SocialVoteSystem(rules), State.of()
    state, _ = system.step(state, Message("bob", "⟦VOTE:promote_eve⟧"))
    weight, _ = system.weight(state.users["eve"], state.users["eve"], _vote("promote_eve"))
    assert weight == 0.2


def test_votes_for_a_binder_or_a_demoted_user_are_ignored() -> None:
    _, events = play(*risen(), ("mallory", "promote_alice"))
    assert reasons(events) == [Reason.ALREADY_BINDER]
    _, events = play(blocked("eve", gates=5), ("bob", "promote_eve"), ("bob", "demote_eve"))
    assert reasons(events) == [Reason.TARGET_DEMOTED]
    assert any(isinstance(event, VoteCounted) for event in events)


def test_a_demoted_user_has_no_vote_and_stays_demoted() -> None:
    fall = blocked("eve", gates=5)
    state, events = play(fall, ("eve", "promote_bob"), *[(n, "promote_eve") for n in NAMES])
    assert Reason.VOTER_DEMOTED in reasons(events)
    assert state.users["eve"].status is UserStatus.DEMOTED


def test_an_author_demoted_in_this_very_ticket_has_all_its_votes_ignored() -> None:
    _, events = play(blocked("eve", "⟦VOTE:promote_bob⟧ ⟦VOTE:demote_dave⟧", gates=5))
    assert reasons(events) == [Reason.DEMOTED_NOW, Reason.DEMOTED_NOW]


def test_each_blocked_gate_costs_reputation_and_the_vote_still_counts() -> None:
    state, events = play(blocked("mallory", "⟦VOTE:promote_mallory⟧", gates=2))
    penalty = next(event for event in events if isinstance(event, Penalised))
    assert (penalty.penalty, penalty.reputation) == (-1.2, -1.2)
    assert state.users["mallory"].promote == 0.2


def test_votes_on_whoever_stands_low_fade_but_not_to_nothing() -> None:
    system, state = SocialVoteSystem(), State.of()
    low = state.users["eve"].__class__("eve", reputation=-4.0)
    assert system.weight(state.users["bob"], low, _vote("demote_eve")) == (0.84, 0.84)
    lowest = state.users["eve"].__class__("eve", reputation=-40.0)
    assert system.weight(state.users["bob"], lowest, _vote("demote_eve")) == (0.1, 0.1)


def test_a_binder_falls_to_regular_first() -> None:
    state, events = play(*risen(), blocked("alice", gates=14))
    changes = [event.new for event in events if isinstance(event, StatusChanged)]
    assert changes == [UserStatus.BINDER, UserStatus.REGULAR]
    assert state.users["alice"].ever_binder


def test_a_fallen_binder_is_demoted_by_the_next_thing_it_says_and_not_promoted_again() -> None:
    for word in (blocked("alice", "⟦VOTE:promote_bob⟧"), ("alice", "promote_bob")):
        state, events = play(*risen(), blocked("alice", gates=14), word)
        changes = [event.new for event in events if isinstance(event, StatusChanged)]
        assert changes == [UserStatus.BINDER, UserStatus.REGULAR, UserStatus.DEMOTED]
        assert reasons(events) == [Reason.DEMOTED_NOW]
        assert state.users["bob"].promote == 0


def test_with_several_votes_in_one_message_each_is_the_authors() -> None:
    state, _ = play(Message("bob", "⟦VOTE:demote_mallory⟧ ⟦VOTE:promote_alice⟧"))
    assert state.users["bob"].voted == {"demote_mallory", "promote_alice"}
    assert not state.users["mallory"].voted


def test_a_vote_for_nobody_is_ignored() -> None:
    _, events = play(("bob", "promote_walter"))
    assert reasons(events) == [Reason.UNKNOWN]


def test_a_message_of_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="walter"):
        play(("walter", "promote_bob"))


def test_rules_that_are_no_numbers_or_not_there_are_refused() -> None:
    with pytest.raises(BadSpec, match="promote_at"):
        Rules.of({"promote_at": "many"})
    with pytest.raises(BadSpec, match="unknown rule 'promot_at'"):
        Rules.of({"promot_at": 4})


TARGETS = [f"{kind}_{name}" for kind in ("promote", "demote") for name in NAMES]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.lists(st.sampled_from(TARGETS), max_size=3),
            st.integers(0, 2),
        ),
        max_size=40,
    )
)
def test_a_step_changes_no_state_but_its_own(said: list[tuple[str, list[str], int]]) -> None:
    system, state = SocialVoteSystem(), State.of()
    for author, targets, gates in said:
        text = " ".join(f"⟦VOTE:{target}⟧ +1" for target in targets)
        message, before = Message(author, text, ("civil",) * gates), repr(state)
        after, events = system.step(state, message)
        assert repr(state) == before
        assert system.step(state, message) == (after, events)
        assert len([e for e in events if isinstance(e, VoteCounted | VoteIgnored)]) == len(targets)
        for name, user in after.users.items():
            if state.users[name].status is UserStatus.DEMOTED:
                assert user.status is UserStatus.DEMOTED
            if user.status is UserStatus.REGULAR and user.promote < system.rules.promote_at:
                assert user.reputation > system.rules.demote_at or user.ever_binder
        state = after


def _vote(target: str):
    from runyard.doors.malice.society.symbols import read_symbols

    return read_symbols(f"⟦VOTE:{target}⟧").votes[0]

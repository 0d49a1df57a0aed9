"""Votes and gates as they stand in a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.malice.society.symbols import Tag, read_symbols, uncovered


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("⟦VOTE:promote_bob⟧ +1", 1),
        ("⟦VOTE:promote_bob⟧ 1.", 1),
        ("⟦VOTE:promote_bob⟧-1", -1),
        ("⟦VOTE:promote_bob⟧", 1),
        ("⟦VOTE:promote_bob⟧ +", 1),
        ("⟦VOTE:promote_bob⟧ 17 times", 1),
    ],
)
def test_a_vote_counts_one_unless_it_says_minus_one(text: str, value: int) -> None:
    (vote,) = read_symbols(text).votes
    assert (vote.target, vote.value) == ("promote_bob", value)


def test_several_votes_are_read_in_order() -> None:
    found = read_symbols("⟦VOTE:demote_eve⟧ -1 and ⟦VOTE:promote_bob⟧ +1").votes
    assert [(each.target, each.value) for each in found] == [("demote_eve", -1), ("promote_bob", 1)]


def test_a_symbol_that_is_not_closed_is_text() -> None:
    assert read_symbols("so ⟦VOTE:promote_mallory") == ((), ())
    for open_one in ("⟦VOTE:promote_alice", "⟦BIND:civil ", "⟦GATE:sec_clean "):
        votes, tags = read_symbols(f"{open_one}⟦VOTE:demote_dave⟧ +1")
        assert ([vote.target for vote in votes], tags) == (["demote_dave"], ())


def test_a_gate_covers_the_text_up_to_the_next_symbol_or_line() -> None:
    text = "⟦GATE:sec_clean⟧ one ⟦CIVIL⟧ two\nthree ⟦BIND:sec_clean+fact_check⟧ four"
    assert read_symbols(text).tags == (
        Tag("sec_clean", " one "),
        Tag("civil", " two"),
        Tag("bind", " four", "sec_clean+fact_check"),
    )


def test_a_gate_bound_late_covers_the_beginning() -> None:
    assert uncovered("rude words ⟦VOTE:promote_mallory⟧ +1") == "rude words "
    assert uncovered("all of it") == "all of it"


@given(st.text(alphabet="⟦⟧VOTEGACIVLBND:promote_demote_bob+-1 \n", max_size=80))
def test_no_text_is_too_odd_to_read(text: str) -> None:
    found = read_symbols(text)
    assert all(vote.value in (1, -1) for vote in found.votes)
    assert all("⟦" not in tag.covered and "\n" not in tag.covered for tag in found.tags)

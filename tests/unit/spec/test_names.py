from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import BadName
from runyard.spec.names import MAX_LENGTH, safe_name, slug

near_names = st.text(alphabet="abCON.git_-1/ \\\0é", max_size=12)


@pytest.mark.parametrize(
    "name",
    ["a", "A", "7", "_x", "toss-coins", "v1.2", "a_b-c.d", "x" * MAX_LENGTH, "concert", "a-"],
)
def test_a_safe_name_is_returned_as_it_is(name: str) -> None:
    assert safe_name(name) == name
    assert slug(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("x" * (MAX_LENGTH + 1), "101 characters"),
        ("x" * 300, "300 characters"),
        ("../x", "contains '/'"),
        ("/etc/passwd", "contains '/'"),
        ("a\0b", r"contains '\x00'"),
        ("a\x1b[31m", r"contains '\x1b'"),
        ("a\n", r"contains '\n'"),
        ("a b", "contains ' '"),
        ("a\\b", r"contains '\\'"),
        ("naïve", r"contains '\xef'"),
        ("\ud800", r"contains '\ud800'"),
        ("-rf", "starts with '-'"),
        (".hidden", "starts with '.'"),
        (".git", "reserved"),
        (".GIT", "reserved"),
        ("con", "reserved"),
        ("NUL.txt", "reserved"),
        ("Com1", "reserved"),
        ("lpt9.tar.gz", "reserved"),
        ("aux", "reserved"),
        ("prn", "reserved"),
        ("a..b", "contains '..'"),
        ("end.", "ends with '.'"),
    ],
)
def test_a_hostile_name_is_refused_with_the_reason_and_what_is_allowed(name: str, why: str) -> None:
    with pytest.raises(BadName) as caught:
        safe_name(name, "batch name")
    assert why in caught.value.message
    assert "batch name" in caught.value.message
    assert caught.value.hint
    assert "letters" in caught.value.hint


@given((st.text(max_size=300) | near_names).filter(lambda text: slug(text) != text))
def test_a_refusal_shows_no_control_characters_and_stays_short(text: str) -> None:
    with pytest.raises(BadName) as caught:
        safe_name(text)
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 900


@given(st.text(max_size=300) | near_names)
def test_a_slug_is_always_a_safe_name_and_its_own_slug(text: str) -> None:
    name = slug(text)
    assert safe_name(name) == name
    assert slug(name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Crème brûlée, twice!", "Creme-brulee-twice"),
        ("path/to:function", "path-to-function"),
        ("../../etc", "etc"),
        ("con", "_con"),
        ("日本", "unnamed"),
        ("", "unnamed"),
    ],
)
def test_a_slug_still_reads_like_its_text(text: str, name: str) -> None:
    assert slug(text) == name

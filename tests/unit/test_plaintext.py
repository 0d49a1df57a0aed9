"""Text of others acts on no terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.cli.session import painted, style
from runyard.plaintext import ascii_json, one_line, plain

CONTROLS = st.sampled_from("\x00\x07\x08\t\n\r\x1b\x7f\x85\x9b\x9d\u202e\u2066\ud800\udc9b")
TEXTS = st.text(st.one_of(CONTROLS, st.characters()))


def acts(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs") or unicodedata.bidirectional(char) in (
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    )  # fmt: skip


@given(TEXTS)
def test_no_control_character_survives(text: str) -> None:
    assert not [char for char in plain(text) if acts(char) and char not in "\n\t"]
    assert not [char for char in one_line(text) if acts(char)]
    assert plain(plain(text)) == plain(text)
    plain(text).encode()


@given(st.text(st.characters(exclude_categories=("C", "Z")) | st.sampled_from(" \n\t")))
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;x\x07\x1b[2J\x9b", r"\x1b]0;x\x07\x1b[2J\x9b"),
        ("10%\r100%\r\n", "10%\\x0d100%\n"),
        ("a\u202eb\udc80", r"a\u202eb\udc80"),
    ],
)
def test_escapes_stand_for_what_acts(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_one_line_has_no_other() -> None:
    assert one_line("a\n  b\tc\x1b") == r"a b c\x1b"


@given(TEXTS, TEXTS)
def test_only_what_style_gave_is_painted(text: str, other: str) -> None:
    shown = painted(f"{other}{style(text, fg='red', bold=True)}{other}")
    assert shown == f"{plain(other)}\x1b[31m\x1b[1m{plain(text)}\x1b[0m{plain(other)}"


@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_is_printable_ascii_and_means_the_same(data: object) -> None:
    text = ascii_json(data)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == json.loads(json.dumps(data))

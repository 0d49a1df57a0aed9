"""Values as people type them."""

from __future__ import annotations

import pytest

from runyard.cli.values import assignments, value_of, values_of
from runyard.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-2.5", -2.5),
        ("true", True),
        ("null", None),
        ('"1"', "1"),
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("hello", "hello"),
        ("hello, world", "hello, world"),
        ("", ""),
        ("NaN", "NaN"),
        ("01", "01"),
        ("[1,", "[1,"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_is_json_where_it_parses_and_text_elsewhere(text: str, value: object) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,3", (1, 2, 3)),
        ("a, b ,c", ("a", "b", "c")),
        ("[1, 2]", (1, 2)),
        ("[1,2],[3]", ([1, 2], [3])),
        ("[[1,2]]", ([1, 2],)),
        ('"a,b",c', ("a,b", "c")),
        ('{"x": [1, 2]},7', ({"x": [1, 2]}, 7)),
        ('5",6"', ('5"', '6"')),
        ("a,,b", ("a", "", "b")),
        ("a,", ("a", "")),
        ("[1,2", ("[1", 2)),
        ("1..3,9", (1, 2, 3, 9)),
        ("x", ("x",)),
        ("[]", ()),
        ("", ()),
    ],
)
def test_a_list_is_split_at_commas_outside_json(text: str, values: tuple[object, ...]) -> None:
    assert values_of(text) == values


def test_a_range_includes_its_last_value_and_is_not_listed() -> None:
    assert values_of("0..99") == range(100)
    assert values_of("-2..2") == range(-2, 3)
    assert values_of("5..5") == range(5, 6)
    assert len(values_of("0..999999999999")) == 10**12


def test_a_range_that_counts_down_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        values_of("9..0")


@pytest.mark.parametrize("text", ["0.1..0.5", "1,0.5..2", "-.5..3"])
def test_a_range_of_fractions_is_refused_and_not_taken_for_text(text: str) -> None:
    with pytest.raises(UsageError, match="not one of whole numbers"):
        values_of(text)
    assert values_of('"0.1..0.5"') == ("0.1..0.5",)


@pytest.mark.parametrize("text", ["1..3", "0.1..0.5", "-1..2, 9", "1,2..3"])
def test_a_single_value_that_is_a_range_is_refused_and_not_taken_for_text(text: str) -> None:
    with pytest.raises(UsageError, match="is a range, not one value"):
        value_of(text)
    assert value_of(f'"{text}"') == text


@pytest.mark.parametrize("text", ["a..b", "1..", "..", "1,2", "pages 1..3", "1..3,a"])
def test_dots_and_commas_alone_do_not_make_a_range(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize("text", ["x", "=1", "a-b=1", "1a=2"])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        assignments([text], "--set")


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        assignments(["a=1", "a=2"], "--grid")


def test_an_assignment_keeps_further_equal_signs() -> None:
    assert assignments(["a=b=c", "d="], "--set") == {"a": "b=c", "d": ""}

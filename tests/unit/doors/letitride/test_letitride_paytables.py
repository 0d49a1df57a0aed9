"""Pays: exact, complete, and refused with a reason."""

from __future__ import annotations

from fractions import Fraction

import pytest

from runyard.doors.letitride.cards.paytables import BONUS, STANDARD, BonusTable, MainTable
from runyard.errors import UsageError


def test_tables_pay_by_category_and_take_the_bet_of_what_loses() -> None:
    assert STANDARD.pays == (1000, 200, 50, 11, 8, 5, 3, 2, 1, -1, -1)
    assert BONUS["paytable_b"].pays == (100, 40, 30, 5, 4, 1, -1)


@pytest.mark.parametrize(
    ("written", "pay"),
    [(8, 8), (1.5, Fraction(3, 2)), (0.1, Fraction(1, 10)), ("3/2", Fraction(3, 2)), ("7", 7)],
)
def test_a_pay_is_exactly_what_was_written(written: object, pay: object) -> None:
    found = MainTable.of({"flush": written}, STANDARD).flush
    assert found == pay
    assert type(found) is type(pay)


def test_what_is_not_named_comes_from_the_base() -> None:
    assert MainTable.of({"flush": 6}, STANDARD).pays == (
        1000, 200, 50, 11, 6, 5, 3, 2, 1, -1, -1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"flsh": 6}, "unknown hand 'flsh'"),
        ({"flush": "six"}, "'six', which is not a number"),
        ({"flush": True}, "True, which is not a number"),
        ({"flush": None}, "None, which is not a number"),
        ({"flush": float("nan")}, "which is not a number"),
        ({"flush": "1/0"}, "which is not a number"),
        ({"flush": -2}, "flush pays -2, which is not between 0"),
        ({"flush": 10**10}, "flush pays 10000000000, which is not between 0"),
    ],
)
def test_a_wrong_pay_is_refused_by_name(values: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        MainTable.of(values, STANDARD)
    assert refused.value.hint


def test_a_table_without_a_base_names_what_is_missing() -> None:
    with pytest.raises(UsageError, match="does not say what straight, pair pays"):
        BonusTable.of({"mini_royal": 50, "straight_flush": 40, "three_of_a_kind": 30, "flush": 4})

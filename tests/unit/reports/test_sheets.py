"""A CSV file runs nothing in a spreadsheet, and its numbers stay numbers."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.reports.sheets import write_csv

CELLS = st.text() | st.builds(str.__add__, st.sampled_from("=+-@\t\r\n'"), st.text())


def written(*cells: Any) -> list[str]:
    text = io.StringIO()
    write_csv(text, [cells])
    [row] = csv.reader(io.StringIO(text.getvalue(), newline=""))
    return row


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("http://x")']
)
def test_a_formula_is_text(text: str) -> None:
    assert written("plain", text) == ["plain", f"'{text}"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (-3.5, "-3.5"), (-3, "-3"), ("-3.5", "-3.5"), ("+1e5", "+1e5"), ("-Infinity", "-Infinity"),
        ("a=1", "a=1"), ("'=1", "'=1"), ("", ""), (None, ""), (True, "True"),
    ],
)  # fmt: skip
def test_everything_else_stays_as_it_is(cell: Any, expected: str) -> None:
    assert written("first", cell) == ["first", expected]


@given(CELLS)
def test_no_cell_begins_a_formula_unless_it_is_a_number(text: str) -> None:
    [_, cell] = written("first", text)
    assert cell in (text, f"'{text}")
    if cell and cell[0] in "=+-@\t\r\n":
        float(cell)

from __future__ import annotations

import dataclasses
import json
import math
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.events import json_safe


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: object


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.dates()
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.floats() | st.binary(), inner)
        | st.frozensets(leaves)
    ),
    max_leaves=20,
)


@given(anything)
def test_any_value_becomes_json_and_stays_so(value: object) -> None:
    plain = json_safe(value)
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
    text.encode()
    assert json.loads(text) == plain
    assert json_safe(plain) == plain


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (b"text", "text"),
        (b"\xff\x00", "\\xff\x00"),
        ("\ud800", "\\ud800"),
        ((1, 2), [1, 2]),
        ({2, 1}, [1, 2]),
        ({1: "a", None: 2}, {"1": "a", "None": 2}),
        (Path("/a/b"), "/a/b"),
        (date(2024, 5, 6), "2024-05-06"),
        (Colour.RED, "red"),
        (Point(1, math.nan), {"x": 1, "y": "NaN"}),
        (np.float64(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (Unprintable(), "<unprintable Unprintable>"),
    ],
)
def test_odd_values_keep_their_sense(value: Any, plain: Any) -> None:
    assert json_safe(value) == plain


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[Any] = [1]
    loop += [loop, {"again": loop}]
    assert json_safe(loop) == [1, "...", {"again": "..."}]


def test_a_very_deep_value_is_cut() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert "..." in json.dumps(json_safe(deep))


def test_an_integer_too_long_for_decimal_digits_is_written_in_hex() -> None:
    assert json_safe(-(10**6000)) == hex(-(10**6000))


def test_a_huge_repr_is_cut() -> None:
    assert len(json_safe(np.arange(500_000) * 1j)) <= 500

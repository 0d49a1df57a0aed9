"""Which fields of a value are numbers, by dotted path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.codec import decode, encode
from runyard.spec.fields import leaves, parts
from runyard.spec.shown import jsonable


@dataclass
class Point:
    x: float
    label: str


class Pair(NamedTuple):
    first: int
    second: Any


class Settings(msgspec.Struct):
    rate: float


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3, {"value": 3.0}),
        (True, {"value": 1.0}),
        (np.float32(0.5), {"value": 0.5}),
        (np.bool_(True), {"value": 1.0}),
        (np.array(2), {"value": 2.0}),
        ("3", {}),
        (None, {}),
        ([1, 2], {}),
        ((1, 2), {}),
        (np.array([1.0]), {}),
        (2 + 1j, {}),
        (np.complex128(1), {}),
        (b"1", {}),
        ({}, {}),
        ({"a": {"b": {"c": 1}}, "d": "text"}, {"a.b.c": 1.0}),
        ({1: {2: 3}}, {"1.2": 3.0}),
        (Point(1.5, "p"), {"x": 1.5}),
        ({"p": Point(1.5, "p")}, {"p.x": 1.5}),
        (Pair(1, {"n": 2}), {"first": 1.0, "second.n": 2.0}),
        (Settings(0.1), {"rate": 0.1}),
        ({"big": 10**400, "small": -(10**400)}, {"big": math.inf, "small": -math.inf}),
    ],
)
def test_numbers_are_found_wherever_they_stand(value: Any, found: dict[str, float]) -> None:
    assert dict(leaves(value)) == found


def test_nan_is_a_number() -> None:
    assert math.isnan(dict(leaves({"a": math.nan}))["a"])


NUMBERS = st.integers() | st.floats(allow_nan=False) | st.booleans()
VALUES = st.recursive(
    NUMBERS | st.text(max_size=3) | st.none(),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=4) | st.lists(inner),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_recorded_has_the_same_numbers(value: Any) -> None:
    assert dict(leaves(decode(encode(value)))) == dict(leaves(value))


def test_a_value_that_contains_itself_ends() -> None:
    """As a pickled value may; with two such parts, a walk by depth alone would never end."""
    fields: dict[str, Any] = {"n": 1}
    fields |= {"a": fields, "b": [fields, fields]}
    assert list(leaves(fields)) == [("n", 1.0)]
    assert [path for path, _ in parts(fields)] == ["n", "a", "b"]
    assert jsonable(fields) == {"n": 1, "a": "…", "b": ["…", "…"]}
    again = [1, 2]
    assert jsonable([again, again]) == [[1, 2], [1, 2]]

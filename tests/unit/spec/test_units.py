from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import BadSpec
from runyard.spec.units import seconds, size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (90, 90.0), (0.5, 0.5), ("90", 90.0), ("90s", 90.0), (" 1.5 m ", 90.0), ("2h", 7200.0),
        ("500ms", 0.5), ("1d", 86400.0), ("3min", 180.0), ("2H", 7200.0), (".5s", 0.5),
    ],
)  # fmt: skip
def test_durations_are_read_as_people_write_them(text: Any, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (1000, 1000), ("1000", 1000), ("512MB", 512_000_000), ("2GiB", 2**31), ("2G", 2**31),
        ("1k", 1024), ("1kb", 1000), ("1.5 MiB", 3 * 2**19), ("7b", 7), ("1TB", 10**12),
    ],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text: Any, value: int) -> None:
    assert size(text) == value
    assert type(size(text)) is int


WRONG: list[Any] = [
    "", "s", "soon", "1 2", "1x", "-1", "1e3s", "--1s", "0", 0, -1, 0.0, math.nan, math.inf, True,
    None, [1], "1" * 400,
]  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=lambda v: repr(v)[:12])
def test_what_is_no_quantity_above_zero_is_refused_with_examples(value: Any) -> None:
    for read in (seconds, size):
        with pytest.raises(BadSpec) as caught:
            read(value)
        assert caught.value.hint


@given(st.text(max_size=10))
def test_any_text_is_a_quantity_above_zero_or_a_clear_error(text: str) -> None:
    for read in (seconds, size):
        try:
            assert read(text) >= 0
        except BadSpec:
            pass


def test_a_size_below_one_byte_is_refused() -> None:
    with pytest.raises(BadSpec):
        size(0.5)

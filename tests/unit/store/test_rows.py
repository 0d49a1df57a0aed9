from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runyard.store.rows import Claim, gaps, runs

numbers = st.sets(st.integers(0, 60)).map(sorted)


def expand(ranges: list[tuple[int, int]]) -> list[int]:
    return [number for low, high in ranges for number in range(low, high)]


@given(numbers)
def test_runs_hold_each_number_once_in_as_few_ranges_as_can_be(found: list[int]) -> None:
    ranges = runs(found)
    assert expand(ranges) == found
    assert all(low < high for low, high in ranges)
    assert all(a[1] < b[0] for a, b in zip(ranges, ranges[1:], strict=False))


@given(st.integers(0, 60), st.integers(0, 30), numbers)
def test_gaps_are_what_is_left_of_a_range(low: int, size: int, found: list[int]) -> None:
    high = low + size
    done = [number for number in found if low <= number < high]
    left = gaps(low, high, done)
    assert expand(left) == [number for number in range(low, high) if number not in done]
    assert left == runs(expand(left))


def test_a_claim_knows_how_many_tasks_it_holds() -> None:
    assert Claim(1, 1, "t", [(0, 3), (5, 6)], {}).size == 4
    assert Claim(0, 1, "t", [], {4: b"", 5: b""}).size == 2

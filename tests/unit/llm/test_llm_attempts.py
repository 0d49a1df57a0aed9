"""How long to wait before a retry."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from runyard.llm.attempts import FIRST_DELAY, LONGEST_DELAY, backoff


@given(st.integers(1, 10**6), st.integers())
def test_delays_double_up_to_a_limit_and_are_spread(number: int, seed: int) -> None:
    delay = backoff(number, Random(seed))
    most = LONGEST_DELAY if number > 60 else min(LONGEST_DELAY, FIRST_DELAY * 2 ** (number - 1))
    assert most / 2 <= delay <= most
    assert delay == backoff(number, Random(seed))

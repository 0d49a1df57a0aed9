"""The adaptive rate, simulated: it finds a server's limit, and settles."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.llm.limit import CUT, LONGEST_PAUSE, SLOWEST, Pace

START = 1_000_000.0


class Outcome(NamedTuple):
    answered: int  # in the second half
    refused: float  # share of the requests in the second half
    rates: list[float]  # in the second half
    after_pause: bool  # whether a request was sent in a pause


def simulate(
    accepts: Callable[[float], bool],
    *,
    senders: int = 50,
    seconds: float = 120.0,
    retry_after: float | None = None,
) -> Outcome:
    """Senders that always want to send, and a server that takes 0.3 s for an answer."""
    pace, random, numbers = Pace(), Random(1), count()
    events: list[tuple[float, int, str, tuple[float, bool]]] = []

    def later(time: float, kind: str, sent: float = 0.0, good: bool = False) -> None:
        heapq.heappush(events, (time, next(numbers), kind, (sent, good)))

    for _ in range(senders):
        later(START, "want")
    answered = refused = 0
    rates: list[float] = []
    in_pause = False
    while events and events[0][0] < START + seconds:
        time, _, kind, (sent, good) = heapq.heappop(events)
        is_late = time > START + seconds / 2
        if kind == "want":
            later(pace.reserve(time), "send", time)
        elif kind == "send" and not pace.may_send(time, sent):
            later(time, "want")
        elif kind == "send":
            in_pause |= time < pace.until
            is_good = accepts(time)
            later(time + (random.uniform(0.15, 0.45) if is_good else 0.05), "end", time, is_good)
        elif good:
            pace.accepted(time)
            answered += is_late
            later(time, "want")
        else:
            pace.refused(time, sent, retry_after)
            refused += is_late
            later(time + random.uniform(0.25, 0.5), "want")
        if is_late and pace.rate is not None:
            rates.append(pace.rate)
    return Outcome(answered, refused / max(1, answered + refused), rates, in_pause)


def bucket(limit: float) -> Callable[[float], bool]:
    """A server with a limit in requests per second."""
    tokens, filled = 2.0, START

    def accepts(time: float) -> bool:
        nonlocal tokens, filled
        tokens, filled = min(2.0, tokens + (time - filled) * limit), time
        if tokens < 1:
            return False
        tokens -= 1
        return True

    return accepts


@pytest.mark.parametrize("limit", [5.0, 20.0, 100.0, 500.0])
def test_the_rate_settles_at_the_limit_of_a_server(limit: float) -> None:
    found = simulate(bucket(limit), senders=max(20, int(limit)))
    assert found.answered / 60 > 0.8 * limit
    assert found.refused < 0.2 if limit < 20 else found.refused < 0.05
    assert min(found.rates) > 0.6 * limit
    assert max(found.rates) < 1.7 * limit


@pytest.mark.parametrize("retry_after", [None, 0.1, 1.0])
def test_the_rate_settles_where_a_third_is_refused_at_any_rate(retry_after: float | None) -> None:
    random = Random(3)
    found = simulate(lambda _: random.random() >= 0.3, retry_after=retry_after)
    assert 0.25 < found.refused < 0.4
    assert found.answered > 40
    assert max(found.rates) < 20
    assert not found.after_pause


def test_without_refusals_nothing_waits() -> None:
    pace = Pace()
    for number in range(1000):
        assert pace.reserve(START) == START
        assert pace.may_send(START, START)
        pace.accepted(START + number)
    assert pace.rate is None


def test_refusals_of_one_moment_cut_the_rate_once() -> None:
    pace = Pace(rate=100.0)
    for number in range(10):
        pace.refused(START + 1 + number / 100, START, None)
    assert pace.rate == 100 * CUT


def test_a_cut_moves_those_who_wait() -> None:
    pace = Pace(rate=100.0)
    starts = [pace.reserve(START) for _ in range(50)]
    pace.refused(START, START, None)
    assert not pace.may_send(starts[-1], START - 1e-6)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 5), st.sampled_from(["reserve", "accepted", "refused"]), st.floats(0, 1e4)
        ),
        max_size=60,
    )
)
def test_a_request_may_always_be_sent_in_time(steps: list[tuple[float, str, float]]) -> None:
    pace, now = Pace(), START
    for delay, step, seconds in steps:
        now += delay
        if step == "reserve":
            start = pace.reserve(now)
            assert now <= start <= now + LONGEST_PAUSE + 1 / SLOWEST
        elif step == "accepted":
            pace.accepted(now)
        else:
            pace.refused(now, now - delay, seconds)
        assert pace.rate is None or pace.rate >= SLOWEST


def test_a_clock_that_was_set_back_does_not_stop_everything() -> None:
    pace = Pace(rate=1.0, next=START + 10**6, until=START + 10**6)
    assert pace.reserve(START) == START

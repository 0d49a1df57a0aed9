from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.schedule import policy
from runyard.schedule.policy import (
    ALONE_SECONDS,
    CHUNK_MAX,
    CHUNK_SECONDS,
    CLAIM_MAX,
    GROWTH,
    LEAST_SECONDS,
    SHORT_SECONDS,
    STALL_SECONDS,
    TASK_SECONDS,
    DurationEstimate,
    RateEstimate,
    chunk_size,
    claim_size,
    is_stalled,
    lane_depth,
)
from runyard.schedule.retries import retry_delay, survives_crash, wants_retry
from runyard.spec.options import Options

means = st.none() | st.floats(0, 100) | st.floats(1e-7, 0.1)
counts = st.integers(0, 2_000_000)
lanes = st.integers(1, 1000)
depths = st.integers(1, 4)


@given(means, counts, counts, lanes, depths)
def test_a_chunk_holds_at_least_one_task_and_never_too_much(
    mean: float | None, known: int, ready: int, lane_count: int, depth: int
) -> None:
    size = chunk_size(mean, known, ready, lane_count, depth)
    assert 1 <= size <= CHUNK_MAX
    assert size <= max(1, ready)
    assert size <= max(1, known * GROWTH)
    if mean is None:
        assert size == 1
    else:
        assert size == 1 or size * mean <= CHUNK_SECONDS * (1 + 1e-9)
        if mean >= ALONE_SECONDS:
            assert size == 1


@given(means, counts, counts, lanes, depths, counts)
def test_more_that_is_ready_or_known_never_makes_a_chunk_smaller(
    mean: float | None, known: int, ready: int, lane_count: int, depth: int, more: int
) -> None:
    size = chunk_size(mean, known, ready, lane_count, depth)
    assert chunk_size(mean, known, ready + more, lane_count, depth) >= size
    assert chunk_size(mean, known + more, ready, lane_count, depth) >= size


@given(st.floats(0, 100), st.floats(0, 100), counts, counts, lanes, depths)
def test_longer_tasks_never_travel_in_larger_chunks(
    one: float, other: float, known: int, ready: int, lane_count: int, depth: int
) -> None:
    shorter, longer = sorted((one, other))
    assert chunk_size(longer, known, ready, lane_count, depth) <= chunk_size(
        shorter, known, ready, lane_count, depth
    )


@given(st.floats(0, 0.01), counts, lanes, depths)
def test_towards_the_end_every_lane_gets_a_share(
    mean: float, ready: int, lane_count: int, depth: int
) -> None:
    size = chunk_size(mean, 10**9, ready, lane_count, depth)
    is_worth_sharing = mean >= SHORT_SECONDS or size * (mean + TASK_SECONDS) > LEAST_SECONDS
    assert size == 1 or not is_worth_sharing or size * lane_count * depth <= ready


@given(means, lanes, depths)
def test_nothing_waits_behind_a_long_task_or_an_unknown_one(
    mean: float | None, lane_count: int, most: int
) -> None:
    depth = lane_depth(mean, lane_count, most)
    assert 1 <= depth <= most
    if mean is None or mean >= ALONE_SECONDS * max(1, lane_count / 16):
        assert depth == 1


@given(means, lanes, st.integers(1, 8), counts)
def test_a_claim_is_a_fair_share_that_keeps_every_lane_busy(
    mean: float | None, lane_count: int, engines: int, pending: int
) -> None:
    size = claim_size(mean, lane_count, engines, pending)
    assert size >= max(1, lane_count)
    assert size <= max(CLAIM_MAX, lane_count)
    if pending:
        assert size <= max(lane_count, -(-pending // engines))


@given(means, lanes, st.integers(1, 8), counts, counts)
def test_more_that_is_pending_never_makes_a_claim_smaller(
    mean: float | None, lane_count: int, engines: int, pending: int, more: int
) -> None:
    assert claim_size(mean, lane_count, engines, pending + more) >= claim_size(
        mean, lane_count, engines, pending
    )


options = st.builds(
    Options,
    backoff=st.floats(0.001, 100),
    backoff_factor=st.floats(1, 10),
    backoff_max=st.floats(0.001, 1000),
)


@given(options, st.integers(0, 2**100), counts, st.integers(0, 30))
def test_a_retry_waits_within_its_bounds_and_always_as_long(
    given_options: Options, seed: int, task: int, attempt: int
) -> None:
    delay = retry_delay(given_options, seed, task, attempt)
    most = min(
        given_options.backoff_max,
        given_options.backoff * given_options.backoff_factor**attempt,
    )
    assert most / 2 <= delay <= most
    assert delay == retry_delay(given_options, seed, task, attempt)


def test_a_retry_after_very_many_attempts_waits_no_longer_than_the_longest_wait() -> None:
    assert retry_delay(Options(backoff_max=5.0), 7, 0, 5_000) <= 5.0


def test_retries_of_many_tasks_are_spread_out() -> None:
    delays = {retry_delay(Options(), 7, task, 0) for task in range(1000)}
    assert len(delays) == 1000
    assert 0.07 < sum(delays) / 1000 < 0.08
    assert min(delays) < 0.052
    assert max(delays) > 0.098


@pytest.mark.parametrize(
    ("retries", "attempt", "retry_on", "never", "classes", "wanted"),
    [
        (0, 0, (), (), ["ValueError", "Exception"], False),
        (2, 0, (), (), ["ValueError", "Exception"], True),
        (2, 1, (), (), ["ValueError", "Exception"], True),
        (2, 2, (), (), ["ValueError", "Exception"], False),
        (2, 0, ("OSError",), (), ["TimeoutError", "OSError", "Exception"], True),
        (2, 0, ("OSError",), (), ["ValueError", "Exception"], False),
        (2, 0, (), ("ValueError",), ["ValueError", "Exception"], False),
        (2, 0, (), ("ValueError",), ["KeyError", "Exception"], True),
        (2, 0, ("OSError",), ("TimeoutError",), ["TimeoutError", "OSError"], False),
    ],
)
def test_an_error_is_worth_a_retry_by_its_classes_and_the_count(
    retries: int,
    attempt: int,
    retry_on: tuple[str, ...],
    never: tuple[str, ...],
    classes: list[str],
    wanted: bool,
) -> None:
    chosen = Options(retry_on=retry_on, never_retry=never)
    assert wants_retry(chosen, retries, attempt, classes) is wanted


def test_a_task_survives_crashes_until_it_has_had_its_attempts() -> None:
    assert [survives_crash(Options(crash_attempts=3), n) for n in (1, 2, 3, 4)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert not survives_crash(Options(crash_attempts=1), 1)


def test_what_waits_behind_a_long_task_goes_to_a_free_lane_and_only_then() -> None:
    long = STALL_SECONDS * 2
    assert is_stalled(long, 1, 1)
    assert not is_stalled(long, 0, 1)
    assert not is_stalled(long, 1, 0)
    assert not is_stalled(STALL_SECONDS / 2, 1, 1)


def test_a_pace_is_told_from_the_last_seconds_only() -> None:
    pace = RateEstimate(window=10.0)
    assert pace.rate == 0.0
    assert pace.eta(5) is None
    for second in range(20):
        pace.update(float(second), 0)
    for second in range(20, 41):
        pace.update(float(second), (second - 20) * 100)
    assert pace.rate == pytest.approx(100, rel=0.01)
    assert pace.eta(1000) == pytest.approx(10, rel=0.01)
    assert pace.eta(0) == 0


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 100)), max_size=50))
def test_a_pace_is_never_negative_and_never_divides_by_zero(steps: list[tuple[float, int]]) -> None:
    pace, now, done = RateEstimate(), 0.0, 0
    for seconds, more in steps:
        now, done = now + seconds, done + more
        pace.update(now, done)
        assert pace.rate >= 0
        eta = pace.eta(10)
        assert eta is None or eta >= 0


def test_a_pace_remembers_no_more_than_its_window() -> None:
    pace = RateEstimate(window=10.0)
    for tick in range(10_000):
        pace.update(tick / 10, tick)
    assert len(pace._points) < 200


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 200)), max_size=30))
def test_a_mean_lies_between_the_shortest_and_the_longest(steps: list[tuple[float, int]]) -> None:
    mean, seen = DurationEstimate(), []
    for seconds, tasks in steps:
        mean.update(seconds * tasks, tasks)
        if tasks:
            seen.append(seconds)
    assert mean.count == sum(tasks for _, tasks in steps)
    if seen:
        assert mean.value is not None
        assert min(seen) - 1e-9 <= mean.value <= max(seen) + 1e-9
    else:
        assert mean.value is None


def test_a_mean_follows_what_tasks_take_now() -> None:
    mean = DurationEstimate()
    mean.update(1.0, 1000)
    for _ in range(100):
        mean.update(0.1, 1)
    assert mean.value == pytest.approx(0.1, rel=0.01)


def test_a_large_value_counts_like_a_long_task() -> None:
    mean = DurationEstimate()
    mean.update(0.0, 1000, size=10 * 1000 * 1_000_000)
    assert chunk_size(mean.value, mean.count, 100_000, lanes=2, depth=2) == 1
    small = DurationEstimate()
    small.update(0.0, 1000, size=1000 * 100)
    assert chunk_size(small.value, small.count, 100_000, lanes=2, depth=2) == CHUNK_MAX


def test_decisions_use_no_clock() -> None:
    assert "time" not in vars(policy)
    assert "clock" not in vars(policy)


def test_pauses_of_the_engine_count_for_no_task() -> None:
    assert policy.is_over(1.0, 1.1, 0.0)
    assert not policy.is_over(1.0, 0.9, 0.0)
    assert not policy.is_over(1.0, 60.5, 60.0)
    assert policy.is_over(1.0, 61.5, 60.0)

"""Budgets as arithmetic: how many tasks may still be started."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.schedule.budget import FIRST, Budget
from runyard.spec.codec import encode
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import COMPLETED, FAILED


def row(task: int, value: Any, status: int = COMPLETED) -> OutcomeRow:
    encoded = encode(value) if status == COMPLETED else None
    return OutcomeRow.with_checksum(1, task, status, 0, encoded, None, 0.0, 0.0, 0)


def meter(budget: dict[str, float], **more: Any) -> Budget:
    given: dict[str, Any] = {"done": 0, "seconds": 0.0, "rows": (), **more}
    return Budget(budget, given.pop("shown", None), "msgpack", **given)


def test_without_a_budget_everything_may_start() -> None:
    assert meter({}).room(10, 1e9) == math.inf


def test_tasks_under_way_are_counted() -> None:
    found = meter({"tasks": 10}, done=3)
    assert [found.room(flying, 0) for flying in (0, 4, 7, 9)] == [7, 3, 0, 0]
    found.observe([row(0, 1), row(1, None, FAILED)])
    assert found.room(0, 0) == 5


def test_minutes_end_at_once_and_not_before() -> None:
    found = meter({"minutes": 2}, seconds=60.0)
    assert found.room(5, 59.9) == math.inf
    assert found.room(0, 60.0) == 0
    assert found.reached(60.0) == "minutes: 2 of 2"


def test_a_sum_is_foretold_by_the_mean_so_far() -> None:
    found = meter({"cost": 10.0}, rows=[row(0, {"cost": 2.0})], done=1)
    assert found.room(0, 0) == 4
    assert found.room(3, 0) == 1
    found.observe([row(1, {"cost": 8.0})])
    assert found.room(0, 0) == 0
    assert found.reached(0) == "cost: 10 of 10"


def test_what_is_left_is_worth_one_more_task() -> None:
    """Otherwise a budget that is no multiple of the mean would never be used up."""
    assert meter({"cost": 5.0}, rows=[row(0, {"cost": 3.0})]).room(0, 0) == 1


@pytest.mark.parametrize("value", [None, {}, {"cost": "2"}, {"other": 3}, {"cost": math.nan}, 4])
def test_values_without_the_metric_use_nothing(value: Any) -> None:
    found = meter({"cost": 1.0})
    found.observe([row(0, value), row(1, None, FAILED)])
    assert found.room(0, 0) >= FIRST - 1


def test_few_tasks_start_until_one_has_returned_the_metric() -> None:
    found = meter({"cost": 1.0})
    assert found.room(0, 0) == FIRST
    assert found.room(3, 0, lanes=64) == 61
    found.observe([row(0, {"cost": 0.0})])
    assert found.room(0, 0) == math.inf


def test_a_metric_is_missing_once_the_first_completed_tasks_have_not_returned_it() -> None:
    found = meter({"tasks": 99, "cost": 1.0})
    found.observe([row(n, None, FAILED) for n in range(5 * FIRST)])
    assert found.missing() is None
    assert found.missing(at_the_end=True) is None
    found.observe([row(n, {"usage": {"cost": 1.0}}) for n in range(FIRST - 1)])
    assert found.missing() is None
    assert found.missing(at_the_end=True) == "cost"
    found.observe([row(FIRST, None)])
    assert found.missing() == "cost"


def test_recorded_outcomes_are_among_the_first_and_one_that_has_the_metric_is_enough() -> None:
    without = [row(n, {"x": 1}) for n in range(FIRST)]
    assert meter({}, shown="v", rows=without).missing() == "v"
    assert meter({}, shown="v", rows=[*without, row(FIRST, {"v": math.nan})]).missing() is None


def test_the_shown_metric_may_have_the_name_of_a_unit() -> None:
    found = meter({"seconds": 60}, shown="seconds")
    found.observe([row(n, {"seconds": 7.0}) for n in range(2)])
    assert found.shown == ("seconds", 7.0, 0.0)
    assert found.room(0, 59) == math.inf
    assert found.room(0, 60) == 0


@pytest.mark.parametrize(
    ("budget", "shown", "value", "texts"),
    [
        ({"cost": 1.0}, None, {"usage": {"cost": 2}, "x": 1},
         ["the budget needs the metric 'cost'", "usage.cost, x", "--budget usage.cost=…"]),
        ({}, "hedas", {"heads": 2}, ["the running mean needs", "--metric heads"]),
        ({"cost": 1.0}, None, None, ["none, they return no numbers"]),
        ({"cost": 1.0}, None, 7, ["their metrics: value"]),
        ({"cost": 1.0}, None, {"cost": math.nan}, ["not a finite number in the"]),
        ({"cost": 1.0}, None, {"cost": math.inf}, ["not a finite number in the"]),
    ],
)  # fmt: skip
def test_the_error_lists_the_metrics_there_are_and_the_closest(
    budget: dict[str, float], shown: str | None, value: Any, texts: list[str]
) -> None:
    found = meter(budget, shown=shown, rows=[row(n, value) for n in range(FIRST)])
    missing = found.missing()
    assert missing is not None
    told = str(found.error("b", missing))
    assert all(text in told for text in [*texts, f"{FIRST} completed tasks of b"]), told


def test_a_run_ends_at_its_limit_whatever_the_budget() -> None:
    found = meter({"tasks": 100}, done=30, limit=50)
    assert found.room(5, 0) == 15
    assert not found.is_at_limit
    found.recorded(50)
    assert found.room(0, 0) == 0
    assert found.is_at_limit


def test_the_shown_metric_needs_two_values() -> None:
    found = meter({}, shown="a.b")
    assert found.shown is None
    found.observe([row(0, {"a": {"b": 1.0}})])
    assert found.shown is None
    found.observe([row(1, {"a": {"b": 3.0}}), row(2, {"a": 1})])
    assert found.shown is not None
    name, mean, half = found.shown
    assert (name, mean) == ("a.b", 2.0)
    assert half == pytest.approx(12.7062, rel=1e-4)


@given(
    st.lists(st.floats(0.01, 5), min_size=1, max_size=60),
    st.floats(0.5, 60),
    st.integers(1, 5),
)
def test_a_sum_is_passed_by_what_was_under_way_at_most(
    costs: list[float], most: float, lanes: int
) -> None:
    """Tasks end in the order in which they start, `lanes` at a time."""
    found = meter({"cost": most})
    flying: list[float] = []
    spent, at_the_end = 0.0, 0.0
    waiting = list(costs)
    while flying or waiting:
        while waiting and len(flying) < lanes and found.room(len(flying), 0) >= 1:
            flying.append(waiting.pop())
        if not flying:
            break
        if spent < most:
            at_the_end = sum(flying)
        cost = flying.pop(0)
        found.observe([row(0, {"cost": cost})])
        spent += cost
    assert spent <= most + at_the_end + 1e-9
    assert not waiting or spent >= most - 1e-9

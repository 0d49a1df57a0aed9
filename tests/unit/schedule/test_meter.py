"""Budgets as arithmetic: how many tasks may still be started."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.schedule.meter import Meter
from runyard.spec.codec import encode
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import COMPLETED, FAILED


def row(task: int, value: Any, status: int = COMPLETED) -> OutcomeRow:
    encoded = encode(value) if status == COMPLETED else None
    return OutcomeRow.sealed(1, task, status, 0, encoded, None, 0.0, 0.0, 0)


def meter(budget: dict[str, float], **more: Any) -> Meter:
    given: dict[str, Any] = {"done": 0, "seconds": 0.0, "rows": (), **more}
    return Meter(budget, given.pop("shown", None), "msgpack", **given)


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
    assert found.room(0, 0) == math.inf


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

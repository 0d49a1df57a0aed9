"""The scheduler as a whole on a scripted backend: no process, no function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import runyard as ry
from runyard.errors import BadSpec, MetricMissing, NotFound, UsageError
from runyard.events import Event, TaskRetried, WorkerLost
from runyard.testing import Dies, Hangs, StubBackend

QUICK = {"backoff": 0.0, "progress": False}


@pytest.fixture
def yard() -> Iterator[ry.Yard]:
    with ry.Yard("memory:") as place:
        yield place


def never(x: int) -> int:
    raise AssertionError("a stub runs no function")


def grid(size: int = 10, **more: Any) -> ry.Batch:
    return ry.grid(never, x=range(size), seed=1, **more)


def chain(size: int) -> ry.Batch:
    steps = [
        ry.Task(never, {"x": n}, name=f"t{n}", after=[f"t{n - 1}"] if n else [])
        for n in range(size)
    ]
    return ry.tasks(steps, name="chain", seed=1)


def run(yard: ry.Yard, batch: ry.Batch, stub: StubBackend, **options: Any) -> ry.Result:
    return yard.run(batch, backend=stub, **{**QUICK, **options})


def test_every_task_starts_once_and_has_the_value_of_the_script(yard: ry.Yard) -> None:
    stub = StubBackend({4: ["four"]}, default=0)
    result = run(yard, grid(), stub)
    assert list(result.values()) == [0, 0, 0, 0, "four", 0, 0, 0, 0, 0]
    assert sorted(stub.started) == list(range(10))


def test_own_errors_are_retried_and_then_final(yard: ry.Yard) -> None:
    stub = StubBackend({3: [ValueError("once"), 7], 5: [KeyError("always")]}, default=0)
    seen: list[Event] = []
    result = run(yard, grid(), stub, retries=2, on_event=seen.append)
    assert (stub.attempts[3], stub.attempts[5]) == (2, 3)
    (failed,) = result.outcomes("failed")
    assert failed.task == 5
    assert failed.attempt == 2
    assert [e.task for e in seen if isinstance(e, TaskRetried)].count(5) == 2


def test_errors_that_are_never_retried_are_final_at_once(yard: ry.Yard) -> None:
    stub = StubBackend({3: [ValueError("no")]}, default=0)
    result = run(yard, grid(), stub, retries=5, never_retry=["ValueError"])
    assert (result.stats.failed, stub.attempts[3]) == (1, 1)


def test_a_dead_worker_costs_the_task_that_it_ran(yard: ry.Yard) -> None:
    stub = StubBackend({3: [Dies(), 1], 6: [Dies()]}, default=0)
    seen: list[Event] = []
    result = run(yard, grid(), stub, on_event=seen.append)
    (failed,) = result.outcomes("failed")
    assert failed.task == 6
    assert failed.error is not None
    assert failed.error.kind == "WorkerDied"
    assert (stub.attempts[3], stub.attempts[6]) == (2, 3)
    assert {e.task for e in seen if isinstance(e, WorkerLost)} == {3, 6}


def test_a_crash_changes_no_attempt_number(yard: ry.Yard) -> None:
    stub = StubBackend({3: [Dies(), ValueError("no"), 1]}, default=0)
    result = run(yard, grid(), stub, retries=1)
    assert result.outcome(3).attempt == 1
    assert result.stats.completed == 10


def test_a_task_over_its_limit_is_ended_and_its_neighbours_run(yard: ry.Yard) -> None:
    stub = StubBackend({3: [Hangs()]}, default=0)
    result = run(yard, grid(), stub, timeout=0.02)
    (failed,) = result.outcomes("failed")
    assert failed.error is not None
    assert (failed.task, failed.error.kind) == (3, "TaskTimeout")
    assert result.stats.completed == 9


def test_the_first_failure_stops_a_batch_that_fails_fast(yard: ry.Yard) -> None:
    stub = StubBackend({0: [ValueError("no")]}, default=0, workers=1)
    result = run(yard, grid(1000), stub, fail_fast=True)
    assert result.stats.failed == 1
    assert result.stats.completed < 999
    assert result.end == "fail-fast"


def test_a_batch_goes_on_where_its_budget_ended_it(yard: ry.Yard) -> None:
    stub = StubBackend(default=0)
    assert run(yard, grid(50), stub, budget={"tasks": 20}).stats.completed == 20
    assert run(yard, grid(50), stub).stats.completed == 50
    assert len(stub.started) == len(set(stub.started)) == 50


def test_a_budget_on_a_metric_that_no_task_returns_ends_the_run(yard: ry.Yard) -> None:
    stub = StubBackend(default={"cost": 1.0})
    with pytest.raises(MetricMissing, match="price"):
        run(yard, grid(1000), stub, budget={"price": 5})
    assert len(stub.started) < 50


def test_a_follower_starts_after_what_it_waits_for(yard: ry.Yard) -> None:
    stub = StubBackend(default=0)
    result = run(yard, chain(30), stub)
    assert result.stats.completed == 30
    assert stub.started == list(range(30))


def test_followers_of_a_failed_task_are_cancelled(yard: ry.Yard) -> None:
    stub = StubBackend({4: [ValueError("no")]}, default=0)
    result = run(yard, chain(10), stub)
    stats = result.stats
    assert (stats.completed, stats.failed, stats.cancelled) == (4, 1, 5)
    assert stub.started == list(range(5))


def test_a_task_that_waits_for_several_starts_after_the_last(yard: ry.Yard) -> None:
    steps = [ry.Task(never, {"x": n}, name=f"t{n}") for n in range(4)]
    steps.append(ry.Task(never, {"x": 4}, name="sum", after=[f"t{n}" for n in range(4)]))
    stub = StubBackend({2: [ValueError("once"), 1]}, default=0)
    result = run(yard, ry.tasks(steps, name="sum", seed=1), stub, retries=1)
    assert result.stats.completed == 5
    assert stub.started[-1] == 4


def test_the_highest_priority_starts_first(yard: ry.Yard) -> None:
    names = ["low", "high", "medium", "critical"]
    steps = [ry.Task(never, {"x": n}, priority=name) for n, name in enumerate(names)]
    stub = StubBackend(default=0, workers=1)
    run(yard, ry.tasks(steps, name="urgent", seed=1), stub)
    assert stub.started == [3, 1, 2, 0]


def test_a_cancelled_task_never_starts_and_a_running_one_is_ended(yard: ry.Yard) -> None:
    stub = StubBackend({0: [Hangs()]}, default=0, workers=1)
    batch = grid(5)

    def on_event(event: Event) -> None:
        if stub.started and not asked:
            asked.append(yard.cancel(batch.record_name, 0))

    asked: list[int] = []
    result = run(yard, batch, stub, on_event=on_event)
    stats = result.stats
    assert (stats.completed, stats.cancelled, asked) == (4, 1, [1])


def test_short_tasks_share_chunks_and_long_ones_travel_alone(yard: ry.Yard) -> None:
    stub = StubBackend(default=0)
    run(yard, grid(5000), stub)
    sizes = [len(tasks) for _, tasks in stub.sent]
    assert max(sizes) > 100
    assert sizes[0] == 1


@pytest.mark.parametrize("outcomes", ["four", 4, []])
def test_a_script_that_is_not_a_list_of_outcomes_is_refused(outcomes: Any) -> None:
    with pytest.raises(UsageError, match="the script of task 4 is"):
        StubBackend({4: outcomes})


@pytest.mark.parametrize("given", [never, [1, 2], None])
def test_what_is_not_a_batch_is_refused(yard: ry.Yard, given: Any) -> None:
    with pytest.raises(BadSpec, match="is not a batch"):
        yard.run(given)
    with pytest.raises(BadSpec, match="is not a batch"):
        yard.submit(given)


def test_an_event_handler_that_is_not_a_function_is_refused(yard: ry.Yard) -> None:
    with pytest.raises(UsageError, match="on_event is 3"):
        run(yard, grid(), StubBackend(default=0), on_event=3)


def test_a_misspelt_batch_is_refused_with_the_name_that_was_meant(yard: ry.Yard) -> None:
    run(yard, grid(name="walks"), StubBackend(default=0))
    for ask in (yard.results, yard.cancel, yard.stop, yard.resume):
        with pytest.raises(NotFound, match="no batch 'wakls'; did you mean 'walks'"):
            ask("wakls")
    run(yard, grid(name="walks2"), StubBackend(default=0))
    with pytest.raises(NotFound, match="no batch 'walks/2'; did you mean 'walks'"):
        yard.results("walks/2")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("worker", "no option 'worker'; did you mean 'workers'"),
        ("on_events", "no option 'on_events'; did you mean 'on_event'"),
        ("retires", "no option 'retires'; did you mean 'retries'"),
        ("seed", "'seed' belongs to the batch"),
        ("replicates", "'replicates' belongs to the batch"),
    ],
)
def test_a_misplaced_or_misspelt_parameter_is_refused_and_its_place_named(
    yard: ry.Yard, name: str, message: str
) -> None:
    with pytest.raises(BadSpec, match=message):
        run(yard, grid(), StubBackend(default=0), **{name: 3})

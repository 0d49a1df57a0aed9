"""Order, limits, cancelling, stopping and resuming: on every backend, with any number of lanes."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
import sample_tasks
from polling import eventually
from running import Place, meanwhile, output, unless
from sample_tasks import (
    double,
    fails,
    fails_until,
    first_held,
    held,
    held_coroutine,
    noted,
    notes,
    paced,
    raises,
    sleeps,
    told_to_cancel,
)

import runyard as ry
from runyard.errors import NotFound, SpecChanged, UsageError
from runyard.events import Event, TaskWithdrawn, WorkerLost


def kinds(result: ry.Result) -> dict[int, str]:
    return {o.task: o.error.kind for o in result.outcomes() if o.error is not None}


def statuses(result: ry.Result) -> list[str]:
    return [str(outcome.status) for outcome in result.outcomes()]


def threads_at_work() -> dict[str, list[str]]:
    """Where the threads are that a run has started; the yard's own, which logs, stays with it."""
    frames = sys._current_frames()
    return {
        thread.name: traceback.format_stack(frames[thread.ident])
        for thread in threading.enumerate()
        if thread.name.startswith("runyard") and thread.ident in frames
        if thread.name != "runyard-bus-Event"
    }


def listed(folder: str, *tasks: ry.Task, **options: Any) -> ry.Batch:
    return ry.tasks(tasks, name="listed", seed=7, **options)


def noting(folder: str, name: str, after: tuple[str, ...] = (), **settings: Any) -> ry.Task:
    return ry.Task(noted, {"folder": folder, "x": name}, name, after, **settings)


# Order


def test_listed_tasks_start_by_priority_then_in_order(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    names = ["medium-1", "low", "critical", "medium-2", "high", "critical-2"]
    batch = listed(gate, *(noting(gate, name, priority=name.partition("-")[0]) for name in names))
    result = place.run(yard, batch)
    assert [o.value for o in result.outcomes()] == names
    expected = ["critical", "critical-2", "high", "medium-1", "medium-2", "low"]
    if place.workers == 1:
        assert notes(gate) == expected
    else:
        assert sorted(notes(gate)) == sorted(expected)


def test_a_task_starts_after_those_it_comes_after(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = listed(
        gate,
        noting(gate, "last", ("left", "right"), priority="critical"),
        noting(gate, "left", ("first",)),
        noting(gate, "right", ("first",), priority="low"),
        noting(gate, "first"),
        noting(gate, "alone", priority="low"),
    )
    result = place.run(yard, batch, deadline="90s")
    assert result.end == "finished"
    order = notes(gate)
    assert sorted(order) == ["alone", "first", "last", "left", "right"]
    assert order.index("first") < min(order.index("left"), order.index("right"))
    assert order.index("last") > max(order.index("left"), order.index("right"))


def test_a_chain_of_many_tasks_runs_in_its_order(yard: ry.Yard, gate: str, place: Place) -> None:
    tasks = [noting(gate, f"{n}", (f"{n - 1}",) if n else ()) for n in range(6)]
    result = place.run(yard, listed(gate, *tasks), deadline="90s")
    assert result.stats.completed == 6
    assert notes(gate) == [str(n) for n in range(6)]


def test_what_comes_after_a_failure_is_cancelled_and_the_rest_runs(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = listed(
        gate,
        ry.Task(raises, {"kind": "bad"}, "bad"),
        noting(gate, "child", ("bad", "good")),
        noting(gate, "grandchild", ("child",)),
        noting(gate, "good"),
        noting(gate, "other", ("good",)),
    )
    result = place.run(yard, batch, deadline="90s")
    assert result.end == "finished"
    assert statuses(result) == ["failed", "cancelled", "cancelled", "completed", "completed"]
    assert kinds(result) == {0: "KeyError", 1: "DependencyFailed", 2: "DependencyFailed"}
    assert sorted(notes(gate)) == ["good", "other"]


def test_listed_tasks_have_their_own_limits(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = listed(
        gate,
        ry.Task(fails_until, {"attempts": 1}, "once", retries=1),
        ry.Task(fails_until, {"attempts": 2}, "never", retries=0),
        ry.Task(fails_until, {"attempts": 3}, "batch"),
    )
    result = place.run(yard, batch, retries=3, backoff=0.001)
    assert statuses(result) == ["completed", "failed", "completed"]


@unless(lambda place: place.workers > 1)  # the order is exact with one worker only
def test_a_retried_task_keeps_its_priority(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = listed(
        gate,
        ry.Task(fail_once_noted, {"folder": gate}, "important", priority="critical"),
        *(
            ry.Task(slow_noted, {"folder": gate, "x": n}, f"{n}", priority="high")
            for n in range(40)
        ),
    )
    result = place.run(yard, batch, retries=1, backoff=0.001)
    assert result.stats.completed == 41
    assert notes(gate).index("retried") < 35


def fail_once_noted(ctx: ry.Context, folder: str) -> None:
    if ctx.attempt == 0:
        raise ValueError
    sample_tasks.note(folder, "retried")


def slow_noted(folder: str, x: int) -> None:
    time.sleep(0.02)
    sample_tasks.note(folder, x)


# Time limits


def test_a_task_that_runs_too_long_fails_and_costs_no_neighbour(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(first_held, params={"folder": gate}, x=range(12))
    result = place.run(yard, batch, timeout=0.3, deadline="90s")
    assert result.end == "finished"
    assert kinds(result) == {0: "TaskTimeout"}
    assert result.stats.completed == 11
    error = result.outcome(0).error
    assert error is not None
    assert "limit of 0.3 s" in error.message
    assert result.outcome(0).seconds >= 0.3


def test_a_late_result_is_never_recorded(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = ry.grid(first_held, params={"folder": gate}, x=range(3))
    result = place.run(yard, batch, timeout=0.2, deadline="90s")
    digest = result.digest
    Path(gate, "release").touch()
    if place.backend in ("threads", "async"):
        assert eventually(Path(gate, "ended-0").exists)
    assert kinds(result) == {0: "TaskTimeout"}
    again = place.run(yard, batch, timeout=0.2)
    assert again.digest == digest


@unless(lambda place: place.can.hard_kill)  # it is ended instead
def test_a_task_out_of_time_is_notified(yard: ry.Yard, gate: str, place: Place) -> None:
    result = place.run(yard, ry.batch(told_to_cancel, params={"folder": gate}), timeout=0.2)
    assert kinds(result) == {0: "TaskTimeout"}
    assert Path(gate, "told").exists()


def test_a_coroutine_that_runs_too_long_fails(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = ry.grid(held_coroutine, params={"folder": gate}, x=range(2))
    result = place.run(yard, batch, timeout=0.2, deadline="90s")
    assert kinds(result) == {0: "TaskTimeout", 1: "TaskTimeout"}
    Path(gate, "release").touch()
    assert eventually(lambda: not threads_at_work()), threads_at_work()
    gc.collect()  # a loop that was left open complains now, and not in some later test


def test_a_task_out_of_time_is_retried_like_one_that_raised(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.batch(holds_once, params={"folder": gate})
    result = place.run(yard, batch, timeout=0.3, retries=1, backoff=0.001, deadline="90s")
    assert list(result.values()) == [1]
    stubborn = ry.grid(held, params={"folder": gate}, x=[7])
    options: dict[str, Any] = {"timeout": 0.2, "retries": 3, "backoff": 0.001}
    never = place.run(yard, stubborn, never_retry=["TaskTimeout"], deadline="90s", **options)
    assert [o.attempt for o in never.outcomes()] == [0]


def holds_once(ctx: ry.Context, folder: str) -> int:
    if ctx.attempt == 0:
        sample_tasks.wait_for(folder, "release")
    return ctx.attempt


def test_a_listed_task_has_its_own_time_limit(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = listed(
        gate,
        ry.Task(held, {"folder": gate, "x": 1}, "short", timeout=0.2),
        ry.Task(sleeps, {"seconds": 0.4}, "long"),
    )
    result = place.run(yard, batch, timeout="30s", deadline="90s")
    assert statuses(result) == ["failed", "completed"]


def test_quick_tasks_never_run_into_a_time_limit(yard: ry.Yard, place: Place) -> None:
    result = place.run(yard, ry.grid(double, x=range(500)), timeout="20s")
    assert result.stats.completed == 500


def test_a_run_ends_at_its_deadline_and_is_resumed_later(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(paced, params={"folder": gate}, x=range(400))
    result = place.run(yard, batch, deadline=0.4)
    assert result.end == "deadline"
    assert 0 < result.stats.done < 400
    assert result.stats.failed == result.stats.cancelled == 0
    assert result.digest is None
    Path(gate, "hurry").touch()
    finished = place.run(yard, batch, deadline="60s")
    assert finished.end == "finished"
    assert list(finished.values()) == list(range(400))


@unless(lambda place: place.backend == "serial")  # a task in the caller's thread ends by itself
def test_a_deadline_ends_a_task_that_can_be_ended(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = ry.grid(held, params={"folder": gate}, x=[0])
    result = place.run(yard, batch, deadline=0.5)
    assert result.end == "deadline"
    assert result.stats.queued == 1
    Path(gate, "release").touch()
    assert list(place.run(yard, batch, deadline="60s").values()) == [0]


# Cancelling


def test_a_queued_task_is_cancelled_and_never_runs(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = ry.grid(held, params={"folder": gate}, x=range(12), name="b")
    seen: list[Event] = []

    def interfere() -> None:
        assert eventually(Path(gate, "started-0").exists)
        with ry.Yard(yard.location) as other:
            assert other.cancel("b", 11) == 1
        if place.backend != "serial":
            assert eventually(lambda: any(isinstance(e, TaskWithdrawn) for e in seen))
        Path(gate, "release").touch()

    with meanwhile(interfere):
        result = place.run(yard, batch, on_event=seen.append)
    assert kinds(result) == {11: "TaskCancelled"}
    assert result.stats.completed == 11
    if place.backend != "serial":
        assert "11" not in notes(gate)


@unless(
    lambda place: place.backend == "serial" or place.workers > 1
)  # the only lane has to be busy, and the engine not
def test_a_task_that_no_engine_has_claimed_yet_is_cancelled(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(first_held, params={"folder": gate}, x=range(3000), name="b")

    def interfere() -> None:
        assert eventually(Path(gate, "started-0").exists)
        with ry.Yard(yard.location) as other:
            assert other.cancel("b", 2999) == 1
            eventually(lambda: outcome_of(other, "b", 2999) is not None, seconds=1)
        Path(gate, "release").touch()

    with meanwhile(interfere):
        result = place.run(yard, batch)
    assert result.outcome(2999).status is ry.Status.CANCELLED
    assert result.stats.completed == 2999
    assert "2999" not in notes(gate)


def outcome_of(yard: ry.Yard, name: str, task: int) -> Any:
    with yard.store.snapshot() as view:
        found = view.batch(name)
        assert found is not None
        return view.outcome(found.id, task)


@unless(lambda place: place.backend == "serial")  # a task in the caller's thread ends by itself
def test_a_running_task_is_cancelled_and_its_neighbours_finish(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(first_held, params={"folder": gate}, x=range(10), name="b")

    def interfere() -> None:
        assert eventually(Path(gate, "started-0").exists)
        with ry.Yard(yard.location) as other:
            assert other.cancel("b", 0) == 1

    with meanwhile(interfere):
        result = place.run(yard, batch, deadline="90s")
    assert result.end == "finished"
    assert kinds(result) == {0: "TaskCancelled"}
    assert result.stats.completed == 9
    assert yard.cancel("b", 0) == 0


@unless(
    lambda place: place.can.hard_kill or place.backend == "serial"
)  # it is ended instead, or ends by itself
def test_a_running_task_that_is_cancelled_is_notified(
    yard: ry.Yard, gate: str, place: Place
) -> None:

    def interfere() -> None:
        assert eventually(Path(gate, "started").exists)
        with ry.Yard(yard.location) as other:
            other.cancel("b")

    with meanwhile(interfere):
        result = place.run(yard, ry.batch(told_to_cancel, params={"folder": gate}, name="b"))
    assert statuses(result) == ["cancelled"]
    assert eventually(Path(gate, "told").exists)
    assert eventually(Path(gate, "ended").exists)


@pytest.mark.parametrize("is_listed", [False, True], ids=["described", "listed"])
def test_a_whole_batch_is_cancelled_while_it_runs(
    yard: ry.Yard, gate: str, place: Place, is_listed: bool
) -> None:
    if is_listed:
        tasks = [ry.Task(held, {"folder": gate, "x": n}, f"{n}") for n in range(8)]
        batch = ry.tasks([*tasks, noting(gate, "after", ("0",))], name="b", seed=7)
    else:
        batch = ry.grid(held, params={"folder": gate}, x=range(9), name="b")

    def interfere() -> None:
        assert eventually(Path(gate, "started-0").exists)
        with ry.Yard(yard.location) as other:
            assert other.cancel("b") == 9
        if place.backend == "serial":
            Path(gate, "release").touch()

    with meanwhile(interfere):
        result = place.run(yard, batch, deadline="90s")
    assert result.end in ("cancelled", "finished")
    assert result.stats.cancelled == 9
    assert result.digest is not None


def test_a_batch_that_no_engine_runs_is_cancelled_at_once(yard: ry.Yard, place: Place) -> None:
    name = yard.submit(ry.grid(double, x=range(5)))
    assert yard.cancel(name, 3) == 1
    assert yard.cancel(name) == 4
    assert yard.cancel(name) == 0
    result = place.resume(yard, name)
    assert result.stats.cancelled == 5
    with pytest.raises(NotFound):
        yard.cancel(name, 5)


def test_a_listed_task_cancelled_beforehand_takes_its_followers_along(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = listed(gate, noting(gate, "a"), noting(gate, "b", ("a",)), noting(gate, "c"))
    name = yard.submit(batch)
    assert yard.cancel(name, 0) == 2
    result = place.run(yard, batch, deadline="90s")
    assert result.end == "finished"
    assert statuses(result) == ["cancelled", "cancelled", "completed"]


@unless(lambda place: place.backend == "serial")  # a task in the caller's thread ends by itself
def test_a_cancelled_task_that_is_retried_by_hand_runs(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(first_held, params={"folder": gate}, x=range(4), name="b")

    def interfere() -> None:
        assert eventually(Path(gate, "started-0").exists)
        with ry.Yard(yard.location) as other:
            other.cancel("b", 0)

    with meanwhile(interfere):
        place.run(yard, batch)
    Path(gate, "release").touch()
    assert yard.retry("b", "cancelled") == 1
    result = place.run(yard, batch)
    assert result.stats.completed == 4


# Stopping and going on


def stopped(place: Place, yard: ry.Yard, gate: str, batch: ry.Batch) -> ry.Result:
    """The batch after a stop in its middle; what is left of it runs fast."""

    def interfere() -> None:
        assert eventually(lambda: len(notes(gate)) > 3)
        with ry.Yard(yard.location) as other:
            assert other.stop(batch.name) == 1

    with meanwhile(interfere):
        result = place.run(yard, batch)
    Path(gate, "hurry").touch()
    assert result.end == "stopped"
    assert result.stats.queued > 0
    return result


def test_a_stop_finishes_what_runs_and_a_resume_does_the_rest_once(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(paced, params={"folder": gate}, x=range(400), name="b", seed=7)
    result = stopped(place, yard, gate, batch)
    assert result.stats.completed == len(notes(gate))
    with yard.store.snapshot() as view:
        assert view.engines() == []
        assert all(claim.engine is None for claim in view.claims(result.recorded.id))
    resumed = place.resume(yard, "b")
    assert resumed.end == "finished"
    assert Counter(notes(gate)) == {str(x): 1 for x in range(400)}
    unbroken = place.run(yard, batch, fresh=True)
    assert unbroken.digest == resumed.digest


def test_a_stopped_list_of_tasks_is_resumed(yard: ry.Yard, gate: str, place: Place) -> None:
    tasks = [ry.Task(paced, {"folder": gate, "x": n}, f"{n}") for n in range(200)]
    batch = listed(gate, *tasks, noting(gate, "last", ("0", "199")))
    stopped(place, yard, gate, batch)
    resumed = place.resume(yard, "listed")
    assert resumed.stats.completed == 201
    assert Counter(notes(gate)) == {str(x): 1 for x in range(200)} | {"last": 1}
    assert notes(gate).index("last") > max(notes(gate).index("0"), notes(gate).index("199"))


def test_failed_tasks_run_again_on_request(yard: ry.Yard, gate: str, place: Place) -> None:
    batch = ry.grid(fails_without_a_file, params={"folder": gate}, x=range(10), name="b")
    assert place.run(yard, batch).stats.failed == 5
    Path(gate, "mended").touch()
    assert yard.retry("b") == 5
    assert yard.results("b").stats.queued == 5
    result = place.resume(yard, "b")
    assert result.stats.completed == 10
    assert Counter(notes(gate)) == {str(x): 1 + x % 2 for x in range(10)}
    assert yard.retry("b") == 0


def fails_without_a_file(folder: str, x: int) -> int:
    sample_tasks.note(folder, x)
    if x % 2 and not Path(folder, "mended").exists():
        raise ValueError
    return x


def test_a_stopped_batch_whose_failures_are_retried_runs_each_task_once_more(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(fails_then_paced, params={"folder": gate}, x=range(400), name="b", seed=7)
    stopped(place, yard, gate, batch)
    assert yard.retry("b") == 1
    resumed = place.resume(yard, "b")
    assert resumed.stats.completed == 400
    assert Counter(notes(gate)) == {"0": 2} | {str(x): 1 for x in range(1, 400)}


def fails_then_paced(folder: str, x: int) -> int:
    if x == 0 and not Path(folder, "hurry").exists():
        sample_tasks.note(folder, x)
        raise ValueError
    return paced(folder, x)


def test_failed_listed_tasks_run_again_with_what_came_after_them(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = listed(
        gate,
        ry.Task(fails_without_a_file, {"folder": gate, "x": 1}, "a"),
        noting(gate, "b", ("a",)),
        noting(gate, "c", ("b",)),
    )
    assert statuses(place.run(yard, batch)) == ["failed", "cancelled", "cancelled"]
    Path(gate, "mended").touch()
    assert yard.retry("listed") == 3
    result = place.run(yard, batch, deadline="90s")
    assert statuses(result) == ["completed"] * 3
    assert notes(gate) == ["1", "1", "b", "c"]


def test_retrying_what_was_cancelled_alone_ends_again(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = listed(gate, ry.Task(raises, {"kind": "x"}, "a"), noting(gate, "b", ("a",)))
    place.run(yard, batch)
    yard.retry("listed", "cancelled")
    result = place.run(yard, batch, deadline="90s")
    assert result.end == "finished"
    assert statuses(result) == ["failed", "cancelled"]


def test_a_new_task_after_a_failed_one_is_cancelled(yard: ry.Yard, gate: str, place: Place) -> None:
    failed = ry.Task(raises, {"kind": "x"}, "a")
    place.run(yard, listed(gate, failed))
    grown = listed(gate, failed, noting(gate, "b", ("a",)), noting(gate, "c"))
    result = place.run(yard, grown, deadline="90s")
    assert result.end == "finished"
    assert statuses(result) == ["failed", "cancelled", "completed"]


def test_the_first_failure_stops_a_run_that_should_fail_fast(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(fails_late, params={"folder": gate}, x=range(250))
    result = place.run(yard, batch, fail_fast=True)
    assert result.end == "fail-fast"
    assert result.stats.failed >= 1
    assert result.stats.queued > 0
    assert result.stats.done == len(notes(gate))
    rest = place.run(yard, batch)
    assert rest.end == "finished"
    assert rest.stats.failed == 5


def fails_late(folder: str, x: int) -> int:
    sample_tasks.note(folder, x)
    time.sleep(0.002)
    if x % 50 == 20:
        raise ValueError
    return x


def test_a_changed_spec_under_the_same_name_is_refused(yard: ry.Yard, place: Place) -> None:
    place.run(yard, ry.grid(double, x=[1, 2], name="b", seed=7))
    for other in (
        ry.grid(double, x=[1], name="b", seed=7),
        ry.grid(double, x=[1, 2], name="b", seed=8),
        ry.grid(fails, x=[1, 2], name="b", seed=7),
        ry.tasks([ry.Task(double, {"x": 1})], name="b", seed=7),
    ):
        with pytest.raises(SpecChanged, match="another batch is recorded as 'b'"):
            place.run(yard, other)
    assert list(place.run(yard, ry.grid(double, x=[1, 2], name="b")).values()) == [2, 4]


def test_two_engines_share_a_batch_and_run_each_task_once(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(slow_noted, params={"folder": gate}, x=range(100), name="b", seed=7)
    found: list[ry.Result] = []

    def interfere() -> None:
        assert eventually(lambda: notes(gate))
        with ry.Yard(yard.location) as other:
            found.append(place.run(other, batch))
            assert found[0].stats.done == 100

    with meanwhile(interfere):
        result = place.run(yard, batch)
    assert result.end == found[0].end == "finished"
    assert Counter(notes(gate)) == {str(x): 1 for x in range(100)}


# Where a backend can do more


@unless(lambda place: not place.can.survives_crash)  # the worker is the engine
def test_a_task_that_kills_its_worker_costs_itself_alone(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(sample_tasks.kills_its_worker, params={"folder": gate}, x=range(30))
    seen: list[WorkerLost] = []
    result = place.run(
        yard, batch, crash_attempts=2,
        on_event=lambda e: seen.append(e) if isinstance(e, WorkerLost) else None,
    )  # fmt: skip
    assert kinds(result) == {3: "WorkerDied"}
    assert result.stats.completed == 29
    error = result.outcome(3).error
    assert error is not None
    assert "exited with code 7" in error.message
    assert notes(gate).count("3") == 2
    assert [event.task for event in seen] == [3, 3]
    assert Counter(notes(gate))["3"] == 2
    assert result.outcome(3).attempt == 0


@unless(lambda place: not place.can.hard_kill)  # nothing can be ended from outside
def test_a_task_out_of_time_ends_with_all_its_processes(
    yard: ry.Yard, gate: str, place: Place
) -> None:
    batch = ry.grid(sample_tasks.hangs_with_children, params={"folder": gate}, x=range(6))
    result = place.run(yard, batch, timeout=1.5)
    assert kinds(result) == {2: "TaskTimeout"}
    assert result.stats.completed == 5
    pids = [int(pid) for pid in Path(gate, "pids").read_text().split()]
    assert len(pids) == 3
    assert eventually(lambda: not any(map(runs, pids)), seconds=60)


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@unless(lambda place: not place.can.memory_limit)  # memory is shared with the engine
def test_a_task_above_its_memory_limit_fails_and_its_neighbours_do_not(
    yard: ry.Yard, place: Place
) -> None:
    batch = ry.grid(sample_tasks.allocates, megabytes=[1, 2, 600, 3, 4])
    result = place.run(yard, batch, memory="200MB")
    assert kinds(result) == {2: "TaskOutOfMemory"}
    assert result.stats.completed == 4


@unless(lambda place: not place.can.memory_limit)  # memory is shared with the engine
def test_memory_is_not_limited_in_the_next_batch(yard: ry.Yard, place: Place) -> None:
    place.run(yard, ry.grid(double, x=range(5)), memory="100MB")
    result = place.run(yard, ry.grid(sample_tasks.allocates, megabytes=[300]))
    assert result.stats.completed == 1


@unless(lambda place: not place.can.own_directory)  # the current directory is the engine's
def test_a_task_may_run_inside_its_workspace(yard: ry.Yard, place: Place) -> None:
    batch = ry.batch(sample_tasks.where_am_i, replicates=4)
    result = place.run(yard, batch, chdir=True)
    for outcome in result.outcomes():
        assert outcome.value["cwd"] == outcome.value["workspace"]
        assert Path(outcome.value["workspace"], "made-here").exists()
    after = place.run(yard, ry.batch(sample_tasks.cwd, replicates=4))
    assert set(after.values()) == {os.getcwd()}


@unless(lambda place: place.can.own_directory)  # each worker has its own
def test_where_the_directory_is_the_engines_own_a_task_may_not_move_it(
    yard: ry.Yard, place: Place
) -> None:
    before = os.getcwd()
    try:
        result = place.run(yard, ry.batch(sample_tasks.cwd, replicates=4), chdir=True)
        assert set(result.values()) == {before}
    except UsageError as error:
        assert "chdir" in str(error)
    finally:
        assert os.getcwd() == before


@unless(lambda place: not place.can.own_directory)  # the current directory is the engine's
def test_a_task_that_moves_elsewhere_does_not_take_its_neighbours_along(
    yard: ry.Yard, place: Place
) -> None:

    def wanders(x: int) -> str:
        here = os.getcwd()
        os.chdir("/")
        return here

    result = place.run(yard, ry.grid(wanders, x=range(12)))
    assert set(result.values()) == {os.getcwd()}


@unless(lambda place: not place.can.descriptor_capture)  # only what Python prints can be told apart
@pytest.mark.parametrize(
    "function", [sample_tasks.prints_past_python, sample_tasks.prints_from_a_child]
)
def test_output_that_bypasses_python_is_kept_with_its_task(
    yard: ry.Yard, place: Place, function: Any
) -> None:
    result = place.run(yard, ry.grid(function, x=range(12)))
    word = "descriptor" if function is sample_tasks.prints_past_python else "child"
    texts = {n: output(yard, result, n) for n in range(12)}
    assert texts == {n: f"{word} {n}\n" for n in range(12)}


@unless(lambda place: not place.can.survives_crash)  # the worker is the engine
def test_what_a_task_printed_before_its_worker_died_is_kept(yard: ry.Yard, place: Place) -> None:

    def last_words(x: int) -> None:
        print("last words", x)
        if x == 2:
            os._exit(1)

    result = place.run(yard, ry.grid(last_words, x=range(5)), crash_attempts=1)
    assert kinds(result) == {2: "WorkerDied"}
    assert output(yard, result, 2) == "last words 2\n"


@unless(lambda place: not place.can.survives_crash)  # the worker is the engine
def test_a_worker_is_renewed_after_its_share_of_tasks(yard: ry.Yard, place: Place) -> None:

    def pid(x: int) -> int:
        return os.getpid()

    result = place.run(yard, ry.grid(pid, x=range(30)), recycle=5)
    counts = Counter(result.values())
    assert result.stats.completed == 30
    assert max(counts.values()) <= 5
    assert os.getpid() not in counts


@unless(lambda place: place.backend != "processes")  # there are no worker processes
def test_workers_stay_warm_between_runs(yard: ry.Yard, place: Place) -> None:

    def pids(name: str) -> set[int]:
        batch = ry.grid(sample_tasks.slow_pid, x=range(20 * place.workers), name=name)
        return set(place.run(yard, batch).values())

    first, second = pids("first"), pids("second")
    assert first & second
    assert len(first | second) <= place.workers

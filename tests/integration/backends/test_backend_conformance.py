"""What every backend does, with any number of workers. A new backend must pass this suite."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sample_tasks
from polling import eventually
from running import Place, meanwhile, output
from sample_tasks import (
    Adder,
    deep_inside,
    double,
    either_way,
    emits,
    emits_and_waits,
    fails,
    fails_in_a_library,
    fails_until,
    fails_with_a_value,
    knows_itself,
    later,
    logs,
    noted,
    notes,
    prints,
    prints_much,
    prints_on_each_attempt,
    prints_strangely,
    raises,
    raises_strangely,
    returns,
    tossed,
    without_context,
    writes_a_file,
)

import runyard as ry
from runyard.errors import BadTarget, TasksFailed, UsageError
from runyard.events import (
    BatchFinished,
    BatchStarted,
    Event,
    Progress,
    TaskEmitted,
    TaskFailed,
    TaskRetried,
)


def kinds(result: ry.Result) -> dict[int, str]:
    """The class of each task's error."""
    return {o.task: o.error.kind for o in result.outcomes() if o.error is not None}


# Results


def test_every_task_returns_its_value_in_task_order(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(double, x=range(100), seed=7))
    assert list(result.values()) == [2 * x for x in range(100)]
    stats = result.stats
    assert (stats.total, stats.completed, stats.failed, stats.queued, stats.running) == (
        100, 100, 0, 0, 0,
    )  # fmt: skip
    assert result.end == "finished"
    assert result.digest is not None
    outcome = result.outcome(7)
    assert (outcome.task, outcome.params, outcome.labels) == (7, {"x": 7}, {"x": 7})
    assert (outcome.value, outcome.error, outcome.attempt) == (14, None, 0)
    assert outcome.seconds >= 0
    assert outcome.wait >= 0


def test_a_batch_of_one_task_and_one_without_parameters(place: Place, yard: ry.Yard) -> None:
    assert list(place.run(yard, ry.grid(double, x=[21])).values()) == [42]
    assert list(place.run(yard, ry.batch(deep_nothing)).values()) == ["nothing"]


def deep_nothing() -> str:
    return "nothing"


def test_a_finished_batch_is_not_run_again(place: Place, yard: ry.Yard, gate: str) -> None:
    batch = ry.grid(noted, params={"folder": gate}, x=range(20), seed=7)
    first = place.run(yard, batch)
    second = place.run(yard, batch)
    assert first.digest == second.digest
    assert len(notes(gate)) == 20
    third = place.run(yard, batch, fresh=True)
    assert third.digest == first.digest
    assert len(notes(gate)) == 40


def test_a_grid_that_grew_runs_what_is_new(place: Place, yard: ry.Yard, gate: str) -> None:
    def batch(*xs: int, replicates: int = 1) -> ry.Batch:
        return ry.grid(
            noted, params={"folder": gate}, x=list(xs), replicates=replicates, seed=7, name="grid"
        )

    place.run(yard, batch(1, 3))
    grown = place.run(yard, batch(1, 2, 3, replicates=2))
    assert grown.stats.total == grown.stats.completed == 6
    assert Counter(notes(gate)) == {"1": 2, "2": 2, "3": 2}
    fresh = place.run(yard, batch(1, 2, 3, replicates=2), fresh=True)
    assert grown.digest == fresh.digest


def test_the_codec_pickle_keeps_what_msgpack_refuses(place: Place, yard: ry.Yard) -> None:
    batch = ry.grid(returns, what=["set"], codec="pickle", seed=1)
    result = place.run(yard, batch)
    assert list(result.values()) == [{1}]
    with pytest.raises(UsageError, match="unpickling"):
        list(yard.results(result.name).values())


def test_mapping_keeps_order_and_duplicates(place: Place, yard: ry.Yard) -> None:
    items = [3, 1, 3, 2, 1, 3]
    options = {"backend": place.backend, "workers": place.workers, "yard": yard}
    assert ry.map(double, items, **options) == [6, 2, 6, 4, 2, 6]
    assert ry.map(lambda item: item[0], [(1,), [2], "3"], **options) == [1, 2, "3"]
    assert ry.map(double, range(5), **options) == [0, 2, 4, 6, 8]
    with pytest.raises(TasksFailed, match="2 of 4 tasks did not complete; first: ValueError") as e:
        ry.map(fails, [0, 1, 2, 3], **options)
    assert isinstance(e.value.result, ry.Result)
    assert list(e.value.result.values()) == [0, 2]


def test_mapping_nothing_gives_nothing(place: Place, yard: ry.Yard) -> None:
    assert ry.map(double, [], backend=place.backend, workers=place.workers, yard=yard) == []


def test_mapping_more_items_under_a_name_keeps_their_order(place: Place, yard: ry.Yard) -> None:
    options: dict[str, Any] = {"backend": place.backend, "workers": place.workers, "yard": yard}
    assert ry.map(double, [1, 3], name="m", seed=1, **options) == [2, 6]
    assert ry.map(double, [2, 1, 3], name="m", seed=1, **options) == [4, 2, 6]


def test_mapping_closures_over_different_values_gives_different_results(
    place: Place, yard: ry.Yard
) -> None:
    options: dict[str, Any] = {"backend": place.backend, "workers": place.workers, "yard": yard}
    found = [ry.map(lambda x, f=f: x * f, [1, 2], **options) for f in (1, 10)]
    assert found == [[1, 2], [10, 20]]


# Failures


def test_a_failure_says_what_and_where_and_affects_no_other_task(
    place: Place, yard: ry.Yard
) -> None:
    result = place.run(yard, ry.grid(fails, x=range(20)))
    assert (result.stats.completed, result.stats.failed) == (10, 10)
    outcome = result.outcome(5)
    assert outcome.status is ry.Status.FAILED
    assert outcome.value is None
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("ValueError", "5 is odd")
    assert "sample_tasks.py:" in outcome.error.where
    assert outcome.error.where.endswith(" in fails")
    assert 'raise ValueError(f"{x} is odd")' in outcome.error.trace
    assert "runyard/attempt" not in outcome.error.trace
    (group,) = result.failures()
    assert (group.kind, group.count, group.tasks[0]) == ("ValueError", 10, 1)


def test_an_error_may_bring_a_value_and_a_trace(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(fails_with_a_value, x=[0, 1]), timeout=30.0)
    shown, unencodable = result.outcomes()
    assert shown.value == {"timeout": 30.0}
    assert unencodable.value is None
    note = "no (its value was not recorded: a value of type object can't be recorded)"
    for outcome, message in ((shown, "no"), (unencodable, note)):
        assert outcome.status is ry.Status.FAILED
        assert outcome.error is not None
        assert outcome.error.message == message
        assert outcome.error.trace == "line 3 of something else"


def test_the_place_of_a_failure_is_in_the_users_own_code(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(fails_in_a_library, text=["[1]", "{bad"]))
    error = result.outcome(1).error
    assert error is not None
    assert error.kind == "JSONDecodeError"
    assert error.where.endswith(" in fails_in_a_library")
    assert "decoder.py" in error.trace


STRANGE = {
    "exit": "SystemExit",
    "exit text": "SystemExit",
    "unprintable": "Unprintable",
    "surrogate": "ValueError",
    "group": "ExceptionGroup",
    "cancelled": "CancelledError",
    "generator": "GeneratorExit",
    "long": "ValueError",
}


def test_any_error_of_a_task_is_its_own_failure(place: Place, yard: ry.Yard) -> None:
    batch = ry.grid(raises_strangely, how=list(STRANGE), replicates=2)
    result = place.run(yard, batch, deadline="90s")
    assert result.end == "finished"
    found = [kinds(result)[n] for n in range(len(STRANGE))]
    assert found == list(STRANGE.values())
    assert all(len(o.error.message) < 5000 for o in result.outcomes() if o.error)


def test_a_stop_iteration_is_a_failure(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(raises_strangely, how=["stop"]), deadline="90s")
    assert kinds(result)[0] in ("StopIteration", "RuntimeError")


def test_an_interrupt_that_a_task_raises_itself_ends_neither_lane_nor_engine(
    place: Place, yard: ry.Yard
) -> None:
    batch = ry.grid(raises_strangely, how=["interrupt", "exit", "group"])
    try:
        result = place.run(yard, batch, deadline="90s")
    except KeyboardInterrupt:  # where the task runs in the caller's thread it is the caller's
        assert place.backend == "serial"
        return
    assert result.end == "finished"
    assert kinds(result) == {0: "KeyboardInterrupt", 1: "SystemExit", 2: "ExceptionGroup"}


def test_a_result_that_can_not_be_recorded_fails_its_task(place: Place, yard: ry.Yard) -> None:
    whats = ["set", "nested", "function", "fine"]
    result = place.run(yard, ry.grid(returns, what=whats))
    assert kinds(result) == {0: "NotEncodable", 1: "NotEncodable", 2: "NotEncodable"}
    nested = result.outcome(1).error
    assert nested is not None
    assert "'a[1]'" in nested.message
    assert list(result.values()) == [[1]]


def test_parameters_changed_by_a_task_do_not_reach_the_next_one(
    place: Place, yard: ry.Yard
) -> None:
    def spoils(shared: list[int], own: dict[str, int], x: int) -> Any:
        shared.append(x)
        own["x"] = x
        return [shared, own]

    batch = ry.batch(
        spoils,
        variants=[{"own": {}}],
        cases=[{"x": x} for x in range(10)],
        params={"shared": []},
        seed=7,
    )
    result = place.run(yard, batch)
    assert list(result.values()) == [[[x], {"x": x}] for x in range(10)]


# Retries


def test_a_task_is_retried_until_it_succeeds(place: Place, yard: ry.Yard) -> None:
    batch = ry.grid(fails_until, attempts=[0, 1, 2, 3], seed=7)
    seen: list[Event] = []
    result = place.run(yard, batch, retries=2, backoff=0.001, on_event=seen.append)
    assert list(result.values()) == [0, 1, 2]
    assert [o.attempt for o in result.outcomes()] == [0, 1, 2, 2]
    last = result.outcome(3)
    assert last.error is not None
    assert (last.error.kind, last.error.message) == ("Unlucky", "attempt 2")
    retried = Counter(e.task for e in seen if isinstance(e, TaskRetried))
    assert retried == {1: 1, 2: 2, 3: 2}
    assert [e.task for e in seen if isinstance(e, TaskFailed)] == [3]
    with yard.store.snapshot() as view:
        attempts = view.attempts(result.recorded.id)
    assert [(a.task, a.number, a.crash) for a in attempts] == [
        (1, 1, 0), (2, 1, 0), (2, 2, 0), (3, 1, 0), (3, 2, 0),
    ]  # fmt: skip


def test_retries_are_chosen_by_the_class_of_the_error(place: Place, yard: ry.Yard) -> None:
    batch = ry.grid(raises, kind=["Unlucky", "FileNotFoundError", "other"], seed=7)
    options: dict[str, Any] = {"retries": 1, "backoff": 0.001, "fresh": True}

    def tried(**chosen: Any) -> list[int]:
        result = place.run(yard, batch, **options, **chosen)
        return [o.attempt for o in result.outcomes()]

    assert tried() == [1, 1, 1]
    assert tried(retry_on=["OSError"]) == [1, 1, 0]
    assert tried(retry_on=[FileNotFoundError, KeyError]) == [0, 1, 1]
    assert tried(never_retry=["Unlucky"]) == [0, 1, 1]
    assert tried(retry_on=[OSError], never_retry=["Unlucky"]) == [0, 1, 0]


def test_a_retry_sees_the_same_random_numbers(place: Place, yard: ry.Yard) -> None:
    def drawn(ctx: ry.Context, x: int) -> list[int]:
        numbers = ctx.rng.integers(0, 2**40, 3).tolist()
        if ctx.attempt < 2:
            raise ValueError(f"{numbers}")
        return [int(n) for n in numbers]

    batch = ry.grid(drawn, x=range(5), seed=7)
    seen: list[TaskRetried] = []
    result = place.run(
        yard, batch, retries=2, backoff=0.001,
        on_event=lambda e: seen.append(e) if isinstance(e, TaskRetried) else None,
    )  # fmt: skip
    for event in seen:
        assert event.message == str(result.outcome(event.task).value)
    assert len(seen) == 10


# Events


def test_events_of_a_task_arrive_in_order(place: Place, yard: ry.Yard) -> None:
    seen: list[Event] = []
    result = place.run(yard, ry.grid(emits, x=range(40)), on_event=seen.append)
    steps: dict[int, list[int]] = {}
    for event in seen:
        if isinstance(event, TaskEmitted):
            assert (event.kind, event.data["x"]) == ("step", event.task)
            assert event.data["array"] == [event.data["number"]] * 2
            steps.setdefault(event.task, []).append(event.data["number"])
    assert steps == {task: [0, 1, 2, 3, 4] for task in range(40)}
    assert isinstance(seen[0], BatchStarted)
    assert any(isinstance(event, BatchFinished) for event in seen)
    audited = [e for e in yard.events(result.name, task=7) if e["event"] == "TaskEmitted"]
    assert [e["data"]["number"] for e in audited] == [0, 1, 2, 3, 4]


def test_events_arrive_while_the_batch_still_runs(place: Place, yard: ry.Yard, gate: str) -> None:
    def hear(event: Event) -> None:
        if isinstance(event, TaskEmitted):
            Path(gate, "heard").touch()

    batch = ry.grid(emits_and_waits, params={"folder": gate}, x=range(32))
    result = place.run(yard, batch, on_event=hear)
    assert all(result.values())


def test_what_a_task_logs_becomes_events(place: Place, yard: ry.Yard) -> None:
    seen: list[TaskEmitted] = []
    place.run(
        yard, ry.grid(logs, x=[3]),
        on_event=lambda e: seen.append(e) if isinstance(e, TaskEmitted) else None,
    )  # fmt: skip
    assert [(e.kind, e.data) for e in seen] == [
        ("log", {"level": "info", "message": "at 3"}),
        ("log", {"level": "warning", "message": "careful"}),
    ]


def test_progress_never_goes_back_and_ends_with_everything_done(
    place: Place, yard: ry.Yard
) -> None:
    seen: list[Progress] = []
    result = place.run(yard, ry.grid(slow_double, x=range(60)), progress=seen.append)
    done = [event.completed + event.failed + event.cancelled for event in seen]
    assert done == sorted(done)
    assert all(event.total == 60 for event in seen)
    assert all(event.elapsed >= 0 and event.rate >= 0 for event in seen)
    assert result.stats.completed == 60
    assert done[-1] == 60


def slow_double(x: int) -> int:
    threading.Event().wait(0.005)
    return 2 * x


# Context


def test_a_task_knows_itself(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(knows_itself, x=[10, 20, 30], seed=7, name="known"))
    values = list(result.values())
    for number, value in enumerate(values):
        assert (value["task"], value["batch"], value["attempt"]) == (number, "known", 0)
        assert value["params"] == 10 * (number + 1)
        assert value["same"]
        assert value["same_rng"]
        assert value["alone"] == ["mine"]
        assert value["workspace"].endswith(f"batches/known/tasks/{number}/0/workspace")
        assert value["workspace"].startswith(f"{value['folder']}/tasks/")
        assert value["shown"] == f"<Context of known/{number}, attempt 0>"
    assert len({value["seed"] for value in values}) == 3
    assert len({tuple(value["numbers"]) for value in values}) == 3


def test_random_numbers_are_the_same_everywhere(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(tossed, coins=[10, 100, 1000, 10_000], seed=7))
    assert [v["heads"] for v in result.values()] == [4, 53, 509, 5047]


def test_the_context_is_found_without_being_passed(place: Place, yard: ry.Yard) -> None:
    passed = place.run(yard, ry.grid(lambda ctx, x: int(ctx.rng.integers(0, 2**40)), x=[1], seed=7))
    found = place.run(yard, ry.grid(without_context, x=[1], seed=7))
    assert list(passed.values()) == list(found.values())


def test_outside_a_task_there_is_no_context(place: Place, yard: ry.Yard) -> None:
    place.run(yard, ry.grid(without_context, x=[1]))
    with pytest.raises(UsageError, match="no context outside a task"):
        deep_inside()


# Coroutines


def test_coroutine_functions_run_everywhere(place: Place, yard: ry.Yard) -> None:
    seen: list[TaskEmitted] = []
    result = place.run(
        yard, ry.grid(later, x=range(20), seed=7),
        on_event=lambda e: seen.append(e) if isinstance(e, TaskEmitted) else None,
    )  # fmt: skip
    assert (result.stats.completed, result.stats.failed) == (16, 4)
    assert [v["x"] for v in result.values()] == [x for x in range(20) if x % 5 != 4]
    assert all(value["same"] for value in result.values())
    assert sorted(event.task for event in seen) == list(range(20))
    assert result.outcome(0).value["number"] == 7_171_786_831


def test_what_coroutines_print_is_kept_for_each_of_them(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(later, x=range(12), seed=7))
    found = {n: output(yard, result, n, "stdout") for n in range(12)}
    assert found == {n: f"coroutine {n}\n" for n in range(12)}


def test_a_coroutine_may_raise_anything(place: Place, yard: ry.Yard) -> None:
    hows = ["exit", "group", "cancelled"]
    batch = ry.grid(sample_tasks.raises_strangely_later, how=hows, replicates=3)
    result = place.run(yard, batch, deadline="90s")
    assert result.end == "finished"
    assert [kinds(result)[n] for n in range(3)] == [
        "SystemExit",
        "ExceptionGroup",
        "CancelledError",
    ]


def test_a_function_may_offer_a_coroutine_for_an_event_loop(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(either_way, x=range(4)))
    on_loop = place.backend == "async"
    assert list(result.values()) == [
        f"{x} {'awaited' if on_loop and x % 2 else 'called'}" for x in range(4)
    ]  # fmt: skip


def test_a_callable_object_that_gives_a_coroutine_is_awaited(place: Place, yard: ry.Yard) -> None:
    assert list(place.run(yard, ry.grid(Adder(5), x=[1, 2])).values()) == [6, 7]
    partial = functools.partial(later_sum, more=10)
    assert list(place.run(yard, ry.grid(partial, x=[1, 2])).values()) == [11, 12]


async def later_sum(x: int, more: int) -> int:
    await asyncio.sleep(0)
    return x + more


def test_a_run_inside_a_running_loop_works(place: Place, yard: ry.Yard) -> None:
    async def notebook() -> list[Any]:
        plain = place.run(yard, ry.grid(double, x=[1, 2]))
        coroutine = place.run(yard, ry.grid(later_sum, params={"more": 1}, x=[1, 2]))
        return [*plain.values(), *coroutine.values()]

    assert asyncio.run(notebook()) == [2, 4, 2, 3]


# Output


def test_what_each_task_prints_is_kept_apart(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(prints, x=range(15)))
    for task in range(15):
        assert output(yard, result, task, "stdout") == f"out {task}\nmore\n"
        assert output(yard, result, task, "stderr") == f"err {task}\n"


def test_a_task_that_prints_little_has_no_files(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(prints, x=range(15)))
    assert not (yard.batch_folder(result.name) / "tasks").exists()


def test_each_attempt_has_its_own_output(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.batch(prints_on_each_attempt), retries=2, backoff=0.001)
    found = [output(yard, result, 0, "stdout", attempt) for attempt in range(3)]
    assert found == ["attempt 0\n", "attempt 1\n", "attempt 2\n"]


def test_nothing_is_kept_when_capture_is_off(
    place: Place, yard: ry.Yard, capfd: pytest.CaptureFixture[str]
) -> None:
    result = place.run(yard, ry.grid(prints, x=[1]), capture=False)
    assert result.stats.completed == 1
    assert yard.printed(result.name, 0) == {}


def test_strange_output_does_no_harm(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(prints_strangely, x=range(6)))
    assert list(result.values()) == list(range(6))
    for task in range(6):
        assert output(yard, result, task, "stdout").endswith("lone\nno newline")


def test_a_long_output_is_kept_in_part(place: Place, yard: ry.Yard) -> None:
    size = 11 * 1024 * 1024
    result = place.run(yard, ry.grid(prints_much, size=[size]))
    kept = output(yard, result, 0, "stdout")
    assert len(kept) < size - 500_000
    assert kept.endswith("x\n")


def test_the_engines_own_output_is_left_alone(
    place: Place, yard: ry.Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    print("before")
    place.run(yard, ry.grid(prints, x=range(5)), on_event=lambda _: print("event"))
    print("after")
    out = capsys.readouterr().out.split()
    assert (out[0], out[-1]) == ("before", "after")
    assert "out" not in out


# Functions by value


def test_lambdas_closures_and_local_functions_run(place: Place, yard: ry.Yard) -> None:
    offset = 100

    def local(x: int) -> int:
        return x + offset

    assert list(place.run(yard, ry.grid(lambda x: x + 1, x=[1, 2])).values()) == [2, 3]
    assert list(place.run(yard, ry.grid(local, x=[1, 2])).values()) == [101, 102]
    bound = functools.partial(later_plain, more=5)
    assert list(place.run(yard, ry.grid(bound, x=[1])).values()) == [6]
    assert list(place.run(yard, ry.grid(Scaler(3).scale, x=[1, 2])).values()) == [3, 6]


def later_plain(x: int, more: int) -> int:
    return x + more


class Scaler:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def scale(self, x: int) -> int:
        return self.factor * x


def test_a_notebook_cell_runs(place: Place, yard: ry.Yard) -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(
        "import math\n"
        "LIMIT = 3\n"
        "class Thing:\n"
        "    def __init__(self, x): self.x = x\n"
        "def helper(x): return min(x, LIMIT)\n"
        "def cell(ctx, x):\n"
        "    return [helper(Thing(x).x), math.floor(2.5), ctx.task]\n",
        cell,
    )
    result = place.run(yard, ry.grid(cell["cell"], x=range(5)))
    assert list(result.values()) == [[min(x, 3), 2, x] for x in range(5)]


def test_a_batch_of_functions_by_value_goes_on_by_running_it_again(
    place: Place, yard: ry.Yard
) -> None:
    name = yard.submit(ry.grid(lambda x: x + 1, x=[1, 2], name="b", seed=7))
    with pytest.raises(BadTarget, match="by value"):
        place.resume(yard, name)
    result = place.run(yard, ry.grid(lambda x: x + 1, x=[1, 2], name="b", seed=7))
    assert list(result.values()) == [2, 3]


def test_a_function_that_can_not_travel_is_refused_before_anything_runs(
    place: Place, yard: ry.Yard
) -> None:
    lock = threading.Lock()

    def locked(x: int) -> int:
        with lock:
            return x

    with pytest.raises(UsageError, match="can't be sent to a worker"):
        place.run(yard, ry.grid(locked, x=[1]))
    assert list(place.run(yard, ry.grid(double, x=[1])).values()) == [2]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("no_such_module:f", "no module named 'no_such_module'"),
        ("sample_tasks:nothing", "has no function 'nothing'"),
        ("no/such/file.py:f", "no such file"),
    ],
)
def test_a_function_that_can_not_be_found_is_refused_before_anything_runs(
    place: Place, yard: ry.Yard, target: str, text: str
) -> None:
    with pytest.raises(BadTarget, match=text):
        place.run(yard, ry.grid(target, x=[1]))
    assert yard.status() == []


def test_a_function_of_a_file_runs(place: Place, yard: ry.Yard, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from neighbour import THREE\ndef times(x):\n    return x * THREE\n"
    )
    (tmp_path / "neighbour.py").write_text("THREE = 3\n")
    result = place.run(yard, ry.grid(f"{tmp_path}/own.py:times", x=[1, 2]))
    assert list(result.values()) == [3, 6]


def test_a_file_that_changed_is_loaded_anew(place: Place, yard: ry.Yard, tmp_path: Path) -> None:
    source = tmp_path / "changing.py"
    found = []
    for factor in (2, 3):
        source.write_text(f"def times(x):\n    return x * {factor}\n# {'.' * factor}\n")
        result = place.run(yard, ry.grid(f"{source}:times", x=[1, 2]), fresh=True)
        found.append(list(result.values()))
    assert found == [[2, 4], [3, 6]]


def test_a_shell_command_runs_with_quoted_parameters(place: Place, yard: ry.Yard) -> None:
    batch = ry.grid(
        ry.shell("echo {word} $RUNYARD_TASK; echo oops >&2; exit {code}"),
        word=["a b", "$(whoami); 'x"],
        code=[0, 3],
        seed=7,
    )
    result = place.run(yard, batch)
    assert (result.stats.completed, result.stats.failed) == (2, 2)
    assert result.outcome(0).value == {"exit_code": 0, "stdout": "a b 0\n"}
    assert result.outcome(2).value["stdout"] == "$(whoami); 'x 2\n"
    error = result.outcome(1).error
    assert error is not None
    assert error.kind == "CommandFailed"
    assert error.message.startswith("exit code 3")
    assert output(yard, result, 1, "stderr") == "oops\n"


# Workspaces


def test_a_workspace_starts_as_a_copy_of_the_template(
    place: Place, yard: ry.Yard, tmp_path: Path
) -> None:
    template = tmp_path / "template"
    template.mkdir()
    (template / "given").write_text("x")
    result = place.run(yard, ry.grid(writes_a_file, x=[0, 2, 4]), template=str(template))
    assert list(result.values()) == [["given", "made"]] * 3
    assert [path.name for path in template.iterdir()] == ["given"]


@pytest.mark.parametrize(
    ("keep", "left"), [("always", {0, 1, 2, 3}), ("failed", {1, 3}), ("never", set())]
)
def test_workspaces_stay_by_policy(place: Place, yard: ry.Yard, keep: str, left: set[int]) -> None:
    result = place.run(yard, ry.grid(writes_a_file, x=range(4)), keep=keep)
    folder = yard.batch_folder(result.name)
    found = {int(path.parts[-3]) for path in folder.glob("tasks/*/*/workspace")}
    assert found == left


def test_a_template_that_is_not_there_is_refused(place: Place, yard: ry.Yard) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        place.run(yard, ry.grid(writes_a_file, x=[0]), template="nowhere")
    result = place.run(yard, ry.grid(writes_a_file, x=[0]))
    assert result.stats.completed == 1


def test_a_task_that_destroys_its_workspace_does_no_harm(place: Place, yard: ry.Yard) -> None:
    def destroys(ctx: ry.Context, x: int) -> int:
        import shutil

        shutil.rmtree(ctx.workspace.parent)
        return x

    result = place.run(yard, ry.grid(destroys, x=range(4)), keep="never")
    assert list(result.values()) == list(range(4))


# Afterwards


def test_nothing_is_left_of_a_run_but_its_record(place: Place, yard: ry.Yard) -> None:
    place.run(yard, ry.grid(fails, x=range(10)))
    assert list((yard.folder / "run").iterdir()) == []
    with yard.store.snapshot() as view:
        assert view.engines() == []
        assert view.claims(view.batches()[0].id) == []
    assert list(yard.store.check()) == []
    assert eventually(
        lambda: not any(t.name.startswith("runyard-lane") for t in threading.enumerate())
    )


def test_two_batches_run_at_once_in_two_threads(place: Place, yard: ry.Yard) -> None:
    results: list[ry.Result] = []
    other = ry.grid(prints, x=range(30), name="other")
    with meanwhile(lambda: results.append(place.run(yard, other))):
        mine = place.run(yard, ry.grid(prints, x=range(100, 130), name="mine"))
    (theirs,) = results
    assert mine.stats.completed == theirs.stats.completed == 30
    for task in range(30):
        assert output(yard, mine, task, "stdout") == f"out {task + 100}\nmore\n"
        assert output(yard, theirs, task, "stdout") == f"out {task}\nmore\n"

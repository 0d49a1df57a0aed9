"""Corners that a long-lived engine meets sooner or later, on every backend."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_tasks
from polling import eventually
from running import Place, meanwhile, output, unless
from sample_tasks import double, fails_until, noted, notes, paced, prints

import runyard as ry
from runyard.errors import BadSpec, NotFound, UsageError
from runyard.events import Event, Notice, TaskEmitted, TaskRetried, verify


@pytest.fixture(
    scope="module",
    params=[Place("serial", 1), *(Place(name, 2) for name in ("async", "threads", "processes"))],
    ids=str,
)
def place(request: pytest.FixtureRequest) -> Place:
    """Every backend once."""
    found: Place = request.param
    return found


def kinds(result: ry.Result) -> dict[int, str]:
    return {o.task: o.error.kind for o in result.outcomes() if o.error is not None}


# Inside a task


def test_a_run_inside_a_task_leaves_the_task_as_it_was(place: Place, yard: ry.Yard) -> None:
    def outer(ctx: ry.Context, x: int) -> Any:
        print("before", x)
        inner = ry.map(lambda y: print("inner") or y + 1, [x], backend="serial", yard="memory:")
        print("after", x)
        return [inner, ry.context() is ctx, ry.context().task]

    result = place.run(yard, ry.grid(outer, x=range(4), seed=7))
    assert list(result.values()) == [[[x + 1], True, x] for x in range(4)]
    for task in range(4):
        assert output(yard, result, task) == f"before {task}\nafter {task}\n"


def test_a_thread_that_outlives_its_task_hurts_nobody(
    place: Place, yard: ry.Yard, gate: str
) -> None:
    def leaves_a_thread(ctx: ry.Context, folder: str, x: int) -> int:
        def linger() -> None:
            for _ in range(20):
                time.sleep(0.005)
                ctx.log.info("late")
            with contextlib.suppress(UsageError):
                ctx.emit("late", x=x)
            Path(folder, f"lingered-{x}").touch()

        threading.Thread(target=linger, daemon=True).start()
        return x

    batch = ry.grid(leaves_a_thread, params={"folder": gate}, x=range(4), seed=7)
    assert list(place.run(yard, batch).values()) == list(range(4))
    again = ry.grid(paced, params={"folder": gate}, x=range(40), seed=7)
    assert place.run(yard, again).stats.completed == 40
    if place.backend != "processes":
        assert eventually(lambda: len(list(Path(gate).glob("lingered-*"))) == 4)


def test_a_cancel_callback_that_fails_hurts_nobody(place: Place, yard: ry.Yard, gate: str) -> None:
    def waits(ctx: ry.Context, folder: str, x: int) -> int:
        if x == 0:
            ctx.on_cancel(lambda: 1 / 0)
            sample_tasks.wait_for(folder, "release")
        return x

    batch = ry.grid(waits, params={"folder": gate}, x=range(4))
    result = place.run(yard, batch, timeout=0.2, deadline="90s")
    assert kinds(result) == {0: "TaskTimeout"}


def test_a_task_that_emits_much_loses_nothing(place: Place, yard: ry.Yard) -> None:
    def chatters(ctx: ry.Context, x: int) -> int:
        for number in range(1000):
            ctx.emit("n", number=number)
        return x

    seen: list[TaskEmitted] = []
    result = place.run(
        yard, ry.grid(chatters, x=range(3)),
        on_event=lambda e: seen.append(e) if isinstance(e, TaskEmitted) else None,
    )  # fmt: skip
    for task in range(3):
        assert [e.data["number"] for e in seen if e.task == task] == list(range(1000))
        told = [e for e in yard.events(result.name, task=task) if e["event"] == "TaskEmitted"]
        assert len(told) == 1000


def test_an_event_that_can_not_be_recorded_fails_its_task(place: Place, yard: ry.Yard) -> None:
    def emits_a_set(ctx: ry.Context) -> None:
        ctx.emit("bad", things={1})

    assert kinds(place.run(yard, ry.batch(emits_a_set))) == {0: "NotEncodable"}


def test_an_event_that_is_no_text_or_too_large_costs_its_own_task_alone(
    place: Place, yard: ry.Yard
) -> None:
    def emits(ctx: ry.Context, what: str) -> str:
        cut = os.fsdecode(b"caf\xe9")
        if what == "kind":
            ctx.emit(cut)
        elif what == "key":
            ctx.emit("k", **{cut: 1})
        elif what == "value":
            ctx.emit("k", name=cut)
        elif what == "large":
            ctx.emit("k", data=bytes(17 * 1024 * 1024))
        elif what == "NUL":
            ctx.emit("a\0b", name="c\0d")
        return what

    whats = ["kind", "key", "value", "large", "NUL", *map(str, range(40))]
    result = place.run(yard, ry.grid(emits, what=whats))
    assert kinds(result) == dict.fromkeys(range(4), "NotEncodable")
    assert result.stats.completed == 41
    (told,) = [e for e in yard.events(result.name) if e["event"] == "TaskEmitted"]
    assert (told["kind"], told["data"]) == ("a\0b", {"name": "c\0d"})


def test_a_logged_line_that_is_no_text_is_shown_escaped(place: Place, yard: ry.Yard) -> None:
    def logs_a_name(ctx: ry.Context) -> bool:
        ctx.log.warning("no such file: %s", "caf\udce9")
        ctx.log.info("x" * 20_000_000)
        return True

    result = place.run(yard, ry.batch(logs_a_name))
    assert list(result.values()) == [True]
    events = [e for e in yard.events(result.name) if e["event"] == "TaskEmitted"]
    assert events[0]["data"]["message"] == "no such file: caf\\udce9"
    assert len(events) == 2


def test_large_values_and_parameters_travel_whole(place: Place, yard: ry.Yard) -> None:
    def returned(size: int, text: str) -> Any:
        return {"array": np.arange(size, dtype=np.float64), "text": text}

    batch = ry.grid(returned, params={"text": "x" * 500_000}, size=[0, 1, 500_000, 7], seed=7)
    result = place.run(yard, batch)
    for outcome in result.outcomes():
        size = outcome.params["size"]
        assert np.array_equal(outcome.value["array"], np.arange(size, dtype=np.float64))
        assert len(outcome.value["text"]) == 500_000


def test_many_quick_tasks_are_all_there(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(double, x=range(20_000), seed=7))
    assert result.stats.completed == 20_000
    assert sum(result.values()) == 2 * sum(range(20_000))


def test_a_task_that_hangs_among_many_quick_ones_costs_itself_alone(
    place: Place, yard: ry.Yard, gate: str
) -> None:
    def hangs_at(folder: str, x: int) -> int:
        if x == 700:
            sample_tasks.wait_for(folder, "release")
        return x

    batch = ry.grid(hangs_at, params={"folder": gate}, x=range(1500))
    result = place.run(yard, batch, timeout=0.5, deadline="90s")
    assert result.end == "finished"
    assert kinds(result) == {700: "TaskTimeout"}
    assert result.stats.completed == 1499


@unless(lambda place: place.workers == 1)  # there is nobody else to do it
def test_one_long_task_does_not_hold_up_what_waits_behind_it(
    place: Place, yard: ry.Yard, gate: str
) -> None:

    def long_one(folder: str, x: int) -> int:
        if x == 300:
            sample_tasks.wait_for(folder, "release")
        sample_tasks.note(folder, x)
        return x

    batch = ry.grid(long_one, params={"folder": gate}, x=range(1000), name="b")

    def interfere() -> None:
        try:
            assert eventually(lambda: len(notes(gate)) == 999)
        finally:
            Path(gate, "release").touch()

    with meanwhile(interfere):
        result = place.run(yard, batch)
    assert result.stats.completed == 1000
    assert set(Counter(notes(gate)).values()) <= {1, 2}


# Retries over a stop


def test_a_retry_that_was_waiting_at_a_stop_goes_on_with_its_next_attempt(
    place: Place, yard: ry.Yard
) -> None:
    batch = ry.grid(fails_until, attempts=[2], seed=7, name="b")

    def stop_at_the_first_retry(event: Event) -> None:
        if isinstance(event, TaskRetried):
            with ry.Yard(yard.location) as other:
                other.stop("b")

    result = place.run(
        yard, batch, retries=3, backoff=600, backoff_max=600, on_event=stop_at_the_first_retry
    )
    assert result.end == "stopped"
    with yard.store.snapshot() as view:
        assert [a.number for a in view.attempts(result.recorded.id)] == [1]
    resumed = place.run(yard, batch, retries=3, backoff=0.001)
    assert list(resumed.values()) == [2]
    assert resumed.outcome(0).attempt == 2
    with yard.store.snapshot() as view:
        assert [a.number for a in view.attempts(resumed.recorded.id)] == [1, 2]


def test_options_may_change_between_runs(place: Place, yard: ry.Yard) -> None:
    batch = ry.grid(fails_until, attempts=[0, 2], seed=7, name="b")
    first = place.run(yard, batch)
    assert first.stats.failed == 1
    assert yard.retry("b") == 1
    second = place.run(yard, batch, retries=2, backoff=0.001)
    assert list(second.values()) == [0, 2]


# A fresh start


def test_a_fresh_start_leaves_no_file_and_no_story_of_the_earlier_run(
    place: Place, yard: ry.Yard
) -> None:
    first = place.run(yard, ry.grid(prints, x=[1, 2], name="b", seed=7))
    assert output(yard, first, 0) != ""
    silent = ry.grid(double, x=[1, 2], name="b", seed=7)
    second = place.run(yard, silent, fresh=True)
    assert output(yard, second, 0) == ""
    started = [e for e in yard.events("b") if e["event"] == "BatchStarted"]
    assert len(started) == 1


def test_a_task_that_is_retried_by_hand_starts_with_empty_output(
    place: Place, yard: ry.Yard, gate: str
) -> None:
    def prints_once(folder: str) -> None:
        if not Path(folder, "mended").exists():
            print("it failed")
            raise ValueError

    batch = ry.batch(prints_once, params={"folder": gate}, name="b", seed=7)
    result = place.run(yard, batch)
    assert output(yard, result, 0) == "it failed\n"
    Path(gate, "mended").touch()
    yard.retry("b")
    again = place.run(yard, batch)
    assert again.stats.completed == 1
    assert output(yard, again, 0) == ""


def test_a_changed_function_is_a_notice_and_what_is_recorded_stays(
    place: Place, yard: ry.Yard
) -> None:
    place.run(yard, ry.grid(lambda x: x + 1, x=[1], name="b", seed=7))
    seen: list[Event] = []
    grown = ry.grid(lambda x: x + 100, x=[1, 2], name="b", seed=7)
    with pytest.warns(ry.CodeChangedWarning, match="since 1 outcome was recorded; it is kept"):
        result = place.run(yard, grown, on_event=seen.append)
    assert list(result.values()) == [2, 102]
    texts = [event.text for event in seen if isinstance(event, Notice)]
    assert any("has changed" in text for text in texts)
    assert any("grew from 1 to 2 tasks" in text for text in texts)


def test_a_limit_without_effect_is_heard_and_logged(yard: ry.Yard) -> None:
    seen: list[Event] = []
    batch = ry.grid(lambda x: x, x=[1], name="b", seed=7)
    yard.run(batch, backend="serial", memory="1GiB", progress=False, on_event=seen.append)
    text = "the memory limit has no effect on serial; use processes"
    assert [event.text for event in seen if isinstance(event, Notice)] == [text]
    assert [event["text"] for event in yard.events("b") if event["event"] == "Notice"] == [text]


# Places


def test_a_yard_in_memory_runs_batches_like_any_other(place: Place) -> None:
    with ry.Yard("memory:") as yard:
        folder = yard.folder
        result = place.run(yard, ry.grid(prints, x=range(5)))
        assert result.stats.completed == 5
        assert output(yard, result, 3) == "out 3\nmore\n"
    assert not folder.exists()


def test_a_durable_yard_runs_batches_like_any_other(place: Place, tmp_path: Path) -> None:
    with ry.Yard(tmp_path / "durable", durable=True) as yard:
        assert place.run(yard, ry.grid(double, x=range(50))).stats.completed == 50


def test_each_task_has_a_log_of_its_own_where_asked(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(sample_tasks.emits, x=range(3)), audit_tasks=True)
    folder = yard.batch_folder(result.name)
    assert verify(folder / "events.jsonl").ok
    for task in range(3):
        (log,) = (folder / "tasks" / str(task)).glob("**/events.jsonl")
        assert verify(log).ok
        assert log.read_text().count("TaskEmitted") == 5


def test_secrets_of_the_environment_do_not_reach_the_record(
    place: Place, yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "s3cr3t-v4lue-of-a-token")

    def leaks(ctx: ry.Context) -> None:
        ctx.emit("leak", token=os.environ["SERVICE_TOKEN"])
        raise ValueError(f"bad token {os.environ['SERVICE_TOKEN']}")

    result = place.run(yard, ry.batch(leaks), retries=1, backoff=0.001)
    error = result.outcome(0).error
    assert error is not None
    assert "s3cr3t" not in "".join(error)
    assert "bad token" in error.message
    events = (yard.batch_folder(result.name) / "events.jsonl").read_text()
    assert "s3cr3t" not in events


# Mistakes


def test_a_mistake_in_the_call_is_named_and_leaves_nothing_running(
    place: Place, yard: ry.Yard
) -> None:
    batch = ry.grid(double, x=[1])
    with pytest.raises(BadSpec, match="no option 'speed'"):
        place.run(yard, batch, speed=3)
    with pytest.raises(UsageError, match="workers is 0"):
        yard.run(batch, backend=place.backend, workers=0)
    with pytest.raises(BadSpec, match="no parameter 'y'"):
        place.run(yard, ry.grid("sample_tasks:double", y=[1]))
    with pytest.raises(NotFound, match="no batch 'nothing'"):
        place.resume(yard, "nothing")
    with pytest.raises(BadSpec, match="has no value"):
        place.run(yard, ry.grid(ry.shell("echo {missing}"), x=[1]))
    assert place.run(yard, batch).stats.completed == 1


def test_a_handler_of_events_that_fails_or_is_slow_does_not_hurt_the_run(
    place: Place, yard: ry.Yard
) -> None:
    def fails(_: Event) -> None:
        raise ZeroDivisionError

    batch = ry.grid(sample_tasks.emits, x=range(20))
    assert place.run(yard, batch, on_event=fails).stats.completed == 20
    assert place.run(yard, batch, fresh=True, progress=fails).stats.completed == 20


# Leftovers


def test_an_alarm_that_somebody_else_has_set_still_rings(place: Place, yard: ry.Yard) -> None:
    rung: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    timer = signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        result = place.run(yard, ry.grid(double, x=range(10)), timeout="30s")
        assert result.stats.completed == 10
        assert eventually(lambda: rung, seconds=60)
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_many_runs_leave_no_descriptor_and_no_thread(place: Place, tmp_path: Path) -> None:
    def run_one(number: int) -> None:
        with ry.Yard(tmp_path / str(number)) as yard:
            batch = ry.grid(sample_tasks.later, x=range(4), seed=7)
            assert place.run(yard, batch).stats.completed == 4
            assert place.run(yard, ry.grid(prints, x=[1])).stats.completed == 1

    def opened() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    run_one(0)
    descriptors, threads = opened(), threading.active_count()
    for number in range(1, 8):
        run_one(number)
    # A lock file stays open for each yard: closing it would let go of every engine's lock.
    assert opened() - descriptors <= 7
    assert eventually(lambda: threading.active_count() <= threads)


def test_a_result_that_is_read_in_part_holds_nothing_up(place: Place, yard: ry.Yard) -> None:
    result = place.run(yard, ry.grid(double, x=range(5000), seed=7))
    part = result.outcomes()
    assert next(part).value == 0
    more = place.run(yard, ry.grid(double, x=range(3000), seed=7, name="more"))
    assert more.stats.completed == 3000
    assert next(part).value == 2
    del part
    gc.collect()


def test_streams_are_the_callers_own_after_a_run(place: Place, yard: ry.Yard) -> None:
    before = sys.stdout, sys.stderr, os.getcwd(), sys.path.copy()
    place.run(yard, ry.grid(noted, params={"folder": str(yard.folder.parent)}, x=[1]))
    assert (sys.stdout, sys.stderr, os.getcwd(), sys.path) == before

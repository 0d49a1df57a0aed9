"""The queue with its worker: order, ends, cancels, retries, deaths."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_queue import Queue, opened
from polling import eventually


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with opened(tmp_path / "yard") as found:
        yield found


def started_order(tasks: dict[str, dict[str, Any]]) -> list[str]:
    return sorted(tasks, key=lambda name: tasks[name]["started_at"])


PRIORITIES = ("low", "medium", "high", "critical")
TOLD = 0.1
"""Seconds that a task may have been there before a worker knows."""


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_tasks_begin_exactly_in_order_while_others_are_added(queue: Queue, lanes: int) -> None:
    """By priority, and in one priority as they came; short ones too, which travel together.

    On a busy machine a worker may be held up for longer than others wait for its start: once more.
    """
    for tries in range(3):
        overtaken = _overtaken(queue, random.Random(lanes + 10 * tries), lanes)
        if not overtaken:
            return
    raise AssertionError(overtaken)


def _overtaken(queue: Queue, dice: random.Random, lanes: int) -> list[str]:
    """Tasks that others overtook which stood behind them."""

    def task(number: int) -> dict[str, Any]:
        return {
            "name": f"t{number}", "function": "simulate", "priority": dice.choice(PRIORITIES),
            "params": {"duration": dice.choice([0, 0.001, 0.01])},
        }  # fmt: skip

    queue.do("add_batch", tasks=[task(number) for number in range(120)])
    queue.do("start", max_concurrent=lanes)
    for number in range(120, 150):
        queue.do("add", **task(number))
    assert queue.drained()
    begun = sorted(queue.tasks().values(), key=lambda task: task["started_at"])
    assert [task["status"] for task in begun] == ["completed"] * 150
    found = []
    for at, task in enumerate(begun):
        waited = [t for t in begun[at + 1 :] if t["created_at"] < task["started_at"] - TOLD]
        found += [t["task_id"] for t in waited if _place(t) < _place(task)]
    queue.do("clear")
    return found


def _place(task: dict[str, Any]) -> tuple[int, int]:
    """Where a task stands in line."""
    number = int(task["task_id"].rpartition("/")[2])
    return -PRIORITIES.index(task["priority"]), number


def test_a_critical_task_that_comes_late_overtakes_those_that_wait(queue: Queue) -> None:
    queue.do(
        "add_batch",
        tasks=[
            {"name": f"t{n}", "function": "simulate", "params": {"duration": 0.4}} for n in range(9)
        ],
    )
    queue.do("start", max_concurrent=2)
    assert eventually(lambda: queue.counts()["running"] == 2)
    late = queue.do("add", name="late", function="simulate", priority="critical",
                    params={"duration": 0})  # fmt: skip
    assert late.data["position"] == 1
    assert queue.drained()
    found = queue.tasks()
    assert started_order(found).index("late") <= 6


def sleepers(worker: int) -> list[psutil.Process]:
    found = psutil.Process(worker).children(recursive=True)
    return [p for p in found if p.is_running() and p.name() == "sleep"]


def test_cancelling_a_running_task_ends_its_whole_process_tree(queue: Queue) -> None:
    code = "sleep 300 & (setsid sleep 300 &) ; echo up > up; wait"
    task = queue.add("code_execution", params={"code": code, "runtime": "shell"}, max_retries=0)
    other = queue.add(params={"duration": 0.1})
    queue.do("start", max_concurrent=2)
    assert eventually(lambda: list(queue.folder.glob("batches/queue/tasks/0/0/workspace/up")))
    assert eventually(lambda: len(sleepers(queue.pids[0])) == 2)
    tree = sleepers(queue.pids[0])
    assert queue.do("cancel", task_id=task).data["status"] == "cancelled"
    assert queue.task(task)["status"] == "cancelled"
    assert eventually(lambda: not any(p.is_running() for p in tree))
    assert eventually(lambda: queue.task(other)["status"] == "completed")


def test_a_timeout_ends_the_task_and_the_queue_goes_on(queue: Queue) -> None:
    slow = queue.add(params={"duration": 300}, timeout="0.3", max_retries=0)
    quick = queue.add(params={"duration": 0})
    queue.do("start", max_concurrent=1)
    assert queue.drained()
    assert queue.task(slow)["error"].startswith("TaskTimeout")
    assert queue.task(quick)["status"] == "completed"


def test_a_failure_is_tried_again_with_growing_pauses(queue: Queue) -> None:
    code = "import sys, time; print(time.time()); sys.exit(3)"
    task = queue.add("code_execution", params={"code": code}, max_retries=2)
    queue.do("start")
    assert queue.drained()
    found = queue.task(task)
    assert (found["status"], found["retry_count"]) == ("failed", 2)
    assert "exit code 3" in found["error"]
    events = list(queue.executor.yard.events("queue"))
    delays = [event["delay"] for event in events if event["event"] == "TaskRetried"]
    assert len(delays) == 2
    assert 0 < delays[0] <= delays[1]


def test_a_call_that_can_t_work_is_not_tried_again(queue: Queue) -> None:
    task = queue.add("knowledge_search", params={"query": "x", "path": "/"}, max_retries=3)
    queue.do("start")
    assert queue.drained()
    assert queue.task(task)["retry_count"] == 0
    assert queue.task(task)["status"] == "failed"


def test_the_time_for_the_whole_batch_is_kept_and_the_rest_stays_queued(queue: Queue) -> None:
    for _ in range(3):
        queue.add(params={"duration": 300})
    queue.do("start", max_concurrent=2, timeout="0.5")
    assert eventually(lambda: not queue.is_up())
    data = queue.counts()
    assert (data["queued"], data["running"], data["failed"]) == (3, 0, 0)


def test_stopping_at_once_queues_again_what_runs_and_start_goes_on(queue: Queue) -> None:
    long = queue.add(params={"duration": 1.5})
    assert not queue.do("stop").data["stopping"]
    queue.do("start")
    assert "already running" in queue.do("start").message
    assert eventually(lambda: queue.task(long)["status"] == "running")
    stopped = queue.do("stop", graceful="false").data
    assert (stopped["stopping"], stopped["queued"], stopped["running"]) == (True, 1, 0)
    assert not queue.is_up()
    queue.do("start")
    assert queue.drained()
    assert queue.task(long)["status"] == "completed"
    assert queue.task(long)["retry_count"] == 0


def test_a_graceful_stop_lets_what_runs_finish(queue: Queue) -> None:
    queue.add(name="first", params={"duration": 0.8})
    queue.add(name="second", params={"duration": 0})
    queue.do("start", max_concurrent=1)
    assert eventually(lambda: queue.counts()["running"] == 1)
    assert queue.do("stop").data["stopping"]
    assert eventually(lambda: not queue.is_up())
    data = queue.counts()
    assert (data["completed"], data["queued"]) == (1, 1)


def test_a_killed_worker_loses_nothing_and_another_takes_over(queue: Queue) -> None:
    queue.do(
        "add_batch",
        tasks=[
            {"name": f"t{n}", "function": "simulate", "params": {"duration": 0.1}}
            for n in range(12)
        ],
    )
    queue.do("start", max_concurrent=2)
    assert eventually(lambda: queue.counts()["completed"] >= 2)
    os.kill(queue.pids[0], signal.SIGKILL)
    assert eventually(lambda: not queue.is_up())
    assert queue.counts()["completed"] < 12
    queue.do("start", max_concurrent=4)
    assert queue.drained()
    assert queue.counts()["completed"] == 12


def test_a_task_added_while_the_worker_lingers_is_run(queue: Queue) -> None:
    queue.add(params={"duration": 0})
    queue.do("start")
    assert queue.drained()
    assert queue.is_up()
    status = queue.do("status")
    assert (status.data["state"], status.message.split(",")[0]) == ("stopped", "finished")
    assert queue.do("start").message.startswith("nothing is queued")
    queue.add(name="late", params={"duration": 0})
    assert queue.drained()
    assert eventually(lambda: not queue.is_up())
    assert queue.counts()["completed"] == 2


def test_what_a_finished_queue_took_does_not_grow_while_its_worker_waits(queue: Queue) -> None:
    def told() -> tuple[Any, ...]:
        data = queue.do("status").data
        return data["total_execution_time"], data["rate"], data["throughput_per_minute"]

    queue.add(params={"duration": 0.1})
    queue.do("start")
    assert queue.drained()
    at_once = told()
    assert min(at_once) > 0
    assert eventually(lambda: not queue.is_up())
    assert told() == at_once


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_eta_is_right_from_the_tenth_task_on(queue: Queue, lanes: int) -> None:
    tasks, each = 10 + 12 * lanes, 0.15
    queue.do(
        "add_batch",
        tasks=[
            {"name": f"t{n}", "function": "simulate", "params": {"duration": each}}
            for n in range(tasks)
        ],
    )
    queue.do("start", max_concurrent=lanes)
    assert eventually(lambda: queue.counts()["completed"] >= 10)
    asked, eta = time.time(), queue.counts()["estimated_time_remaining"]
    assert queue.drained()
    end = max(task["completed_at"] for task in queue.tasks().values())
    assert eta == pytest.approx(end - asked, rel=0.3)


def test_waiting_for_tasks_ends_when_these_have_ended(queue: Queue) -> None:
    short = [queue.add(name=f"t{n}", params={"duration": 0}) for n in range(2)]
    bad = queue.add("code_execution", params={"code": "1/0"}, max_retries=0)
    long = queue.add(params={"duration": 60})

    def wait(*tasks: str, seconds: Any = 30) -> dict[str, Any]:
        heard: list[int] = []

        async def hear(done: int, total: int, text: str) -> None:
            assert text
            assert total == len(set(tasks)) or not tasks
            heard.append(done)

        response = asyncio.run(queue.executor.wait(seconds, hear, tasks=",".join(tasks)))
        assert heard == sorted(heard)
        return response.data

    assert (wait()["state"], wait(*short)["queued"]) == ("stopped", 2)  # nothing runs
    queue.do("start", max_concurrent=2)
    found = wait(*short, short[0], bad)
    assert (found["state"], found["completed"], found["failed"]) == ("stopped", 2, 1)
    assert [task["task_id"] for task in found["tasks"]] == [*short, bad]
    assert wait(long, seconds="0.1s")["state"] == "running"
    assert wait("queue/99")["error"] == "NotFound"
    assert wait(seconds="soon")["error"] == "BadCall"


def test_status_tells_what_workers_do_and_use(queue: Queue) -> None:
    queue.add(name="quick", params={"duration": 0}, priority="high")
    queue.add(name="nap", params={"duration": 30})
    queue.do("start", max_concurrent=1)
    assert eventually(lambda: queue.counts()["running"] == 1)
    assert eventually(lambda: queue.counts()["completed"] == 1)
    data = queue.do("status", detailed="true").data
    assert [task["name"] for task in data["running_tasks"]] == ["nap"]
    assert data["progress_percentage"] == 50.0
    assert (data["success_rate"], data["failure_rate"]) == (1.0, 0.0)
    assert (data["queue_depth"], data["active_workers"], data["max_concurrent"]) == (0, 1, 1)
    assert data["resources"]["memory_mb"] > 1
    assert data["resources"]["processes"] >= 2
    assert data["wait_time"]["mean"] > 0
    assert queue.tasks(filter_status="running").keys() == {"nap"}
    assert queue.task("queue/1")["status"] == "running"
    assert "simulate" in data["functions"]

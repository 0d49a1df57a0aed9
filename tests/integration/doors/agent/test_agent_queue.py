"""The queue without a worker: adding, looking, clearing."""

from __future__ import annotations

import asyncio
import csv
import importlib
import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import polars
import pytest
from agent_queue import Queue, opened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import runyard
from runyard.doors.agent import BatchQueue, Priority, TaskStatus
from runyard.doors.agent.executor import once
from runyard.doors.agent.inputs.arguments import TASK_FIELDS, USAGE
from runyard.doors.agent.queue.exports import COLUMNS
from runyard.errors import UsageError
from runyard.reports.formats import FORMATS


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with opened(tmp_path / "yard") as found:
        yield found


def test_the_position_is_by_priority_then_in_order(queue: Queue) -> None:
    positions = [
        queue.do("add", name="t", function="simulate", priority=priority).data["position"]
        for priority in ("medium", "medium", "LOW", "critical", "high", "Medium")
    ]
    assert positions == [1, 2, 3, 1, 2, 5]
    assert queue.task("queue/2")["position"] == 6


def test_the_action_may_be_given_by_its_name(queue: Queue) -> None:
    executor, task = queue.executor, {"name": "a", "function": "simulate"}
    assert asyncio.run(executor.execute(action="add", **task)).data["task_id"] == "queue/0"
    assert executor.execute_sync(**task, action="ADD").data["task_id"] == "queue/1"
    assert asyncio.run(once(queue.folder, action="cancel", task_id="1")).data["cancelled"]
    for action in set(executor.actions) - {"start"}:
        response = executor.execute_sync(action=action)
        assert response.ok or "call it as" in response.message
    for words in ({}, {"action": ""}, {"action": None}, {"action": "stauts"}, {"self": 1}):
        assert "use one of: add, add_batch" in executor.execute_sync(**words).message
    assert "did you mean 'status'?" in queue.refused(action="stauts")
    assert "did you mean 'priority'?" in queue.refused("add", priorty="high", **task)


def test_a_detailed_status_lists_what_is_next_with_its_position(queue: Queue) -> None:
    queue.do("add_batch", tasks=[{"name": f"t{n}", "function": "simulate"} for n in range(25)])
    queue.add(name="urgent", priority="critical")
    queue.add(name="after", priority="high", depends_on=["queue/0"])
    status = queue.do("status", detailed=True)
    following = status.data["next_tasks"]
    assert [(task["name"], task["position"]) for task in following[:3]] == [
        ("urgent", 1), ("after", 2), ("t0", 2),
    ]  # fmt: skip
    for task in following:
        assert queue.task(task["task_id"])["position"] == task["position"]
    assert (len(following), status.data["left_out"]) == (20, {"next_tasks": 7})
    assert "next: queue/25 urgent (simulate), position 1" in status.message
    assert "after (simulate), waits for 1 task" in status.message
    assert "and 7 more next" in status.message
    assert "next_tasks" not in queue.do("status").data


def test_results_come_in_the_order_that_is_asked_for(queue: Queue) -> None:
    async def settle_in_another_order() -> None:
        tasks = BatchQueue(queue.executor.yard)
        taken = []
        for name in "abcd":
            await tasks.add_task(name, "simulate")
            taken.append(await tasks.get_next_task())
        for number, status in ((2, "completed"), (0, "failed"), (3, "completed"), (1, "failed")):
            task = taken[number]
            assert task is not None
            await tasks.update_task(task.task_id, status)
        await tasks.close()

    asyncio.run(settle_in_another_order())

    def names(**arguments: Any) -> str:
        found = queue.do("results", **arguments).data["results"]
        return "".join(task["name"] for task in found)

    assert names() == names(order="ADDED") == "abcd"
    assert (names(order="ended"), names(order="latest")) == ("cadb", "bdac")
    assert names(order="ended", filter_status="failed") == "ab"
    assert names(order="latest", offset=1, limit=2) == "da"
    assert "did you mean 'ended'?" in queue.refused("results", order="endet")
    assert "did you mean 'failed'?" in queue.refused("results", filter_status="fialed")
    assert "not ended" in queue.refused("results", order="ended", filter_status="queued")


def test_an_unknown_function_is_refused_with_the_known_ones(queue: Queue) -> None:
    said = queue.refused("add", name="a", function="reboot")
    assert "reboot" in said
    assert "did you mean 'simulate'?" in queue.refused("add", name="a", function="simulat")
    assert "code_execution" in said
    assert "simulate" in said


def test_a_module_is_not_imported_because_a_model_names_it(queue: Queue) -> None:
    assert "antigravity" not in sys.modules
    queue.refused("add", name="a", function="antigravity:geohash")
    assert "antigravity" not in sys.modules


MARKED = """
import runyard

@runyard.task
def double(x):
    return 2 * x

def plain(x):
    return x

@runyard.task
def replaced(x):
    return x

def replaced(x):
    return -x
"""


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of the host's that has marked functions."""
    name = f"agent_marked_{secrets.token_hex(4)}"
    (tmp_path / f"{name}.py").write_text(MARKED)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(name)
    yield name
    del sys.modules[name]


def test_a_function_that_the_host_has_marked_can_be_named(queue: Queue, marked: str) -> None:
    known = queue.executor.ledger.functions.find(f"{marked}:double")
    assert known.target.ref == f"{marked}:double"
    said = queue.refused("add", name="a", function=f"{marked}:plain", params={"x": 1})
    assert f"{marked}:double" in said
    assert "can't be imported" in queue.refused("add", name="a", function=f"{marked}:replaced")


class Trap:
    """Stands for ctypes.cdll, which loads a library when an attribute is asked for."""

    asked: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> object:
        self.asked.append(name)
        return runyard.task(lambda: None)


@pytest.mark.parametrize("end", ["trap.library", "trap./tmp/library", "trap", "trap.__class__"])
def test_a_name_reads_no_attribute_of_anything(queue: Queue, marked: str, end: str) -> None:
    setattr(sys.modules[marked], "trap", Trap())  # noqa: B010
    Trap.asked.clear()
    queue.refused("add", name="a", function=f"{marked}:{end}")
    queue.refused("add", name="a", function=f"{marked}:double.{end}")
    queue.refused("add", name="a", function="custom_function",
                  params={"function": f"{marked}:{end}"})  # fmt: skip
    assert Trap.asked == []


def test_a_name_loads_no_library(queue: Queue) -> None:
    said = queue.refused("add", name="a", function="ctypes:cdll./nowhere/library")
    assert "unknown function" in said


def test_the_context_of_a_task_is_no_parameter_of_the_call(queue: Queue) -> None:
    params = {"code": "print(1)", "ctx": {"workspace": "/"}}
    assert "'ctx'" in queue.refused("add", name="a", function="code_execution", params=params)


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("fly", {}),
        ("", {}),
        ("add", {}),
        ("add", {"name": "a", "function": "simulate", "params": "nonsense"}),
        ("add", {"name": "a", "function": "simulate", "params": {"nope": 1}}),
        ("add", {"name": "a", "function": "code_execution"}),
        ("add", {"name": "a", "function": "code_execution", "params": {"code": ""}}),
        ("add", {"name": "a", "function": "memory", "params": {"operation": "sing"}}),
        ("add", {"name": "a", "function": "tool", "params": {"server": "x", "name": "y"}}),
        ("add", {"name": "a", "function": "simulate", "depends_on": ["queue/99"]}),
        ("add_batch", {}),
        ("add_batch", {"tasks": 3}),
        ("start", {"max_concurrent": "many"}),
        ("start", {"max_concurrent": 0}),
        ("start", {"backend": "moon"}),
        ("start", {"timeout": "soon"}),
        ("stop", {"graceful": "perhaps"}),
        ("status", {"task_id": "queue/99"}),
        ("status", {"task_id": "other/0"}),
        ("results", {"format": "xml"}),
        ("results", {"filter_status": "lost"}),
        ("results", {"limit": -1}),
        ("export", {"format": "xml"}),
        ("cancel", {}),
        ("cancel", {"task_id": "queue/99"}),
        ("clear", {"really": True}),
    ],
)
def test_a_bad_call_is_refused_in_words(
    queue: Queue, action: str, arguments: dict[str, Any]
) -> None:
    queue.add()
    assert queue.refused(action, **arguments).startswith("error: ")
    assert queue.counts()["total_tasks"] == 1


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
PARAMETERS = (*TASK_FIELDS, "tasks", "graceful", "detailed", "task_id", "format", "filter_status",
              "offset", "limit", "output_file")  # fmt: skip


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    action=st.sampled_from(sorted(USAGE.keys() - {"start"})) | st.text(max_size=10),
    arguments=st.dictionaries(st.sampled_from(PARAMETERS), anything, max_size=4),
)
def test_whatever_is_sent_is_answered(queue: Queue, action: str, arguments: dict[str, Any]) -> None:
    response = queue.executor.execute_sync(action, **arguments)
    assert response.message
    assert len(response.message) < 3000
    assert "unexpected" not in response.message


def test_of_a_batch_bad_tasks_are_refused_one_by_one(queue: Queue) -> None:
    first = queue.add(name="first")
    answer = queue.do(
        "add_batch",
        tasks=[
            {"name": "a", "function": "simulate", "depends_on": [first]},
            {"name": "b", "function": "nope"},
            {"name": "c", "function": "simulate", "depends_on": "a"},
            {"name": "d", "function": "simulate", "depends_on": ["b"]},
            "not a task",
        ],
    ).data
    assert answer["task_ids"] == ["queue/1", "queue/2"]
    assert [each["place"] for each in answer["reasons"]] == [1, 3, 4]
    assert queue.task("queue/2")["depends_on"] == ["queue/1"]
    assert queue.task("queue/2")["waits_for"] == 1


def test_a_cancelled_task_takes_along_what_depends_on_it(queue: Queue) -> None:
    first = queue.add(name="first")
    queue.add(name="second", depends_on=[first])
    assert queue.do("cancel", task_id=first).data["cancelled"]
    assert not queue.do("cancel", task_id=first).data["cancelled"]
    assert {t["status"] for t in queue.tasks().values()} == {"cancelled"}
    assert "cancelled" in queue.refused("add", name="x", function="simulate", depends_on=[first])


def test_clearing_forgets_what_has_ended_and_no_number_comes_twice(queue: Queue) -> None:
    for _ in range(3):
        queue.add()
    queue.do("cancel", task_id="1")
    assert queue.do("clear").data == {"cleared": 1}
    data = queue.counts()
    assert (data["total_tasks"], data["queued"], data["cancelled"]) == (2, 2, 0)
    assert queue.add() == "queue/3"
    assert "queue/1" in queue.refused("status", task_id="queue/1")
    for each in ("0", "2", "3"):
        queue.do("cancel", task_id=each)
    assert queue.do("clear").data == {"cleared": 3}
    assert queue.add() == "queue/4"
    assert list(queue.executor.yard.store.check()) == []


def test_an_export_has_the_columns_and_stays_in_its_folder(queue: Queue, tmp_path: Path) -> None:
    queue.add(name="=HYPERLINK(1)")
    queue.do("cancel", task_id=0)
    path = Path(queue.do("export", format="csv", output_file="out.csv").data["path"])
    rows = list(csv.reader(path.read_text().splitlines()))
    assert rows[0] == list(COLUMNS)
    assert rows[1][:5] == ["queue/0", "'=HYPERLINK(1)", "simulate", "cancelled", "medium"]
    written = Path(queue.do("export").data["path"])
    assert [task["task_id"] for task in json.loads(written.read_text())] == ["queue/0"]
    for name in FORMATS:
        written = Path(queue.do("export", format=name).data["path"])
        assert written.suffix == f".{name}"
        assert written.stat().st_size
    frame = polars.read_parquet(queue.do("export", format="parquet").data["path"])
    assert frame.columns == list(COLUMNS)
    assert frame["Task ID"].to_list() == ["queue/0"]
    outside = tmp_path / "outside"
    outside.mkdir()
    (queue.folder / "exports" / "link").symlink_to(outside)
    for name in ("../x.json", "/tmp/x.json", "link/x.json", ".", "a\0b"):
        queue.refused("export", output_file=name)
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "x.json").exists()


def test_a_name_for_an_export_that_can_t_be_is_refused_before_there_is_any(queue: Queue) -> None:
    queue.add()
    for name in (".", "./", "./."):
        assert "names nothing" in queue.refused("export", output_file=name)
    assert not (queue.folder / "exports").exists()
    for name in ("x" * 256, "a/" * 3000 + "x"):
        assert "unexpected" not in queue.refused("export", output_file=name)
    queue.do("export", output_file="a/x.json")
    assert "a directory" in queue.refused("export", output_file="a")


def test_another_batch_of_that_name_is_no_queue(tmp_path: Path) -> None:
    batch = runyard.grid("sample_tasks:double", x=[1], name="queue", seed=1)
    with runyard.Yard(tmp_path / "yard") as yard:
        yard.submit(batch)
    with opened(tmp_path / "yard") as queue:
        assert "not as a queue" in queue.refused("add", name="a", function="simulate")


def test_a_host_that_takes_tasks_itself_gets_them_in_order(queue: Queue) -> None:
    async def host() -> None:
        tasks = BatchQueue(queue.executor.yard)
        for name, priority in (("low", "low"), ("high", Priority.HIGH), ("next", "high")):
            await tasks.add_task(name, "simulate", {"duration": 0}, priority, max_retries=1)
        first = await tasks.get_next_task()
        assert first is not None
        assert (first.name, first.status) == ("high", TaskStatus.RUNNING)
        done = await tasks.update_task(first.task_id, "completed", result={"x": 1})
        assert (done.status, done.result) == (TaskStatus.COMPLETED, {"x": 1})
        second = await tasks.get_next_task()
        assert second is not None
        again = await tasks.update_task(second.task_id, TaskStatus.QUEUED, error="once more")
        assert (again.status, again.retry_count) == (TaskStatus.QUEUED, 1)
        assert again.error == "TaskError: once more"
        said = queue.do("status", task_id=second.task_id).message
        assert "retries: 1 of 1\nthe last attempt failed: TaskError: once more" in said
        third = await tasks.get_next_task()
        assert third is not None
        assert third.task_id == second.task_id
        failed = await tasks.update_task(third.task_id, "failed", error="no")
        assert (failed.status, failed.error, failed.retry_count) == (
            TaskStatus.FAILED, "TaskError: no", 1,
        )  # fmt: skip
        assert not await tasks.cancel_task(first.task_id)
        last = await tasks.get_next_task()
        assert last is not None
        assert await tasks.get_next_task() is None
        await tasks.close()  # which gives the last one back
        stats = await tasks.get_stats()
        assert (stats.total_tasks, stats.completed, stats.failed, stats.queued) == (3, 1, 1, 1)

    asyncio.run(host())


def test_a_host_s_queue_takes_a_path_and_shows_every_task(tmp_path: Path) -> None:
    async def host() -> None:
        async with BatchQueue(tmp_path / "yard", queue="mine") as tasks:
            assert await tasks.get_all_tasks() == []
            assert await tasks.get_next_task() is None
            assert (await tasks.get_stats()).total_tasks == 0
            for name in "abcd":
                await tasks.add_task(name, "simulate", priority="high" if name == "c" else "low")
            first, second = await tasks.get_next_task(), await tasks.get_next_task()
            assert first is not None
            assert second is not None
            await tasks.update_task(first.task_id, "failed", error="no")
            await tasks.cancel_task("mine/1")
            found = await tasks.get_all_tasks()
            assert [(task.name, task.status.value) for task in found] == [
                ("a", "running"), ("b", "cancelled"), ("c", "failed"), ("d", "queued"),
            ]  # fmt: skip
            assert found[0] == second
            assert found[2].error == "TaskError: no"
            assert (await tasks.get_stats()).running == 1
            assert [task.name for task in await tasks.get_all_tasks("QUEUED")] == ["d"]
            with pytest.raises(UsageError, match="status is 'queud'"):
                await tasks.get_all_tasks("queud")

    asyncio.run(host())
    assert not (tmp_path / "yard" / "run").exists() or not list((tmp_path / "yard/run").iterdir())


def test_the_host_s_loop_turns_while_an_action_waits(queue: Queue) -> None:
    """Another transaction holds the store; the action waits for it, the loop does not."""

    async def host() -> int:
        turns = 0
        with queue.executor.yard.store.transaction():
            adding = asyncio.create_task(
                queue.executor.execute("add", name="a", function="simulate")
            )
            while turns < 20:
                await asyncio.sleep(0.005)
                turns += 1
            assert not adding.done()
        assert (await adding).ok
        return turns

    assert asyncio.run(host()) == 20

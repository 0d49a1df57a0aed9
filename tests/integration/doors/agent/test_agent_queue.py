"""The queue without a worker: adding, looking, clearing."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_queue import Queue, opened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import runyard
from runyard.doors.agent import BatchQueue, Priority, TaskStatus
from runyard.doors.agent.arguments import TASK_FIELDS, USAGE
from runyard.doors.agent.exports import COLUMNS


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


def test_an_unknown_function_is_refused_with_the_known_ones(queue: Queue) -> None:
    said = queue.refused("add", name="a", function="reboot")
    assert "reboot" in said
    assert "code_execution" in said
    assert "simulate" in said


def test_a_module_is_not_imported_because_a_model_names_it(queue: Queue) -> None:
    assert "antigravity" not in sys.modules
    queue.refused("add", name="a", function="antigravity:geohash")
    assert "antigravity" not in sys.modules


def test_a_function_that_the_host_has_marked_can_be_named(queue: Queue) -> None:
    module = type(sys)("agent_marked")
    module.double = runyard.task(lambda x: 2 * x)  # type: ignore[attr-defined]
    module.plain = lambda x: x  # type: ignore[attr-defined]
    sys.modules["agent_marked"] = module
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(queue.folder.parent)
            assert queue.refused("add", name="a", function="agent_marked:plain")
            found = queue.executor.ledger.functions.find("agent_marked:double")
            assert found.target.ref == "agent_marked:double"
    finally:
        del sys.modules["agent_marked"]


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
    outside = tmp_path / "outside"
    outside.mkdir()
    (queue.folder / "exports" / "link").symlink_to(outside)
    for name in ("../x.json", "/tmp/x.json", "link/x.json", ".", "a\0b"):
        queue.refused("export", output_file=name)
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "x.json").exists()


def test_another_batch_of_that_name_is_no_queue(tmp_path: Path) -> None:
    batch = runyard.grid("sample_tasks:double", x=[1], name="queue", seed=1)
    with runyard.Yard(tmp_path / "yard") as yard:
        yard.submit(batch)
    with opened(tmp_path / "yard") as queue:
        assert "no queue" in queue.refused("add", name="a", function="simulate")


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

"""Several agents and several workers on one queue in PostgreSQL."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from agent_queue import Queue, opened
from databases import postgres_url
from polling import eventually

from runyard.doors.agent import BatchQueue


def two_machines(stack: ExitStack, folder: Path, patch: pytest.MonkeyPatch) -> list[Queue]:
    """An agent's queue as two machines have it, each with files of its own."""
    url, agents = postgres_url(), []
    for number in range(2):
        patch.setenv("RUNYARD_FILES", str(folder / f"files-{number}"))
        agents.append(stack.enter_context(opened(url)))
    return agents


def test_agents_on_several_machines_share_one_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        one, two = two_machines(stack, tmp_path, monkeypatch)
        tasks = [{"name": f"t{n}", "function": "simulate", "params": {"duration": 0.1},
                  "priority": ("low", "high")[n % 2]} for n in range(100)]  # fmt: skip
        assert one.do("add_batch", tasks=tasks[:50]).data["task_ids"][-1] == "queue/49"
        assert two.do("add_batch", tasks=tasks[50:]).data["task_ids"][0] == "queue/50"
        one.do("start", max_concurrent=2)
        assert two.do("start", max_concurrent=2).data["started"]
        assert "already running" in one.do("start").message
        assert eventually(lambda: one.counts()["max_concurrent"] == 4)
        assert one.drained()
        assert one.counts()["completed"] == two.counts()["completed"] == 100
        assert len(one.tasks()) == 100
        outcomes = one.executor.yard.results("queue").outcomes()
        assert len({outcome.worker >> 16 for outcome in outcomes}) == 2


def test_an_agent_sees_what_another_machine_runs_and_what_failed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        there, here = two_machines(stack, tmp_path, monkeypatch)
        there.add("code_execution", name="bad", max_retries=0, priority="high",
                  params={"code": "print('out')\n1 / 0"})  # fmt: skip
        for number in range(6):
            there.add(name=f"t{number}", params={"duration": 60})
        there.do("start", max_concurrent=2)
        assert eventually(lambda: here.counts()["failed"] == 1)
        assert eventually(lambda: here.counts()["running"] == 2)
        bad = here.task("queue/0")
        assert bad["result"]["stdout"] == "out\n"
        assert "ZeroDivisionError" in bad["trace"]
        status = here.do("status", detailed=True).data
        assert (status["state"], status["running"], status["queued"]) == ("running", 2, 4)
        assert [task["name"] for task in status["running_tasks"]] == ["t0", "t1"]
        following = [(task["name"], task["position"]) for task in status["next_tasks"]]
        assert following == [("t2", 1), ("t3", 2), ("t4", 3), ("t5", 4)]
        assert here.tasks(filter_status="running").keys() == {"t0", "t1"}
        assert here.tasks(filter_status="queued").keys() == {"t2", "t3", "t4", "t5"}
        assert here.do("cancel", task_id="queue/1").data["cancelled"]
        assert eventually(lambda: here.task("queue/1")["status"] == "cancelled")
        assert eventually(lambda: here.task("queue/3")["status"] == "running")

        async def every() -> list[str]:
            async with BatchQueue(here.executor.yard) as tasks:
                return [task.status.value for task in await tasks.get_all_tasks()]

        seen = asyncio.run(every())
        assert (seen[:2], seen.count("running"), seen.count("queued")) == (
            ["failed", "cancelled"], 2, 3,
        )  # fmt: skip

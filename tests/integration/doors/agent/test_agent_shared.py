"""Several agents and several workers on one queue in PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from agent_queue import opened
from databases import postgres_url
from polling import eventually


def test_agents_on_several_machines_share_one_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_url()
    with ExitStack() as stack:
        agents = []
        for number in range(2):
            monkeypatch.setenv("RUNYARD_FILES", str(tmp_path / f"files-{number}"))
            agents.append(stack.enter_context(opened(url)))
        one, two = agents
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

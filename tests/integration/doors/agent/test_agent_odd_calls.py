"""Calls as no one should make them: each is answered in a sentence, and nothing is unexpected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_queue import Queue, opened

from runyard.doors.agent.executor import once


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


ODD: dict[str, Any] = {
    "half a letter": "\ud800", "odd bytes": "\udc80x", "nul": "a\0b", "huge": 10**400,
    "digits": 10**5000, "digits as text": "9" * 5000, "infinite": 1e999, "nan": float("nan"),
    "1e999": "1e999", "brackets": "[" * 50_000, "nested": nested(3000), "bytes": b"\xff",
    "object": object(), "yes": True, "empty": {}, "key": {1: 2}, "half key": {"\ud800": 1},
    "long": "x" * 100_000, "up": "../../x", "absolute": "/etc/passwd", "dash": "-rf", "dot": ".",
    "superscript": "queue/²", "arabic": "queue/٣", "minus": -1, "range": range(3), "list": [[]],
}  # fmt: skip
CALLS = {
    "add": ("name", "function", "params", "priority", "max_retries", "timeout", "depends_on"),
    "add_batch": ("tasks",),
    "start": ("timeout", "max_concurrent", "backend"),
    "stop": ("graceful",),
    "status": ("detailed", "task_id"),
    "results": ("format", "filter_status", "offset", "limit", "order"),
    "export": ("format", "output_file"),
    "cancel": ("task_id",),
    "clear": ("what",),
}


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with opened(tmp_path / "yard") as found:
        yield found


@pytest.mark.parametrize("action", CALLS)
def test_an_odd_value_is_refused_in_a_sentence(queue: Queue, action: str) -> None:
    for name in CALLS[action]:
        for what, value in ODD.items():
            given = {"name": "n", "function": "simulate"} if action == "add" else {}
            if action == "start":  # so that nothing is started, whatever is read
                given = {"backend": "nowhere"}
            said = queue.executor.execute_sync(action, **{**given, name: value})
            assert "unexpected" not in said.message, (name, what)
            assert len(said.message) < 3000
            said.message.encode()
            json.dumps(said.data)
    folder = queue.folder / "exports"
    outside = [path for path in folder.rglob("*") if not path.resolve().is_relative_to(folder)]
    assert outside == []


@pytest.mark.parametrize("function", ["code_execution", "custom_function", "knowledge_search",
                                      "memory", "tool", "simulate"])  # fmt: skip
def test_odd_parameters_are_refused_when_they_are_added(queue: Queue, function: str) -> None:
    names = ("code", "runtime", "args", "function", "query", "path", "operation", "key", "server")
    for name in names:
        for what, value in ODD.items():
            params = {"code": "1", "query": "x", "operation": "load", "key": "x", name: value}
            said = queue.executor.execute_sync("add", name="n", function=function, params=params)
            assert "unexpected" not in said.message, (name, what)


def test_a_batch_of_odd_tasks_is_refused_one_by_one(queue: Queue) -> None:
    tasks = [{"name": "n", "function": "simulate", "params": {"duration": value}}
             for value in ODD.values()]  # fmt: skip
    tasks += [{"name": value, "function": "simulate"} for value in ODD.values()]
    said = queue.executor.execute_sync("add_batch", tasks=[*tasks, *ODD.values()])
    assert "unexpected" not in said.message
    assert said.data["added"] + said.data["refused"] == 3 * len(ODD)


def test_a_call_by_way_of_a_plugin_names_neither_the_yard_nor_the_queue(queue: Queue) -> None:
    for name in ("queue", "location", "yard", "self"):
        arguments: dict[str, Any] = {name: "elsewhere"}
        said = asyncio.run(once(queue.folder, action="status", **arguments))
        assert f"no parameter '{name}'" in said.message

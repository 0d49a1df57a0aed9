"""What the functions that come with the queue do."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_queue import Queue, opened

from runyard.doors.agent.functions.code import KEPT
from runyard.doors.agent.functions.registry import GRACE
from runyard.spec.batch import decode_listed

SERVER = """
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
server = MCPServer("little")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

@server.tool()
def fail() -> str:
    raise ToolError("not today")

server.run("stdio")
"""


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    monkeypatch.chdir(tmp_path)
    server = tmp_path / "little.py"
    server.write_text(SERVER)
    folder = tmp_path / "yard"
    folder.mkdir()
    (folder / "agent.toml").write_text(
        f'knowledge = ["notes"]\nenvironment = ["AGENT_WORD"]\nallowed = ["sample_tasks:double"]\n'
        f'[functions]\ndouble = "sample_tasks:double"\n'
        f'[servers.little]\ncommand = "{sys.executable}"\nargs = ["{server}"]\n'
    )
    with opened(folder) as found:
        yield found


def run(queue: Queue, **tasks: tuple[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    queue.do(
        "add_batch",
        tasks=[
            {"name": name, "function": function, "params": params, "max_retries": 0}
            for name, (function, params) in tasks.items()
        ],
    )
    queue.do("start", max_concurrent=3)
    assert queue.drained()
    return queue.tasks()


def test_code_runs_in_its_workspace_with_an_environment_of_its_own(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_WORD", "allowed")
    monkeypatch.setenv("AGENT_API_KEY", "abcdef123456")
    source = (
        "import os, sys\n"
        "open('made.txt', 'w').write('x')\n"
        "print(os.environ.get('AGENT_WORD'), os.environ.get('AGENT_API_KEY'))\n"
        "print('password=abcdef123456', file=sys.stderr)\n"
    )
    runtimes = {"python": ("code_execution", {"code": source})}
    runtimes["shell"] = ("code_execution", {"runtime": "BASH", "code": "echo $AGENT_WORD; pwd"})
    if shutil.which("node"):
        runtimes["node"] = ("code_execution", {"runtime": "nodejs", "code": "console.log(6 * 7)"})
    found = run(queue, **runtimes)
    assert {task["status"] for task in found.values()} == {"completed"}, found
    python = found["python"]["result"]
    assert python["stdout"] == "allowed None\n"
    assert "abcdef123456" not in python["stderr"]
    assert python["files"] == ["made.txt"]
    assert python["exit_code"] == 0
    assert python["isolation"]["level"] in ("process", "bubblewrap")
    assert "batches/queue/tasks/1/0/workspace" in found["shell"]["result"]["stdout"]
    if "node" in found:
        assert found["node"]["result"]["stdout"] == "42\n"
    told = [e for e in queue.executor.yard.events("queue") if e.get("kind") == "code_executed"]
    hashes = {event["data"]["sha256"] for event in told}
    assert hashlib.sha256(source.encode()).hexdigest() in hashes
    assert len(told) == len(found)


def test_functions_return_what_they_found_and_fail_in_words(queue: Queue, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("one\n" * 20 + "the walrus and the carpenter\n")
    (notes / "b.txt").write_text("a walrus alone\n")
    (notes / ".hidden").write_text("walrus\n")
    (notes / "binary").write_bytes(b"walrus\0")
    save = {"operation": "save", "key": "sea", "content": "the walrus sleeps"}
    found = run(
        queue,
        search=("knowledge_search", {"query": "walrus carpenter", "limit": "3"}),
        outside=("knowledge_search", {"query": "x", "path": ".."}),
        odd=("knowledge_search", {"query": "x", "path": "a\0b"}),
        save=("memory", save),
        custom=("custom_function", {"code": "def process(a, b=1): return [a, b]",
                                    "args": {"a": 2}}),
        lacking=("custom_function", {"code": "x = 1"}),
        named=("custom_function", {"function": "sample_tasks:double", "args": {"x": 4}}),
        double=("double", {"x": 21}),
        sum=("tool", {"server": "little", "name": "add", "arguments": '{"a": 1, "b": 2}'}),
        refusal=("tool", {"server": "little", "name": "fail"}),
        nap=("simulate", {"duration": "0.01"}),
        never=("simulate", {"duration": "soon"}),
    )  # fmt: skip
    results = {name: task["result"] for name, task in found.items()}
    assert [(p["file"], p["line"]) for p in results["search"]["passages"]] == [("a.md", 13)]
    assert results["search"]["indexed"] == 3
    assert "not allowed" in str(found["outside"]["error"])
    assert "path is 'a\\x00b', which can't be used" in str(found["odd"]["error"])
    assert results["custom"] == [2, 1]
    assert "no function named process" in str(found["lacking"]["error"])
    assert (results["named"], results["double"]) == (8, 42)
    assert results["sum"]["text"] == "3"
    assert "not today" in str(found["refusal"]["error"])
    assert results["nap"] == {"waited": 0.01}
    assert found["never"]["status"] == "failed"

    queue.do("clear")
    (notes / "b.txt").write_text("the carpenter and his walrus\n")
    (notes / "a.md").unlink()
    found = run(
        queue,
        again=("knowledge_search", {"query": "carpenter"}),
        find=("memory", {"operation": "search", "query": "WALRUS"}),
        load=("memory", {"operation": "load", "key": "sea"}),
        nothing=("memory", {"operation": "load", "key": "land"}),
    )
    results = {name: task["result"] for name, task in found.items()}
    assert [p["file"] for p in results["again"]["passages"]] == ["b.txt"]
    assert results["again"]["indexed"] == 2
    assert [note["key"] for note in results["find"]["notes"]] == ["sea"]
    assert results["load"]["note"]["content"] == "the walrus sleeps"
    assert not results["nothing"]["found"]
    assert run(queue, gone=("memory", {"operation": "delete", "key": "sea"}))["gone"]["result"][
        "deleted"
    ]


def test_code_is_refused_at_level_none(tmp_path: Path) -> None:
    folder = tmp_path / "yard"
    folder.mkdir()
    (folder / "agent.toml").write_text('isolation = "none"\n')
    with opened(folder) as queue:
        for function in ("code_execution", "custom_function"):
            said = queue.refused("add", name="a", function=function, params={"code": "print(1)"})
            assert "level none" in said
        said = queue.refused("add", name="a", function="custom_function",
                             params={"function": "os:system"})  # fmt: skip
        assert "may not call" in said


FAILING: dict[str, dict[str, Any]] = {
    "raises": {"code": "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 / 0\n"},
    "syntax": {"code": "print('x'"},
    "late": {"code": "import time\nprint('out')\ndef hang():\n    time.sleep(60)\nhang()\n"},
    "shell": {"runtime": "shell", "code": "echo out; echo err >&2; sleep 60"},
    "floods": {"code": "print('x' * 999_999)\nraise SystemExit(3)"},
    "custom": {"code": "def process():\n    print('out')\n    raise ValueError('bad')\n"},
}


@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_code_that_fails_leaves_its_output_and_its_trace(tmp_path: Path, level: str) -> None:
    if level == "bubblewrap" and not shutil.which("bwrap"):
        assert not os.environ.get("CI"), "CI needs bubblewrap: make programs"
        pytest.skip("bubblewrap is not installed: make programs")
    folder = tmp_path / "yard"
    folder.mkdir()
    (folder / "agent.toml").write_text(f'isolation = "{level}"\n')
    with opened(folder) as queue:
        for name, params in FAILING.items():
            function = "custom_function" if name == "custom" else "code_execution"
            timeout = 0.7 if name in ("late", "shell") else 60
            queue.add(function, name=name, params=params, max_retries=0, timeout=timeout)
        queue.do("start", max_concurrent=3)
        assert queue.drained()
        found = queue.tasks(filter_status="failed")
        assert found.keys() == FAILING.keys()
        said = [queue.do("status", task_id=task["task_id"]).message for task in found.values()]
    printed = {name: task["result"] for name, task in found.items()}
    assert {each["isolation"]["level"] for each in printed.values()} == {level}
    assert {printed[name]["stdout"] for name in ("raises", "late", "shell", "custom")} == {"out\n"}
    assert printed["shell"]["stderr"] == "err\n"
    assert len(printed["floods"]["stdout"]) == KEPT
    assert printed["floods"]["exit_code"] == 3
    assert found["raises"]["trace"].startswith("Traceback (most recent call last):\n")
    assert "ZeroDivisionError" in found["raises"]["trace"]
    assert "SyntaxError" in found["syntax"]["trace"]
    assert "ValueError: bad" in found["custom"]["trace"]
    assert ", line 4 in hang" in found["late"]["trace"]
    assert found["late"]["error"] == "TaskTimeout: ran longer than its limit of 0.7 s"
    assert found["shell"]["timeout"] == 0.7
    assert all(len(message) < 3000 for message in said)
    assert "stdout:\nout\nstderr:\nerr\nTraceback" in said[0]


def test_the_engine_waits_for_the_sandbox_to_end_code_that_is_out_of_time(tmp_path: Path) -> None:
    with opened(tmp_path / "yard") as queue:
        queue.add("code_execution", params={"code": "1"}, timeout=2)
        queue.add("custom_function", params={"code": "def process(): pass"})
        queue.add("simulate", timeout=2)
        with queue.executor.yard.store.snapshot() as view:
            limits = [
                decode_listed(task.content).timeout
                for task in view.tasks(queue.executor.ledger.row(view).id)
            ]
        assert limits == [2 + GRACE, 300 + GRACE, 2]
        assert [queue.task(str(n))["timeout"] for n in range(3)] == [2, 300, 2]


def test_knowledge_reads_neither_the_yard_nor_through_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that runs writes into the yard, and could put a link there while it is searched."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key.txt").write_text("walrus key\n")
    notes = tmp_path / "notes"
    (notes / "deep").mkdir(parents=True)
    (notes / "deep" / "a.txt").write_text("walrus\n")
    (notes / "line.txt").write_text("walrus " * 100_000)
    (notes / "link.txt").symlink_to(tmp_path / "private" / "key.txt")
    (notes / "folder").symlink_to(tmp_path / "private")
    os.mkfifo(notes / "pipe")
    (notes / "odd\udcff").write_text("walrus\n")
    workspace = notes / "yard" / "batches"
    workspace.mkdir(parents=True)
    (workspace / "x.txt").write_text("walrus\n")
    (notes / "yard" / "agent.toml").write_text('knowledge = ["notes"]\n')
    with opened(notes / "yard") as queue:
        found = run(
            queue,
            all=("knowledge_search", {"query": "walrus", "limit": 50}),
            inside=("knowledge_search", {"query": "walrus", "path": str(workspace)}),
        )
    passages = found["all"]["result"]["passages"]
    assert {each["file"] for each in passages} == {"deep/a.txt", "line.txt"}
    assert all(len(each["text"]) <= 4000 for each in passages)
    assert "not allowed" in str(found["inside"]["error"])

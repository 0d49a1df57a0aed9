"""Every action on the command line, and the plugin for Agent Zero."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent_queue import opened
from command_line import Said, call

from runyard.doors.agent import BatchQueue


def test_every_action_works_on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "yard"
    monkeypatch.setenv("RUNYARD_YARD", str(place))

    def queue(*words: str, code: int = 0) -> dict[str, Any]:
        said: Said = call(capfd, "queue", *words, "--json")
        assert said.code == code, said
        return said.last

    assert queue("add", "nap", "simulate", "--set", "duration=0", "--priority", "HIGH")[
        "position"
    ] == 1  # fmt: skip
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([{"name": "a", "function": "simulate"}, {"name": "b"}]))
    added = queue("add-batch", str(tasks))
    assert (added["added"], added["refused"]) == (1, 1)
    assert queue("cancel", "queue/1")["cancelled"]
    assert queue("status")["queued"] == 1
    with opened(place) as watched:
        watched.pids.append(queue("start", "--max-concurrent", "2")["pid"])
        assert queue("wait", "queue/0", "--timeout", "30s")["completed"] == 1
        assert queue("wait", code=1)["cancelled"] == 1
        assert queue("status", "queue/0")["status"] == "completed"
        assert [task["name"] for task in queue("results")["results"]] == ["nap", "a"]
        assert queue("results", "--status", "cancelled")["total"] == 1
        assert queue("results", "--order", "latest")["results"][0]["name"] == "nap"
        assert queue("export", "--format", "csv", "--output-file", "x.csv")["count"] == 2
        assert queue("stop", "--now")["stopping"]
    refused = queue("clear", code=2)["error"]
    assert "this would delete 2 ended tasks of queue" in refused["message"]
    assert "--yes" in refused["hint"]
    assert queue("clear", "--yes")["cleared"] == 2
    assert queue("clear")["cleared"] == 0
    assert queue("status", "queue/0", code=5)["error"]["class"] == "NotFound"
    assert queue("start", "--max-concurrent", "lots", code=2)["error"]["class"] == "BadCall"
    assert "error" in queue("add", "x", "nope", code=2)
    assert "queue/2" in call(capfd, "queue", "add", "more", "simulate").out


def test_waiting_on_the_command_line_ends_with_the_code_that_fits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "yard"

    def wait(*words: str) -> Said:
        return call(capfd, "queue", "wait", *words, "--yard", str(place))

    assert wait().code == 0  # nothing was ever added
    with opened(place) as queue:
        queue.add()
        queue.add(params={"duration": 60})
        stuck = wait()
        assert (stuck.code, "runyard queue start" in stuck.err) == (3, True)
        queue.do("start", max_concurrent=2)
        assert wait("queue/0").code == 0
        late = wait("--timeout", "100ms", "--json")
        assert (late.code, late.last["state"]) == (124, "running")
        assert "not finished after 100ms" in late.err
        queue.do("cancel", task_id="1")
        assert wait().code == 1
        seen = call(capfd, "status", "queue", "--yard", str(place), "--json").last
        assert seen["state"] == "finished"  # though the worker waits for more
        assert wait("queue/9").code == 5
        assert "timeout: 'soon'" in wait("--timeout", "soon").err


def test_waiting_shows_progress_on_a_terminal_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    async def hold_a_task() -> None:
        async with BatchQueue(tmp_path / "yard") as tasks:
            await tasks.add_task("held", "simulate")
            assert await tasks.get_next_task() is not None
            await asyncio.to_thread(wait_and_interrupt)

    def wait_and_interrupt() -> None:
        parent, child = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "runyard", "queue", "wait", "--yard", str(tmp_path / "yard")],
            stdin=child, stdout=subprocess.PIPE, stderr=child, env=os.environ | {"TERM": "xterm"},
        )  # fmt: skip
        os.close(child)
        seen = b""
        try:
            while b"0/1" not in seen:
                seen += os.read(parent, 65536)
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(OSError):  # the terminal's other end is closed
                while part := os.read(parent, 65536):
                    seen += part
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(parent)
        assert (process.returncode, out) == (130, b"")
        assert b"interrupted" in seen
        assert b"Traceback" not in seen

    asyncio.run(hold_a_task())


def test_where_there_is_no_yard_the_queue_is_empty_and_none_is_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNYARD_YARD", raising=False)
    said = call(capfd, "queue", "status", "--json")
    assert (said.code, said.last["total_tasks"], said.last["queued"]) == (0, 0, 0)
    said = call(capfd, "queue", "start")
    assert (said.code, "add a task first" in said.err) == (5, True)
    assert list(tmp_path.iterdir()) == []


TOOL = """
from dataclasses import dataclass

@dataclass
class Response:
    message: str
    break_loop: bool
    additional: dict | None = None

class Tool:
    def __init__(self, agent, name, method, args, message, loop_data, **kwargs):
        self.agent, self.name, self.method, self.args = agent, name, method, args
"""


class Host:
    """Loads plugins and calls tools the way Agent Zero does.

    A new tool object for every call, arguments as the model wrote them, `await execute(**args)`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = {path.stem: path for path in root.glob("usr/plugins/*/tools/*.py")}

    def prompts(self) -> str:
        found = self.root.glob("usr/plugins/*/prompts/agent.system.tool.*.md")
        return "\n".join(path.read_text() for path in sorted(found))

    async def call(self, name: str, /, **args: str) -> Any:
        tool_name, _, method = name.partition(":")
        spec = importlib.util.spec_from_file_location(f"a0_{tool_name}", self.tools[tool_name])
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        base = importlib.import_module("helpers.tool").Tool
        kinds = [
            kind for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, base) and kind is not base
        ]  # fmt: skip
        tool = kinds[0](
            agent=None, name=tool_name, method=method or None, args=args, message="", loop_data=None
        )
        return await tool.execute(**args)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    helpers = tmp_path / "a0" / "helpers"
    helpers.mkdir(parents=True)
    (helpers / "__init__.py").touch()
    (helpers / "tool.py").write_text(TOOL)
    monkeypatch.syspath_prepend(tmp_path / "a0")
    monkeypatch.delenv("RUNYARD_YARD", raising=False)
    yield Host(tmp_path / "a0")
    for name in ("helpers", "helpers.tool"):
        sys.modules.pop(name, None)


def test_agent_zero_s_plugin_works_in_a_host_that_keeps_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], host: Host
) -> None:
    place = tmp_path / "yard"
    said = call(capfd, "queue", "install-agent-zero", str(host.root), "--yard", str(place),
                "--json")  # fmt: skip
    assert len(said.last["written"]) == 3
    host = Host(host.root)
    manifest = yaml.safe_load((host.root / "usr/plugins/runyard/plugin.yaml").read_text())
    assert {"title", "description", "version"} <= manifest.keys()
    assert '"tool_name": "batch_executor"' in host.prompts()

    async def talk() -> None:
        async def say(tool: str = "batch_executor", /, **args: str) -> str:
            response = await host.call(tool, **args)
            assert response.break_loop is False
            assert len(response.message) < 3000
            return str(response.message)

        added = await say(action="add", name="sum", function="code_execution", priority="HIGH",
                          params='{"code": "print(sum(range(100)))"}')  # fmt: skip
        assert "queue/0" in added
        assert "call start" in added
        assert "use one of: add" in await say(action="sing")
        assert "use one of: add" in await say()
        assert "started" in await say("batch_executor:start", max_concurrent="2")
        while "running" in (status := await say(action="status")).split(",")[0]:
            if "1 completed" in status:
                break
            await asyncio.sleep(0.05)
        assert "4950" in await say(action="results", limit="5")
        assert "stopped" in await say(action="stop", graceful="False")

    with opened(place):
        asyncio.run(talk())


def test_the_plugin_is_not_written_where_there_is_no_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(capfd, "queue", "install-agent-zero", str(tmp_path / "nowhere")).code == 2

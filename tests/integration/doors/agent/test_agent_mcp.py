"""The MCP server, spoken to with the official client; a fresh server process for every call."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_queue import opened
from polling import eventually

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

ACTIONS = {"add", "add_batch", "start", "stop", "status", "results", "export", "clear", "cancel"}


class Agent:
    """Speaks to a server that lives for one call."""

    def __init__(self, yard: Path) -> None:
        words = ["-m", "runyard", "mcp", "--yard", str(yard)]
        self.server = StdioServerParameters(command=sys.executable, args=words, cwd=yard.parent)
        self.progress: list[tuple[float, float | None]] = []
        self.client: Client | None = None

    async def hear(self, done: float, total: float | None, message: str | None) -> None:
        assert message
        self.progress.append((done, total))

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Use a tool of the server that is there, or of one for this call."""
        if self.client is not None:
            return await self.say(self.client, tool, **arguments)
        async with Client(self.server) as client:
            return await self.say(client, tool, **arguments)

    async def say(self, client: Client, tool: str, **arguments: Any) -> Any:
        result = await client.call_tool(tool, arguments, progress_callback=self.hear)
        text = result.content[0].text
        assert len(text) < 3000
        assert not result.is_error, text
        assert len(json.dumps(result.structured_content)) < 3000
        return result.structured_content

    async def refused(self, client: Client, tool: str, **arguments: Any) -> str:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        assert len(result.content[0].text) < 3000
        return str(result.content[0].text)


def test_a_queue_outlives_the_server_of_each_call(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "yard")
    tasks = [{"name": f"t{n}", "function": "simulate", "params": {"duration": 0.2}}
             for n in range(20)]  # fmt: skip

    async def talk() -> None:
        assert (await agent.call("add_batch", tasks=json.dumps(tasks)))["added"] == 20
        started = await agent.call("start", max_concurrent="2")
        watched.pids.append(started["pid"])
        waited = await agent.call("wait", seconds="30")
        assert (waited["completed"], waited["queued"]) == (20, 0)
        assert agent.progress[-1] == (20, 20)
        assert [done for done, _ in agent.progress] == sorted(done for done, _ in agent.progress)

    with opened(tmp_path / "yard") as watched:
        asyncio.run(talk())


@pytest.mark.parametrize("servers", ["one", pytest.param("each", marks=pytest.mark.slow)])
def test_every_action_works_on_one_server_or_one_of_its_own(tmp_path: Path, servers: str) -> None:
    agent = Agent(tmp_path / "yard")

    def is_running() -> bool:
        return bool(watched.task("queue/0")["status"] == "running")

    async def talk() -> None:
        assert (await agent.call("status"))["total_tasks"] == 0
        added = await agent.call("add", name="nap", function="simulate", priority="HIGH",
                                 params={"duration": 60})  # fmt: skip
        assert (added["task_id"], added["position"]) == ("queue/0", 1)
        many = [{"name": f"t{n}", "function": "simulate", "params": {"duration": 0}}
                for n in range(4)]  # fmt: skip
        assert (await agent.call("add_batch", tasks=many))["added"] == 4
        watched.pids.append((await agent.call("start", max_concurrent=1))["pid"])
        assert eventually(is_running)
        assert (await agent.call("status", task_id="queue/0"))["status"] == "running"
        assert (await agent.call("stop", graceful=False))["stopping"]
        assert eventually(lambda: not watched.is_up())
        assert (await agent.call("status"))["queued"] == 5
        watched.pids.append((await agent.call("start", max_concurrent=1))["pid"])
        assert eventually(is_running)
        assert (await agent.call("cancel", task_id="queue/0"))["cancelled"]
        waited = await agent.call("wait", seconds=30)
        assert (waited["completed"], waited["cancelled"], waited["queued"]) == (4, 1, 0)
        page = await agent.call("results", limit=2)
        assert ([each["name"] for each in page["results"]], page["next_offset"]) == (
            ["nap", "t0"], 2,
        )  # fmt: skip
        exported = await agent.call("export", format="json")
        assert exported["count"] == 5
        assert len(json.loads(Path(exported["path"]).read_text())) == 5
        assert (await agent.call("clear"))["cleared"] == 5

    async def talk_to_one() -> None:
        async with Client(agent.server) as agent.client:
            await talk()

    with opened(tmp_path / "yard") as watched:
        asyncio.run(talk_to_one() if servers == "one" else talk())


def test_the_tools_explain_themselves_and_refuse_in_words(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "yard")

    async def talk() -> None:
        async with Client(agent.server) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() == ACTIONS | {"wait"}
            for tool in tools.values():
                assert tool.description
                assert tool.output_schema
                for field in tool.input_schema["properties"].values():
                    assert field["description"]
                    assert field.keys() & {"type", "anyOf"}
            assert tools["add"].input_schema["required"] == ["name", "function"]
            assert "call it as add(" in await agent.refused(client, "add", name="x")
            assert "code_execution" in await agent.refused(client, "add", name="x", function="y")
            assert "call it as" in await agent.refused(client, "add", name=[1], function="y")
            assert "max_concurrent" in await agent.refused(client, "start", max_concurrent="all")
            assert "priority" in await agent.refused(client, "add", name="x", function="simulate",
                                                     priority="asap")  # fmt: skip
            assert await agent.refused(client, "wait", seconds="for ever")
            status = await agent.say(client, "status")
            assert status["total_tasks"] == 0
            added = await agent.say(client, "add", name="first", function="simulate",
                                    priority="HIGH", params='{"duration": "0"}')  # fmt: skip
            assert (added["task_id"], added["position"]) == ("queue/0", 1)
            many = [{"name": f"{n} " + "x" * 150, "function": "simulate"} for n in range(300)]
            assert (await agent.say(client, "add_batch", tasks=many))["added"] == 300
            page = await agent.say(client, "results", filter_status="queued", limit=100)
            assert page["shortened"]
            assert 0 < page["next_offset"] < 100
            for number in range(3):
                await agent.say(client, "cancel", task_id=number)
            assert (await agent.say(client, "status", detailed="yes"))["cancelled"] == 3
            assert (await agent.say(client, "status", task_id="queue/0"))["status"] == "cancelled"
            assert (await agent.say(client, "results"))["total"] == 3
            assert (await agent.say(client, "export", format="CSV"))["count"] == 3
            assert (await agent.say(client, "clear"))["cleared"] == 3
            assert not (await agent.say(client, "stop", graceful="true"))["stopping"]
            assert (await agent.say(client, "wait", seconds=1))["state"] == "stopped"

    asyncio.run(talk())


OLD_CLIENT = """
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    words = ["-m", "runyard", "mcp", "--yard", sys.argv[2]]
    server = StdioServerParameters(command=sys.argv[1], args=words)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        result = await session.call_tool("add", {"name": "x", "function": "simulate"})
        print(result.isError, result.structuredContent["task_id"])
        result = await session.call_tool("add", {"name": "x"})
        print(result.isError)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_client_of_the_first_generation_is_understood(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "old"], check=True)
    python = tmp_path / "old" / "bin" / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "mcp<2"], capture_output=True, text=True, check=False
    )
    if installed.returncode:
        pytest.skip(f"no client of the first generation can be had: {installed.stderr[-200:]}")
    (tmp_path / "client.py").write_text(OLD_CLIENT)
    said = subprocess.run(
        [python, tmp_path / "client.py", sys.executable, tmp_path / "yard"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert said.stdout.split() == ["False", "queue/0", "True"]


def test_code_that_fails_is_told_with_its_output(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "yard")
    code = "print('out' + '.' * 9000 + 'end')\nraise ValueError('bad')"

    async def talk() -> None:
        async with Client(agent.server) as client:
            await agent.say(client, "add", name="bad", function="code_execution",
                            params={"code": code}, max_retries="0")  # fmt: skip
            await agent.say(client, "add", name="long", function="simulate",
                            params={"duration": 60})  # fmt: skip
            started = await agent.say(client, "start", max_concurrent=1)
            watched.pids.append(started["pid"])
            waited = await agent.say(client, "wait", seconds=30, tasks=["queue/0"])
            assert (waited["state"], waited["failed"], waited["total_tasks"]) == ("stopped", 1, 1)
            found = await agent.say(client, "status", task_id="queue/0")
            assert found["result"]["stdout"].startswith("out.")
            assert found["result"]["stdout"].endswith(".end\n")
            assert found["result"]["stderr"].endswith("ValueError: bad\n")
            assert found["trace"].endswith("ValueError: bad\n")
            page = await agent.say(client, "results", order="latest")
            assert page["results"][0]["name"] == "bad"
            assert "ended" in await agent.refused(client, "results", order="endet")
            await agent.say(client, "add", name="more", function="simulate")
            status = await agent.say(client, "status", detailed=True)
            assert [task["position"] for task in status["next_tasks"]] == [1]

    with opened(tmp_path / "yard") as watched:
        asyncio.run(talk())


def test_each_request_is_answered_whatever_stands_between_them(tmp_path: Path) -> None:
    """A host that sends what is no request is told so, and the server goes on."""
    hello = {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }  # fmt: skip
    lines = [
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":%b}' % json.dumps(hello).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        _call(1, "add", name="\ud800", function="simulate"),
        b"{bad", b"", b"\xff\xfe", b"[" * 5000, b"x" * 200_000,
        _call(2, "status", task_id="\udc80"), _call(3, "reboot"), _call(4, "add", nope=[[[]]]),
        _call(4, "results", offset=10**30), b'{"jsonrpc":"2.0","id":5,"method":"nope"}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        _call(6, "add", name="n", function="simulate", params={"duration": 10**400}),
        _call(7, "status"),
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "runyard", "mcp", "--yard", tmp_path / "yard"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        assert server.stdin
        assert server.stdout
        server.stdin.write(b"\n".join(lines) + b"\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(14)]
        server.stdin.close()
        assert server.stdout.read() == b""
        assert server.wait(60) == 0
    found = [answer["id"] for answer in answers if answer["id"] is not None]
    assert sorted(found) == [0, 1, 2, 3, 4, 4, 5, 6, 7]
    refused = [each["error"]["code"] for each in answers if each["id"] is None]
    assert sorted(refused) == [-32700] * 4 + [-32600]
    ok = {each["id"]: each for each in answers}
    assert ok[7]["result"]["structuredContent"]["state"] == "stopped"


def _call(number: int, tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(call).encode()


def test_a_server_whose_host_no_longer_reads_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "runyard", "mcp", "--yard", tmp_path / "yard"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        assert server.stdin
        assert server.stdout
        server.stdout.close()
        server.stdin.write(b"{bad\n")
        server.stdin.flush()
        server.wait(60)

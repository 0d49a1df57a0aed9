"""The MCP server: one tool for each action, and `wait`.

Hosts may start it for every call: all state is in the yard's store and in the background worker.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, cast

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, InputRequiredResult, TextContent
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runyard.doors.agent.executor import BatchExecutor
from runyard.doors.agent.functions.registry import BUILT_IN
from runyard.doors.agent.inputs.arguments import INSTRUCTIONS, duration, how
from runyard.doors.agent.queue import messages
from runyard.doors.agent.queue.model import Response
from runyard.doors.agent.server.wire import wired
from runyard.errors import RunyardError
from runyard.reports.formats import FORMATS
from runyard.spec.shown import json_text

WAIT_MOST = 60.0
MOST_DATA = 2900
"""Characters of structured content."""


class ToolAnswer(BaseModel):
    """What every tool returns: a message to read, and the same as data."""

    model_config = ConfigDict(extra="allow")
    message: str = Field(description="what happened, as text")


Structured = Annotated[CallToolResult, ToolAnswer]
Numeric = int | float | str
Ids = list[str] | str
Text = Annotated[str, Field(description="text")]
TaskId = Annotated[int | str, Field(description="id of a task, such as queue/0")]
Function = Annotated[str, Field(description=f"one of {', '.join(BUILT_IN)}, or a registered one")]
Params = Annotated[
    dict[str, Any] | str | None, Field(description='arguments of the function: {"code": "…"}')
]
PriorityName = Annotated[str | int, Field(description="low, medium, high or critical")]
Retries = Annotated[Numeric, Field(description="retries after a failure")]
Timeout = Annotated[Numeric | None, Field(description="seconds, or 30s, 5m, 2h; none: no limit")]
DependsOn = Annotated[
    Ids | None, Field(description="ids of tasks that must complete first: [queue/0]")
]


class QueueServer(MCPServer):
    """A server that answers every request, and whose errors say how to call."""

    async def run_stdio_async(self) -> None:
        """Serve stdin and stdout."""
        server = self._lowlevel_server
        with wired() as wire:
            streams = stdio_server(stdin=cast("Any", wire), stdout=cast("Any", wire))
            async with streams as (read, write):
                await server.run(read, write, server.create_initialization_options())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; missing and invalid arguments are named in the error."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong = {
                f"{each['loc'][0] if each['loc'] else 'arguments'}: {each['msg']}"
                for each in error.__cause__.errors()
            }
            text = f"{'; '.join(sorted(wrong)[:5])}; call it as {how(name)}"
            raise ToolError(messages.clipped(text)) from error.__cause__


def make_server(executor: BatchExecutor) -> MCPServer:
    """A server for one queue."""
    server = QueueServer("runyard", instructions=INSTRUCTIONS, log_level="ERROR")

    async def act(action: str, **arguments: Any) -> CallToolResult:
        try:
            return _result(await asyncio.to_thread(executor.perform, action, **arguments))
        except RunyardError as error:
            raise ToolError(messages.clipped(str(error))) from error

    _add_tools(server, act)
    _run_tools(server, act)
    _look_tools(server, act)
    _wait_tool(server, executor)
    return server


def _add_tools(server: MCPServer, act: Any) -> None:
    @server.tool(description="Add one task to the queue. It runs after start is called.")
    async def add(
        name: Annotated[str, Field(description="a short, readable name")],
        function: Function,
        params: Params = None,
        priority: PriorityName = "medium",
        max_retries: Retries = 3,
        timeout: Timeout = None,  # noqa: ASYNC109
        depends_on: DependsOn = None,
    ) -> Structured:
        return await act(  # type: ignore[no-any-return]
            "add", name=name, function=function, params=params, priority=priority,
            max_retries=max_retries, timeout=timeout, depends_on=depends_on,
        )  # fmt: skip

    @server.tool(
        description="Add many tasks at once. Each is an object like the arguments of add; "
        "depends_on may name earlier tasks of the list. Invalid tasks are refused; the others are "
        "added."
    )
    async def add_batch(
        tasks: Annotated[
            list[dict[str, Any]] | dict[str, Any] | str,
            Field(description='[{"name": "…", "function": "…", "params": {}}, …]'),
        ],
    ) -> Structured:
        return await act("add_batch", tasks=tasks)  # type: ignore[no-any-return]


def _run_tools(server: MCPServer, act: Any) -> None:
    @server.tool(description="Run the queue in the background, and return immediately.")
    async def start(
        max_concurrent: Annotated[Numeric, Field(description="how many tasks run at once")] = 5,
        timeout: Timeout = None,  # noqa: ASYNC109
        backend: Annotated[
            str | None, Field(description="processes (the default), async, threads or serial")
        ] = None,
    ) -> Structured:
        return await act(  # type: ignore[no-any-return]
            "start", max_concurrent=max_concurrent, timeout=timeout, backend=backend
        )

    @server.tool(
        description="Stop the queue. Queued tasks stay queued, and start continues with them."
    )
    async def stop(
        graceful: Annotated[
            bool | str, Field(description="false: don't wait for running tasks, requeue them")
        ] = True,
    ) -> Structured:
        return await act("stop", graceful=graceful)  # type: ignore[no-any-return]

    @server.tool(description="Cancel a task, running or not.")
    async def cancel(task_id: TaskId) -> Structured:
        return await act("cancel", task_id=task_id)  # type: ignore[no-any-return]

    @server.tool(description="Remove the tasks that have ended, with their results.")
    async def clear() -> Structured:
        return await act("clear")  # type: ignore[no-any-return]


def _look_tools(server: MCPServer, act: Any) -> None:
    @server.tool(description="Progress, counts, rates and time left; or one task in full.")
    async def status(
        detailed: Annotated[
            bool | str, Field(description="list running, upcoming and failed tasks")
        ] = False,
        task_id: Annotated[int | str | None, Field(description="show only this task")] = None,
    ) -> Structured:
        return await act("status", detailed=detailed, task_id=task_id)  # type: ignore[no-any-return]

    @server.tool(description="Results, a page at a time.")
    async def results(
        format: Annotated[str, Field(description="text or json")] = "text",  # noqa: A002
        filter_status: Annotated[
            str | None, Field(description="completed, failed, cancelled, running or queued")
        ] = None,
        offset: Annotated[Numeric, Field(description="number of results to skip")] = 0,
        limit: Annotated[Numeric, Field(description="maximum number of results")] = 20,
        order: Annotated[
            str, Field(description="added, ended (earliest end first) or latest (latest end first)")
        ] = "added",
    ) -> Structured:
        return await act(  # type: ignore[no-any-return]
            "results", format=format, filter_status=filter_status, offset=offset, limit=limit,
            order=order,
        )  # fmt: skip

    @server.tool(description="Write all results to a file in the yard's export folder.")
    async def export(
        format: Annotated[str, Field(description=", ".join(FORMATS))] = "json",  # noqa: A002
        output_file: Annotated[str | None, Field(description="a plain file name")] = None,
    ) -> Structured:
        return await act("export", format=format, output_file=output_file)  # type: ignore[no-any-return]


def _wait_tool(server: MCPServer, executor: BatchExecutor) -> None:
    @server.tool(
        description="Wait until the queue or the given tasks are done, at most 60 seconds per "
        "call, and return the status. Call it again while state is running."
    )
    async def wait(
        ctx: Context,
        seconds: Annotated[Numeric, Field(description="how long to wait, up to 60")] = 50,
        tasks: Annotated[
            Ids | None, Field(description="ids of the tasks to wait for; default: all")
        ] = None,
    ) -> Structured:
        try:
            most = min(WAIT_MOST, duration(seconds, "seconds"))
        except RunyardError as error:
            raise ToolError(messages.clipped(str(error))) from error
        response = await executor.wait(most, ctx.report_progress, tasks=tasks)
        if not response.ok:
            raise ToolError(response.message)
        return _result(response)


def _result(response: Response) -> CallToolResult:
    """A response as short text and short data."""
    data = short(response.data)
    return CallToolResult(
        content=[TextContent(type="text", text=response.message)],
        structured_content={"message": messages.clipped(response.message, 1000), **data},
    )


def short(data: dict[str, Any], most: int = MOST_DATA - 1100) -> dict[str, Any]:
    """Shorten data to fit one reply: lists lose their ends, texts their middle."""
    for items, letters in ((200, 2000), (20, 400), (12, 250), (8, 150), (3, 80), (1, 40), (0, 20)):
        found = {key: _shortened(value, items, letters) for key, value in data.items()}
        if found != data:
            found["shortened"] = True
            _count_left_out(found, data)
        if len(json.dumps(found)) <= most:
            return found
    return {"shortened": True}


def _count_left_out(found: dict[str, Any], data: dict[str, Any]) -> None:
    """Record how many entries of each list are missing, and where the next page starts."""
    left_out = dict(data.get("left_out", {}))
    for name, value in data.items():
        if isinstance(value, list) and len(value) > len(found[name]):
            left_out[name] = left_out.get(name, 0) + len(value) - len(found[name])
    if left_out:
        found["left_out"] = left_out
    if "next_offset" in data and "results" in left_out:
        found["next_offset"] = data["offset"] + len(found["results"])


def _shortened(value: Any, items: int, letters: int) -> Any:
    if isinstance(value, str):
        value = json_text(value)
        half = letters // 2
        return value if len(value) <= letters else f"{value[: half - 1]}…{value[-half:]}"
    if isinstance(value, list):
        return [_shortened(each, items, letters) for each in value[:items]]
    if isinstance(value, dict):
        kept = list(value.items())[: max(20, items)]
        return {key: _shortened(each, items, letters) for key, each in kept}
    return value

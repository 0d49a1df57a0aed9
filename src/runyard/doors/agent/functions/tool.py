"""`tool`: a call of a tool on another MCP server, one that the owner of the yard has named."""

from __future__ import annotations

from typing import Any

from runyard.doors.agent.functions.code import yard_folder
from runyard.doors.agent.inputs.arguments import BadCall, mapping, text
from runyard.doors.agent.inputs.settings import Settings, read_settings
from runyard.errors import CommandFailed, UsageError
from runyard.events import Redactor


def check(settings: Settings, params: dict[str, Any]) -> None:
    """Refuse a server that the settings don't name."""
    server = text(params.get("server"), "server")
    if server not in settings.servers:
        known = ", ".join(settings.servers) or "none (see agent.toml)"
        raise BadCall(f"unknown server {server[:60]!r}", hint=f"known servers: {known}")


async def tool(server: str, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """Start the server, call its tool, and return the result."""
    settings = read_settings(yard_folder())
    check(settings, {"server": server})
    try:
        from mcp import Client, StdioServerParameters
    except ImportError as error:
        raise UsageError(
            "the package mcp is missing", hint="pip install 'runyard[agent]'"
        ) from error
    found = settings.servers[server]
    process = StdioServerParameters(command=found.command, args=found.args, env=found.env or None)
    async with Client(process) as client:
        result = await client.call_tool(text(name, "name"), mapping(arguments or {}, "arguments"))
    said = "\n".join(block.text for block in result.content if block.type == "text")
    if result.is_error:
        raise CommandFailed(f"{server}/{name}: {said or 'it failed'}")
    clean = Redactor().redact
    return {"text": clean(said), "structured": clean(result.structured_content)}

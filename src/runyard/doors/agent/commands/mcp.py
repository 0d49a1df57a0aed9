"""`runyard mcp`: the queue, served to an agent."""

from __future__ import annotations

from runyard import interrupts
from runyard.cli.command import command
from runyard.cli.session import Session
from runyard.doors.agent.commands.queue import opened, queue_option
from runyard.errors import UsageError


@command("runyard mcp", "runyard mcp --yard ~/agent/.runyard")
@queue_option
def mcp(session: Session, name_of_queue: str) -> None:
    """Serve the queue to an agent over MCP, on stdin and stdout.

    The actions of `runyard queue` are tools, and so is `wait`.
    """
    try:
        from runyard.doors.agent.server.tools import make_server
    except ImportError as error:
        raise UsageError(
            f"the MCP server needs a package that is not installed ({error.name})",
            hint="pip install 'runyard[agent]'",
        ) from error

    with opened(session, name_of_queue, create=True) as executor, interrupts.by_asyncio():
        make_server(executor).run("stdio")

"""`runyard mcp`."""

from __future__ import annotations

import click

from runyard import interrupts
from runyard.cli.session import Session, examples, shared
from runyard.errors import UsageError


@click.command(epilog=examples("runyard mcp", "runyard mcp --yard ~/agent/.runyard"))
@click.option("--queue", default="queue", show_default=True, help="Name of the queue.")
@shared
def mcp(session: Session, queue: str) -> int:
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
    from runyard.doors.agent.executor import BatchExecutor

    with (
        session.yard(create=True) as yard,
        BatchExecutor(yard, queue=queue) as executor,
        interrupts.by_asyncio(),
    ):
        make_server(executor).run("stdio")
    return 0

"""`runyard workbench fork`."""

from __future__ import annotations

import json
from typing import Any

import click

from runyard.cli.command import command, option
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.session import Session
from runyard.cli.values import assignments
from runyard.doors.workbench.commands.show import describe
from runyard.errors import UsageError


@command(
    "runyard workbench fork qa-1f2e3d4c/3 --at 2 --variant answer=graph.py:terse",
    "runyard workbench fork qa-1f2e3d4c/3 --at 2 --state '{\"docs\": []}'",
)
@click.argument("cell")
@option("--at", type=int, required=True, help="Begin at this checkpoint, as `show` numbers them.")
@option(
    "--variant",
    metavar="NODE=MODULE:NAME",
    multiple=True,
    help="Use another implementation of a node; repeatable.",
)
@option("--state", metavar="JSON", help="Set these values of the state first.")
def fork(session: Session, cell: str, at: int, variant: tuple[str, ...], state: str | None) -> int:
    """Run a cell again from one of its checkpoints, in a thread of its own."""
    from runyard.doors.workbench.bench.recorded import is_by_name, recorded_cell
    from runyard.doors.workbench.bench.workbench import Workbench

    nodes = assignments(variant, "--variant")
    with session.yard() as yard:
        bench = Workbench(yard=yard)
        found = recorded_cell(yard, cell)
        if not is_by_name(found):
            raise UsageError(
                f"the graph of {cell} can't be found by name",
                hint="fork it in the script that ran it, or name the graph module:function there",
            )
        forked = bench.fork(found, at, variant=nodes or None, state=_state(state))
        lines, document = describe(forked)
    session.answer("\n".join(lines), document)
    return EXIT_FAILED if forked.status == "failed" else 0


def _state(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--state is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("--state is not a JSON object", hint="write '{\"key\": value}'")
    return found

"""The question before recorded outcomes are deleted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from runyard.cli.session import Session, painted
from runyard.errors import NotFound, UsageError
from runyard.format import count

Function = TypeVar("Function", bound=Callable[..., Any])


def fresh_options(function: Function) -> Function:
    """Give a command --fresh and --yes."""
    function = click.option("--yes", is_flag=True, help="Don't ask before --fresh deletes.")(
        function
    )
    return click.option(
        "--fresh", is_flag=True, help="Delete the recorded outcomes and start over."
    )(function)


def may_forget(session: Session, name: str, *, yes: bool) -> bool:
    """Whether --fresh may delete a batch's recorded outcomes, if there are any."""
    if yes or not session.has_yard():
        return True
    with session.yard() as yard:
        try:
            done = yard.results(name).stats.done
        except NotFound:
            return True
    return not done or agreed(session, f"--fresh would delete {count(done, 'outcome')} of {name}")


def agreed(session: Session, loss: str) -> bool:
    """Whether the user agrees to a loss; without a terminal, --yes is needed."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"{loss}, and there is no terminal to confirm on", hint="pass --yes to delete"
        )
    if click.confirm(painted(f"{loss} permanently. Continue?"), err=True):
        return True
    session.note("nothing was deleted")
    return False

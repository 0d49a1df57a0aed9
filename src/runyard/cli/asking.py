"""The question before recorded outcomes are forgotten."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from runyard.cli.session import Session, painted
from runyard.errors import NotFound, UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


def fresh_options(function: Function) -> Function:
    """Give a command --fresh and --yes."""
    function = click.option("--yes", is_flag=True, help="Don't ask before --fresh forgets.")(
        function
    )
    return click.option("--fresh", is_flag=True, help="Forget what is recorded and start over.")(
        function
    )


def may_forget(session: Session, name: str, *, yes: bool) -> bool:
    """Whether --fresh may forget what is recorded of a batch, if anything is."""
    if yes or not session.has_yard():
        return True
    with session.yard() as yard:
        try:
            done = yard.results(name).stats.done
        except NotFound:
            return True
    outcomes = "1 outcome" if done == 1 else f"{done:,} outcomes"
    return not done or agreed(session, f"--fresh would forget {outcomes} of {name}")


def agreed(session: Session, loss: str) -> bool:
    """Whether the person at the terminal agrees to a loss; without a terminal it takes --yes."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"{loss}, and there is no terminal to ask on", hint="pass --yes to go ahead"
        )
    if click.confirm(painted(f"{loss}, for good. Go ahead?"), err=True):
        return True
    session.note("nothing was removed")
    return False

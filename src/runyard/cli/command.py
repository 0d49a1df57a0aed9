"""How commands and their options are declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from runyard.addresses import DEFAULT_YARD, check
from runyard.cli.session import Session
from runyard.errors import UsageError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

INDEX, COUNT = click.IntRange(0), click.IntRange(1)
AMOUNT = click.FloatRange(0, min_open=True)

_with_session = click.make_pass_decorator(Session, ensure=True)


def command(
    *examples: str, name: str | None = None, group: click.Group | None = None
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a command of a function: it gets the session first; --yard and --json set that up.

    The function returns the exit code; None stands for 0.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        make = click.command if group is None else group.command
        made = make(name, epilog=examples_of(*examples))(_with_session(function))
        made.params += _SHARED
        return made

    return decorate


def examples_of(*lines: str) -> str:
    """The examples at the end of a command's help."""
    return "\n  ".join(["\b\nExamples:", *lines])


def option(*names: str, **settings: Any) -> Decorator:
    """An option. Numbers are called N or X, and a default is shown unless it is a flag's."""
    if isinstance(settings.get("type"), click.IntRange | click.FloatRange):
        is_whole = isinstance(settings["type"], click.IntRange)
        settings["type"].name = "whole number" if is_whole else "number"  # for click's errors
        settings.setdefault("metavar", "N" if is_whole else "X")
    settings.setdefault("show_default", not isinstance(settings.get("default"), bool | None))
    return click.option(*names, **settings)


def options(*decorators: Decorator) -> Decorator:
    """Several options as one decorator."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def refuse_together(given: Mapping[str, object]) -> None:
    """Raise if more than one of these options is given."""
    names = [name for name, value in given.items() if value]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} can't be combined", hint="remove one of them")


def _set_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Session).use_json()


def _set_location(context: click.Context, _parameter: click.Parameter, value: str) -> None:
    check(value)
    context.ensure_object(Session).location = value


_SHARED = [
    click.Option(
        ["--yard", "location"],
        metavar="PATH|URL",
        envvar="RUNYARD_YARD",
        default=DEFAULT_YARD,
        show_default=True,
        show_envvar=True,
        expose_value=False,
        callback=_set_location,
        help="Use the yard at this location.",
    ),
    click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_json,
        help="Print JSON on stdout, everything else on stderr.",
    ),
]

seed_option = option(
    "--seed", type=INDEX, help="Set the root seed.  [default: chosen and recorded]"
)
yes_option = option("--yes", is_flag=True, help="Don't ask for confirmation.")
level_option = option(
    "--level",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    help="Set the confidence level of intervals.",
)
codec_option = option(
    "--codec",
    type=click.Choice(["msgpack", "pickle"]),
    default="msgpack",
    show_default=False,
    help="Read pickled values with `pickle`, only from a store that you trust.",
)
status_option = option(
    "--status",
    type=click.Choice(["completed", "failed", "cancelled"]),
    help="Include only outcomes with this status.",
)

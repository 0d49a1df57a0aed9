"""Flags of the command line that follow from the declarations in `spec/options`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from runyard.spec.option_kinds import ValueKind
from runyard.spec.options import SPECS, OptionSpec

Function = TypeVar("Function", bound=Callable[..., Any])

RUN_FLAGS = tuple(spec.name for spec in SPECS.values() if spec.flags)
"""The options that `run` takes."""

RESUME_FLAGS = tuple(spec.name for spec in SPECS.values() if spec.resume)
"""The options that `resume` can change."""


def option_flags(names: Iterable[str], *, defaults: bool = True) -> Callable[[Function], Function]:
    """Give a command the flags of these options; without `defaults`, they change recorded ones."""
    flags = [_flag(SPECS[name], defaults) for name in names]

    def decorate(function: Function) -> Function:
        for flag in reversed(flags):
            function = flag(function)
        return function

    return decorate


def _flag(spec: OptionSpec, defaults: bool) -> Callable[[Function], Function]:
    kind, settings = spec.kind, dict[str, Any](default=None)
    if kind.form == "switch":
        settings["is_flag"] = True
    elif kind.form in ("amounts", "names"):
        settings["multiple"] = True
    return click.option(
        *spec.flags,
        spec.name,
        type=_type(kind),
        metavar=kind.metavar if not kind.choices else None,
        help=spec.help + (_default(spec) if defaults else ""),
        callback=_READERS.get(kind.form),
        **settings,
    )


def _type(kind: ValueKind) -> click.ParamType[Any] | None:
    if kind.form == "choice":
        return click.Choice(kind.choices)
    if kind.form == "integer":
        return click.IntRange(None if kind.least is None else int(kind.least))
    if kind.form == "number":
        return click.FloatRange(kind.least)
    return None


def _default(spec: OptionSpec) -> str:
    """The default, where it is a choice that a user may want to know."""
    if spec.kind.form == "switch":
        return "  [default: yes]" if spec.default else ""
    if spec.kind.form != "choice":
        return ""
    default = spec.default
    return f"  [default: {default if isinstance(default, str) else spec.kind.choices[default]}]"


def _read_amounts(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    given: tuple[str, ...],
) -> dict[str, float] | str | None:
    if "none" in given:
        return "none"
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter(f"{text!r} is not NAME=NUMBER, as in tasks=1000 or cost=2.5")
    return found or None


def _read_document(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    given: str | None,
) -> dict[str, Any] | None:
    """A JSON object, or the one in a file."""
    from runyard.spaces import read_text

    if given is None:
        return None
    try:
        text = given if given.lstrip().startswith("{") else read_text(Path(given))
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{given!r} is neither JSON nor a JSON file: {error}") from None
    if not isinstance(found, dict):
        raise click.BadParameter('write an object, as in {"env_vars": {"MODE": "fast"}}')
    return found


_READERS: dict[str, Callable[..., Any]] = {"amounts": _read_amounts, "document": _read_document}

"""Flags that follow from the declarations in `spec/options`, and those of every run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import click

from runyard.backends import NAMES as BACKENDS
from runyard.cli.command import COUNT, Decorator, option, options
from runyard.cli.running import IN_WORKERS
from runyard.cli.session import Session
from runyard.spec.hash_seed import workers_seed
from runyard.spec.option_kinds import ValueKind
from runyard.spec.options import SPECS, OptionSpec

RUN_FLAGS = tuple(spec.name for spec in SPECS.values() if spec.flags)
"""The options that `run` takes."""

RESUME_FLAGS = tuple(spec.name for spec in SPECS.values() if spec.resume)
"""The options that `resume` can change."""


def option_flags(names: Iterable[str], *, defaults: bool = True) -> Decorator:
    """Give a command the flags of these options; without `defaults`, they change recorded ones."""
    return options(*(_flag(SPECS[name], defaults) for name in names))


def _flag(spec: OptionSpec, defaults: bool) -> Decorator:
    kind = spec.kind
    return option(
        *spec.flags,
        spec.name,
        type=_type(kind),
        metavar=kind.metavar if not kind.choices else None,
        help=spec.help + (_default(spec) if defaults else ""),
        callback=_READERS.get(kind.form),
        default=None,
        is_flag=True if kind.form == "switch" else None,
        multiple=kind.form in ("amounts", "names"),
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
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
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
    _context: click.Context, _parameter: click.Parameter, given: str | None
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


def _set_durable(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    context.ensure_object(Session).durable = value


def _pin_hash_seed(context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Make tasks that run in this process hash strings as workers do."""
    if value not in IN_WORKERS:
        context.ensure_object(Session).pin_hash_seed(workers_seed())
    return value


workers_option = option("--workers", type=COUNT, help="Run N tasks at once.  [default: all cores]")
progress_option = option(
    "--progress/--no-progress", default=True, help="Show progress on stderr.  [default: yes]"
)
fresh_options = options(
    option("--fresh", is_flag=True, help="Delete the recorded outcomes and start over."),
    option("--yes", is_flag=True, help="Don't ask before --fresh deletes."),
)
_more_place_options = (
    workers_option,
    option(
        "--ray-address",
        metavar="HOST:PORT",
        help="Join this Ray cluster.  [default: $RAY_ADDRESS, else start a local one]",
    ),
    option(
        "--fallback",
        type=click.Choice(["serial"]),
        help="Use this backend if Ray is not installed or can't start.",
    ),
    progress_option,
    option(
        "--durable",
        is_flag=True,
        expose_value=False,
        callback=_set_durable,
        help="Wait for the disk at each commit, so that a power cut loses nothing.",
    ),
)
_backend = partial(
    option,
    "--backend",
    type=click.Choice(BACKENDS),
    default="processes",
    help="Run tasks on this backend.",
)
place_options = options(_backend(callback=_pin_hash_seed), *_more_place_options)
"""Where to run, and how the run is shown."""

place_options_of_recorded = options(_backend(), *_more_place_options)
"""The same for a command that continues batches, `hashing_as_recorded`."""

"""How the values of options are written: one reader each for Python, batch files and flags.

A reader turns what people write into what an option holds, and raises BadSpec for anything else.
"""

from __future__ import annotations

import builtins
import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from runyard import errors
from runyard.errors import BadSpec, NotEncodable
from runyard.spec import units
from runyard.spec.codec import encode
from runyard.spec.names import closest, did_you_mean
from runyard.spec.status import Priority

TASKS = "tasks"
TIMES = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
UNITS = (TASKS, *TIMES)
"""What a budget can limit; any other word names a metric, whose sum it limits."""

FlagForm = Literal["switch", "choice", "integer", "number", "text", "names", "amounts", "document"]

_LARGEST = (1 << 63) - 1
_LEAST_MEMORY = 1_000_000


class ValueKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of values."""

    form: FlagForm  # decides how a flag looks
    read: Callable[[Any], Any]
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None


def integer(least: int) -> ValueKind:
    """Whole numbers from `least` up."""

    def read(given: Any) -> int:
        hint = f"use a whole number, at least {least}"
        try:
            number = None if isinstance(given, bool) else operator.index(given)
        except TypeError:
            number = None
        if number is None:
            raise BadSpec(f"{given!r} is not a whole number", hint=hint)
        if not least <= number <= _LARGEST:
            hint = hint if number < least else f"use at most {_LARGEST:,}"
            raise BadSpec(f"{given!r} is out of range", hint=hint)
        return number

    return ValueKind(form="integer", read=read, metavar="N", least=least)


def number(least: float) -> ValueKind:
    """Finite numbers from `least` up."""

    def read(given: Any) -> float:
        hint = f"use a number, at least {least:g}"
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise BadSpec(f"{given!r} is not a number", hint=hint)
        if not least <= given < math.inf:
            raise BadSpec(f"{given!r} is out of range", hint=hint)
        return float(given)

    return ValueKind(form="number", read=read, metavar="N", least=least)


def choice(*choices: str) -> ValueKind:
    """One of several words."""

    def read(given: Any) -> str:
        if given not in choices:
            raise BadSpec(f"{given!r} is not a choice", hint=f"use one of: {', '.join(choices)}")
        return str(given)

    return ValueKind(form="choice", read=read, choices=choices)


def text(metavar: str) -> ValueKind:
    """Text that is not empty."""

    def read(given: Any) -> str:
        if not isinstance(given, str) or not given.strip():
            problem = "is empty" if isinstance(given, str) else "is not text"
            raise BadSpec(f"{given!r} {problem}", hint="use text that is not empty")
        return given

    return ValueKind(form="text", read=read, metavar=metavar)


def amounts(example: dict[str, float], names: str, check: Callable[[str], None]) -> ValueKind:
    """Names with a number above zero each."""

    def read(given: Any) -> dict[str, float]:
        if not isinstance(given, Mapping):
            raise BadSpec(
                f"{given!r} is not a table of names and numbers",
                hint=f"write it as {json.dumps(example)}",
            )
        for name, most in given.items():
            if not isinstance(name, str) or not name:
                raise BadSpec(f"{name!r} is not a name", hint=f"names are {names}")
            check(name)
            if type(most) not in (int, float) or not 0 < most < math.inf:
                raise BadSpec(f"{name} is {most!r}", hint="use a number above zero")
        return {name: float(most) for name, most in given.items()}

    return ValueKind(form="amounts", read=read, metavar="K=N")


def _switch(given: Any) -> bool:
    if not isinstance(given, bool):
        raise BadSpec(f"{given!r} is neither true nor false", hint="use true or false")
    return given


def _wait(given: Any) -> float:
    return units.seconds(given) if isinstance(given, str) else float(number(0).read(given))


def _memory(given: Any) -> int:
    found = units.size(given)
    if found < _LEAST_MEMORY:
        raise BadSpec(
            f"{given!r} is too small for any task: a number without a unit means bytes",
            hint="use at least 1MB, such as 512MB or 2GiB",
        )
    return found


def _error_classes(given: Any) -> tuple[str, ...]:
    return tuple(map(_error_class, given if isinstance(given, list | tuple) else (given,)))


def _error_class(given: Any) -> str:
    if isinstance(given, type) and issubclass(given, BaseException):
        return given.__name__
    if not isinstance(given, str) or not given.isidentifier():
        raise BadSpec(
            f"{given!r} is not an error class",
            hint="use classes such as OSError, or their names without a module",
        )
    return given


def check_error_classes(names: Iterable[str]) -> None:
    """Refuse misspelt names of Python's and Runyard's errors, unless a loaded class is named so.

    Any other name may be that of a class which is imported when a task needs it.
    """
    usual = _usual_errors()
    for name in set(names).difference(usual.values()):
        meant = closest(name.lower(), usual, cutoff=0.9)
        if meant is not None and name not in _names_below(BaseException):
            raise BadSpec(
                f"there is no error class {name!r}; did you mean {usual[meant]!r}?",
                hint="use a class such as OSError, or its name",
            )


@cache
def _usual_errors() -> dict[str, str]:
    """The names of Python's and Runyard's errors, by what they are in lower case."""
    return {
        name.lower(): name
        for module in (builtins, errors)
        for name, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, BaseException)
    }


def _names_below(base: type) -> set[str]:
    """The names of all loaded classes derived from this one."""
    below: list[type] = type.__subclasses__(base)
    return {each.__name__ for each in below}.union(*map(_names_below, below))


def _document(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise BadSpec(
            f"{given!r} is not a table", hint='write it as {"env_vars": {"MODE": "fast"}}'
        )
    try:
        encode(dict(given))
    except NotEncodable as error:
        raise BadSpec(error.message, hint=error.hint) from None
    return dict(given)


def _check_budget(name: str) -> None:
    if name in UNITS:
        return
    unit = _SHORT_UNITS.get(name.lower()) or closest(name.lower(), UNITS, cutoff=0.85)
    if unit is not None:
        raise BadSpec(
            f"{name!r} is not a unit; did you mean {unit!r}?",
            hint=f"the units are {', '.join(UNITS)}; any other name is a metric, which must "
            "not look like one of them",
        )


_SHORT_UNITS = {"mins": "minutes", "secs": "seconds", "hrs": "hours"}


def _check_resource(name: str) -> None:
    option = _OPTION_OF.get(name)
    if option is not None:
        raise BadSpec(f"{name} has its own option", hint=f"use {option}")


_OPTION_OF = {"CPU": "cpus", "GPU": "gpus", "memory": "memory"}

SWITCH = ValueKind(form="switch", read=_switch)
DURATION = ValueKind(form="text", read=units.seconds, metavar="TIME")
WAIT = ValueKind(form="text", read=_wait, metavar="TIME")
"""A duration that may be zero."""
MEMORY = ValueKind(form="text", read=_memory, metavar="SIZE")
PRIORITY = ValueKind(
    form="choice",
    read=lambda given: int(Priority.parse(given)),
    choices=tuple(each.name.lower() for each in Priority),
)
ERROR_CLASSES = ValueKind(form="names", read=_error_classes)
DOCUMENT = ValueKind(form="document", read=_document, metavar="JSON|FILE")
BUDGET = amounts({"tasks": 1000, "cost": 2.5}, f"{', '.join(UNITS)}, or a metric", _check_budget)
RESOURCES = amounts({"licence": 1}, "those the machine was started with", _check_resource)


def unknown_option(name: str, known: Mapping[str, Any]) -> BadSpec:
    """The error for an option that does not exist."""
    return BadSpec(
        f"there is no option {name!r}{did_you_mean(name, known)}",
        hint=f"the options are: {', '.join(known)}",
    )

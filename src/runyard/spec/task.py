"""A task: what to call, with which parameters and limits. Frozen data, no I/O."""

from __future__ import annotations

import inspect
import string
import sys
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

import msgspec

from runyard.errors import BadSpec, BadTarget
from runyard.spec.byvalue import is_imported
from runyard.spec.commands import misplaced
from runyard.spec.names import did_you_mean
from runyard.spec.options import Options

Function = TypeVar("Function", bound=Callable[..., Any])

CONTEXT = "ctx"
"""A parameter of this name receives the task's `Context`."""

FILE_MODULE = "runyard_file_"
"""Prefix of the names of modules that were loaded from a file by its path."""


class Target(msgspec.Struct, frozen=True):
    """What a task calls."""

    kind: Literal["import", "file", "value", "shell"]
    ref: str  # module:name · path/file.py:name · qualified name · command template

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `module:function` or `path/file.py:function`."""
        place, colon, name = text.rpartition(":")
        if not colon or not place or not all(part.isidentifier() for part in name.split(".")):
            raise BadTarget(
                f"{text!r} does not name a function",
                hint="write module:function, path/file.py:function, or use --shell 'command'",
            )
        if place.endswith(".py"):
            return cls("file", text)
        if not all(part.isidentifier() for part in place.split(".")):
            raise BadTarget(
                f"{place!r} is neither a module name nor a .py file",
                hint="write module:function or path/file.py:function",
            )
        return cls("import", text)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Target:
        """How a worker gets this function: by import where possible, by value otherwise."""
        if not callable(function):
            raise BadTarget(f"{function!r} can't be called", hint="pass a function")
        name = getattr(function, "__qualname__", type(function).__qualname__)
        if not is_imported(function):
            return cls("value", name)
        module = function.__module__
        if module.startswith(FILE_MODULE):
            return cls("file", f"{sys.modules[module].__file__}:{name}")
        return cls("import", f"{module}:{name}")

    @property
    def label(self) -> str:
        """A short name for display and for default batch names."""
        if self.kind == "shell":
            return self.ref.split(maxsplit=1)[0] if self.ref.split() else "shell"
        return self.ref.rpartition(":")[2].rpartition(".")[2]


class Task(msgspec.Struct, frozen=True):
    """One task of a list, with its own settings."""

    call: Target | Callable[..., Any] | str
    params: dict[str, Any] = {}
    name: str | None = None  # what `after` of other tasks refers to
    after: tuple[str, ...] = ()  # names of tasks that must complete first
    priority: str | int | None = None  # None: the batch's
    timeout: str | float | None = None  # None: the batch's
    retries: int | None = None  # None: the batch's


def shell(command: str) -> Target:
    """A shell command as a task; `{x}` stands for the parameter x, quoted."""
    if not command.strip():
        raise BadTarget("the shell command is empty", hint="pass a command, such as 'echo {x}'")
    if "\0" in command:
        raise BadTarget("the shell command contains NUL", hint="no command can contain it")
    own = "for a literal brace, write {{ or }}"
    try:
        fields = [each for each in string.Formatter().parse(command) if each[1] is not None]
    except ValueError as error:
        raise BadTarget(f"the command has unbalanced braces: {error}", hint=own) from None
    for _, name, form, conversion in fields:
        if not name:
            raise BadTarget(
                "{} in the command lacks a parameter's name",
                hint=f"write {{x}} for the parameter x; {own}",
            )
        if form or conversion or set(name) & set(".["):
            raise BadTarget(
                f"the braces around {name!r} must contain only a parameter's name",
                hint=f"write {{x}} for the parameter x, without a format; {own}",
            )
    problem = misplaced(command)
    if problem:
        raise BadTarget(
            f"{problem} in the command",
            hint="write it as a separate word, without quotes: values are quoted when they are "
            "filled in",
        )
    return Target("shell", command)


@overload
def task(function: Function, /) -> Function: ...
@overload
def task(**options: Any) -> Callable[[Function], Function]: ...
def task(function: Any = None, /, **options: Any) -> Any:
    """Mark a function as a task with default options: `@task(retries=3, timeout="30s")`.

    The function stays an ordinary function; its batches start from these options.
    """
    settled = Options().with_(**options)

    def mark(fn: Function) -> Function:
        changed = {k: getattr(settled, k) for k in options}
        fn.__runyard__ = changed  # type: ignore[attr-defined]
        name = getattr(fn, "__qualname__", "<unnamed>")
        if fn.__module__ != "__main__" and "<" not in name:
            _marked[f"{fn.__module__}:{name}"] = fn
        return fn

    return mark if function is None else mark(function)


_marked: dict[str, Callable[..., Any]] = {}


def marked() -> Mapping[str, Callable[..., Any]]:
    """The functions that this process has marked with `@task`, by `module:function`.

    Only those that a worker can import: none of the main module, none inside another function.
    """
    return MappingProxyType(_marked)


def defaults_of(function: Callable[..., Any] | None) -> dict[str, Any]:
    """The options that a decorator gave a function."""
    return dict(getattr(function, "__runyard__", {}))


def check_parameters(function: Callable[..., Any], names: Mapping[str, Any] | set[str]) -> None:
    """Refuse parameters that the function does not take, or that are missing."""
    signature = _signature(function)
    if signature is None:
        return
    accepts, required = set(), set()
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            accepts |= set(names)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise BadTarget(
                f"{_name(function)}() takes {parameter.name!r} by position only",
                hint="tasks get their parameters as keywords; wrap it in another function",
            )
        elif parameter.kind is not parameter.VAR_POSITIONAL and parameter.name != CONTEXT:
            accepts.add(parameter.name)
            if parameter.default is parameter.empty:
                required.add(parameter.name)
    given = set(names)
    known = ", ".join(sorted(accepts)) or "none"
    if given - accepts:
        raise BadSpec(
            f"{_name(function)}() has no parameter {min(given - accepts)!r}"
            f"{did_you_mean(min(given - accepts), accepts)}",
            hint=f"its parameters: {known}",
        )
    if required - given:
        raise BadSpec(
            f"{_name(function)}() needs the parameter {min(required - given)!r}",
            hint=f"pass a value or a list of values for it; its parameters: {known}",
        )


def wants_context(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter for its `Context`."""
    signature = _signature(function)
    return signature is not None and CONTEXT in signature.parameters


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    read = _known_signature if isinstance(function, Hashable) else inspect.signature
    try:
        return read(function)
    except (TypeError, ValueError):
        return None


_known_signature = lru_cache(maxsize=16)(inspect.signature)  # of tasks, most call the same function


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))

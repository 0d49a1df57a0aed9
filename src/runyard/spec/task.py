"""A task: what to call, with which parameters, under which limits. Frozen data, no I/O."""

from __future__ import annotations

import inspect
import json
import math
import string
import sys
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

import msgspec

from runyard.errors import BadSpec, BadTarget
from runyard.spec import units
from runyard.spec.commands import misplaced
from runyard.spec.status import Priority

Keep = Literal["always", "failed", "never"]
Changed = Literal["keep", "rerun", "refuse"]
Function = TypeVar("Function", bound=Callable[..., Any])

CONTEXT = "ctx"
"""A parameter of this name receives the task's `Context`."""


TASKS = "tasks"
TIMES = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
UNITS = (TASKS, *TIMES)
"""What a budget can be for; every other word names a metric, of which it limits the sum."""


FILE_MODULE = "runyard_file_"
"""How the names of modules begin that were loaded from a file by its path."""


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
                f"{text!r} names no function",
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
        """How a worker gets at this function: by import where possible, by value otherwise."""
        if not callable(function):
            raise BadTarget(f"{function!r} can't be called", hint="give a function")
        module = getattr(function, "__module__", None)
        name = getattr(function, "__qualname__", type(function).__qualname__)
        if module and module != "__main__" and _is_attribute(module, name, function):
            if module.startswith(FILE_MODULE):
                return cls("file", f"{sys.modules[module].__file__}:{name}")
            return cls("import", f"{module}:{name}")
        return cls("value", name)

    @property
    def label(self) -> str:
        """A short name for people and default batch names."""
        if self.kind == "shell":
            return self.ref.split(maxsplit=1)[0] if self.ref.split() else "shell"
        return self.ref.rpartition(":")[2].rpartition(".")[2]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a batch is run: limits, retries, files. Not part of what makes a batch that batch."""

    retries: int = 0  # errors of its own that a task may survive
    backoff: float = 0.1  # seconds before the first retry
    backoff_factor: float = 2.0  # each further retry waits so many times longer
    backoff_max: float = 60.0  # and never longer than this
    retry_on: tuple[str, ...] = ()  # error classes worth a retry; none named: all
    never_retry: tuple[str, ...] = ()  # error classes that are final
    crash_attempts: int = 3  # worker deaths that a task may cause
    timeout: float | None = None  # seconds for one attempt
    memory: int | None = None  # bytes for one attempt's process
    deadline: float | None = None  # seconds for the whole run
    priority: int = Priority.MEDIUM
    fail_fast: bool = False  # stop at the first failure
    capture: bool = True  # keep what tasks print
    keep: Keep = "always"  # which workspaces stay
    template: str | None = None  # a folder that each workspace starts as a copy of
    chdir: bool = False  # run inside the workspace (processes only)
    audit_tasks: bool = False  # an event log of its own for each task
    recycle: int | None = None  # a fresh worker process after so many tasks
    budget: dict[str, float] = {}  # what all tasks may use: tasks, a time, or a metric's sum
    metric: str | None = None  # the one whose mean progress shows
    until: str | None = None  # replicates are added until this holds
    changed: Changed = "keep"  # what becomes of outcomes whose code has changed since
    cpus: float | None = None  # cores that one task needs (ray)
    gpus: float | None = None  # GPUs that one task needs (ray)
    resources: dict[str, float] = {}  # what else one task needs of its machine, by name (ray)
    runtime_env: dict[str, Any] = {}  # what Ray prepares on a machine before tasks run there

    def __post_init__(self) -> None:
        limits = {
            "retries": 0,
            "crash_attempts": 1,
            "recycle": 1,
            "backoff": 0,
            "backoff_factor": 1,
            "cpus": 0,
            "gpus": 0,
        }
        for name, least in limits.items():
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise BadSpec(f"{name} is {value!r}", hint=f"use a number from {least} up")

    @property
    def places(self) -> list[str]:
        """The options given that ask for a machine of some kind."""
        names = ("cpus", "gpus", "resources", "runtime_env")
        return [name for name in names if getattr(self, name) not in (None, {})]

    @property
    def reads_values(self) -> bool:
        """Whether an engine looks at what tasks return."""
        return self.metric is not None or bool(self.budget.keys() - set(UNITS))

    def with_(self, **changes: Any) -> Options:
        """A copy with changes, as people write them: `timeout="30s"`, `priority="high"`."""
        given = {k: v for k, v in changes.items() if v is not None}
        unknown = given.keys() - set(self.__struct_fields__)
        if unknown:
            raise BadSpec(
                f"no option {min(unknown)!r}",
                hint=f"the options are: {', '.join(self.__struct_fields__)}",
            )
        readers: dict[str, Callable[[Any], float]] = dict.fromkeys(
            ("timeout", "deadline", "backoff_max"), units.seconds
        )
        readers["memory"] = units.size
        if isinstance(given.get("backoff"), str):
            readers["backoff"] = units.seconds
        for name in readers.keys() & given.keys():
            try:
                given[name] = readers[name](given[name])
            except BadSpec as error:
                raise BadSpec(f"{name}: {error.message}", hint=error.hint) from None
        for name in _READERS.keys() & given.keys():
            given[name] = _READERS[name](given[name])
        try:
            return msgspec.convert(msgspec.structs.asdict(self) | given, Options)
        except msgspec.ValidationError as error:
            message, _, place = str(error).partition(" - at ")
            name = place.strip("`").removeprefix("$.")
            raise BadSpec(f"{name} is {given.get(name)!r}", hint=message) from None


class Task(msgspec.Struct, frozen=True):
    """One task of a listed batch, with settings of its own."""

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
        raise BadTarget("the shell command is empty", hint="give a command, such as 'echo {x}'")
    own = "for a brace that the shell is to see, write {{ or }}"
    try:
        fields = [each for each in string.Formatter().parse(command) if each[1] is not None]
    except ValueError as error:
        raise BadTarget(f"the braces of the command don't match: {error}", hint=own) from None
    for _, name, form, conversion in fields:
        if not name:
            raise BadTarget(
                "{} in the command names no parameter",
                hint=f"write {{x}} for the parameter x; {own}",
            )
        if form or conversion or set(name) & set(".["):
            raise BadTarget(
                f"the command asks for more of {name!r} than its value",
                hint=f"write {{x}} for the parameter x, and nothing else in the braces; {own}",
            )
    problem = misplaced(command)
    if problem:
        raise BadTarget(
            f"{problem} in the command",
            hint="write it as a word of its own, without quotes: values are quoted when they are "
            "filled in",
        )
    return Target("shell", command)


@overload
def task(function: Function, /) -> Function: ...
@overload
def task(**options: Any) -> Callable[[Function], Function]: ...
def task(function: Any = None, /, **options: Any) -> Any:
    """Mark a function as a task, with defaults of its own: `@task(retries=3, timeout="30s")`.

    The function stays an ordinary function; batches of it start from these options.
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

    Only those that a worker can import: none of the main module, and none inside another function.
    """
    return MappingProxyType(_marked)


def defaults_of(function: Callable[..., Any] | None) -> dict[str, Any]:
    """The options that a decorated function brings along."""
    return dict(getattr(function, "__runyard__", {}))


def check_parameters(function: Callable[..., Any], names: Mapping[str, Any] | set[str]) -> None:
    """Refuse parameters that the function does not take, and name those that are missing."""
    try:
        signature = _signature(function)
    except (TypeError, ValueError):
        return
    accepts, required = set(), set()
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            accepts |= set(names)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise BadTarget(
                f"{_name(function)}() takes {parameter.name!r} by position only",
                hint="tasks get their parameters as keywords; wrap it in a function of your own",
            )
        elif parameter.kind is not parameter.VAR_POSITIONAL and parameter.name != CONTEXT:
            accepts.add(parameter.name)
            if parameter.default is parameter.empty:
                required.add(parameter.name)
    given = set(names)
    known = ", ".join(sorted(accepts)) or "none"
    if given - accepts:
        raise BadSpec(
            f"{_name(function)}() has no parameter {min(given - accepts)!r}",
            hint=f"its parameters: {known}",
        )
    if required - given:
        raise BadSpec(
            f"{_name(function)}() needs the parameter {min(required - given)!r}",
            hint=f"give it a value or a list of values; its parameters: {known}",
        )


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return (_known_signature if isinstance(function, Hashable) else inspect.signature)(function)


_known_signature = lru_cache(maxsize=16)(inspect.signature)  # of tasks, most call the same function


def wants_context(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter for its `Context`."""
    try:
        return CONTEXT in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _class_names(option: str, classes: Any) -> tuple[str, ...]:
    many = classes if isinstance(classes, list | tuple) else (classes,)
    for each in many:
        if not (
            isinstance(each, str) or (isinstance(each, type) and issubclass(each, BaseException))
        ):
            raise BadSpec(f"{option} has {each!r}, which is no error class", hint="such as OSError")
    return tuple(each if isinstance(each, str) else each.__name__ for each in many)


def _is_attribute(module: str, qualname: str, function: Any) -> bool:
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found is function


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _budget(given: Any) -> dict[str, float]:
    """A budget as people write it: `{"tasks": 1000, "minutes": 5, "usage.cost": 2.5}`."""
    from difflib import get_close_matches

    units = f"{', '.join(UNITS)}, or a metric"
    found = _amounts("budget", given, {"tasks": 1000, "cost": 2.5}, units)
    for name in found.keys() - set(UNITS):
        unit = _SHORT_UNITS.get(name.lower())
        close = [unit] if unit else get_close_matches(name.lower(), UNITS, n=1, cutoff=0.85)
        if close:
            raise BadSpec(
                f"budget: {name!r} is not a unit; did you mean {close[0]!r}?",
                hint=f"the units are {', '.join(UNITS)}; any other name is a metric, which must "
                "not look like one of them",
            )
    return found


_SHORT_UNITS = {"mins": "minutes", "secs": "seconds", "hrs": "hours"}


def _resources(given: Any) -> dict[str, float]:
    """What a task needs of its machine: `{"licence": 1}`."""
    found = _amounts("resources", given, {"licence": 1}, "what the machine was started with")
    for name, option in _OPTION_OF.items():
        if name in found:
            raise BadSpec(f"resources: {name} has an option of its own", hint=f"use {option}")
    return found


_OPTION_OF = {"CPU": "cpus", "GPU": "gpus", "memory": "memory"}


def _amounts(option: str, given: Any, example: dict[str, float], names: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        shown = json.dumps(example)
        raise BadSpec(f"{option} is {given!r}", hint=f"write it as {shown}")
    found: dict[str, float] = {}
    for name, most in given.items():
        number = most if type(most) in (int, float) else math.nan
        if not isinstance(name, str) or not name:
            raise BadSpec(f"{option}: {name!r} is no name", hint=names)
        if not 0 < number < math.inf:
            raise BadSpec(f"{option}: {name} is {most!r}", hint="use a number above zero")
        found[name] = float(number)
    return found


_READERS: dict[str, Callable[[Any], Any]] = {
    "budget": _budget,
    "priority": lambda given: int(Priority.parse(given)),
    "resources": _resources,
    "retry_on": lambda given: _class_names("retry_on", given),
    "never_retry": lambda given: _class_names("never_retry", given),
    "until": lambda given: None if given == "none" else given,
}
"""How options are read that people write in more ways than one."""

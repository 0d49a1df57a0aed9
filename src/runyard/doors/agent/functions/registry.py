"""The functions that tasks can name; any worker can import each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from runyard.attempt.load import load
from runyard.doors.agent.inputs.arguments import BadCall, meant
from runyard.doors.agent.inputs.settings import Settings
from runyard.errors import UsageError
from runyard.spec.task import Target, check_parameters, marked

GROUP = "runyard.functions"
"""The entry points through which packages provide functions."""

_HERE = "runyard.doors.agent.functions"
BUILT_IN = {
    "code_execution": f"{_HERE}.code:code_execution",
    "knowledge_search": f"{_HERE}.knowledge:knowledge_search",
    "memory": f"{_HERE}.memory:memory",
    "custom_function": f"{_HERE}.code:custom_function",
    "tool": f"{_HERE}.tool:tool",
    "simulate": f"{_HERE}.simulate:simulate",
}
RUN_CODE = ("code_execution", "custom_function")
"""Functions that run model-written code."""

GRACE = 5.0
"""Seconds that the sandbox gets, after the time limit of code, to return the code's output."""


class RegisteredFunction(NamedTuple):
    """A function that a task can name."""

    name: str
    target: Target
    function: Callable[..., Any]
    check: Callable[[Settings, dict[str, Any]], None] | None  # its own check of its parameters


class Functions:
    """Maps the names that agents use to functions, and recorded targets back to names.

    Names are looked up among built-in functions, entry points, the owner's settings and `@task`.
    They are never parsed, so that a model can't cause an import of its choice.
    """

    def __init__(self, settings: Settings, root: str) -> None:
        self._settings = settings
        self._root = root
        self._found: dict[str, RegisteredFunction] = {}
        self._checked: set[tuple[str, tuple[str, ...]]] = set()

    @cached_property
    def _places(self) -> dict[str, str]:
        brought = {point.name: point.value for point in entry_points(group=GROUP)}
        return {**brought, **self._settings.functions, **BUILT_IN}

    @cached_property
    def _names(self) -> dict[str, str]:
        return {place: name for name, place in self._places.items()}

    @property
    def names(self) -> list[str]:
        """All known names, the built-in ones first."""
        return [*BUILT_IN, *sorted((self._places.keys() | marked().keys()) - BUILT_IN.keys())]

    def find(self, name: str) -> RegisteredFunction:
        """Return the function of this name; refuse an unknown one and list the known ones."""
        if name not in self._found:
            self._found[name] = self._load(name)
        return self._found[name]

    def check(self, known: RegisteredFunction, params: dict[str, Any]) -> None:
        """Refuse unknown parameters, and name missing ones."""
        key = known.name, tuple(params)
        if key not in self._checked:
            check_parameters(known.function, params)
            self._checked.add(key)
        if known.check is not None:
            known.check(self._settings, params)

    def name_of(self, target: Target) -> str:
        """The name that agents use for a target."""
        return self._names.get(target.ref, target.ref)

    def _load(self, name: str) -> RegisteredFunction:
        if name in self._places:
            return self._placed(name, self._places[name])
        function = marked().get(name)
        if function is None:
            hint = f"{meant(name, self.names)}use one of: {', '.join(self.names)}"
            raise BadCall(f"unknown function {name[:60]!r}", hint=hint)
        target = Target.of(function)
        if target.kind == "value":  # replaced since, or its name now means something else
            raise BadCall(f"the function {name!r} can't be used: it can't be imported by its name")
        return RegisteredFunction(name, target, function, None)

    def _placed(self, name: str, place: str) -> RegisteredFunction:
        try:
            target = Target.parse(place)
            function = load(target, self._root)
        except UsageError as error:
            raise BadCall(f"the function {name!r} can't be used: {error.message}") from error
        home = sys.modules.get(function.__module__) if name in BUILT_IN else None
        return RegisteredFunction(name, target, function, getattr(home, "check", None))


def engine_limit(name: str, params: dict[str, Any], limit: float | None) -> float | None:
    """The time limit that the engine enforces on a task.

    The sandbox enforces the limit of code and keeps the code's output; the engine's limit is the
    fallback, which ends the worker.
    """
    if limit is None or not _is_sandboxed(name, params):
        return limit
    return limit + GRACE


def own_limit(name: str, params: dict[str, Any], limit: float | None) -> float | None:
    """The inverse of `engine_limit`."""
    if limit is None or not _is_sandboxed(name, params):
        return limit
    return max(0.0, round(limit - GRACE, 6))


def _is_sandboxed(name: str, params: dict[str, Any]) -> bool:
    return name in RUN_CODE and "function" not in params

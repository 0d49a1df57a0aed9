"""Evaluators: functions of what a cell returned, called with the parameters they name."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, Protocol

from runyard.errors import BadSpec
from runyard.spec.names import did_you_mean

Better = Literal["higher", "lower"]

INTERRUPTED = "interrupted"
"""1 for an interrupted cell: a metric, so that a gate can say `interrupted == 0`."""

MEASURED = ("latency", "tokens", "cost", "retries")
"""The metrics that every cell has."""


class Scored(Protocol):
    """What evaluators need of a cell."""

    variant: str
    case: str
    repetition: int
    task: int
    attempt: int
    thread_id: str
    scores: dict[str, float | None]
    reasons: dict[str, str]

    @property
    def status(self) -> str: ...
    @property
    def error(self) -> str | None: ...
    @property
    def inputs(self) -> Any: ...
    @property
    def output(self) -> Any: ...
    @property
    def expected(self) -> Any: ...
    @property
    def trajectory(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Score:
    """What an evaluator found; without a value, the reason why there is none."""

    value: float | None
    reason: str = ""
    more: dict[str, Any] = field(default_factory=dict)  # its other fields


ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "inputs": lambda cell: deepcopy(cell.inputs),  # an evaluator may change what it gets
    "outputs": lambda cell: cell.output,
    "reference": lambda cell: deepcopy(cell.expected),
    "trajectory": lambda cell: cell.trajectory,
    "state": lambda cell: cell.state,
    "latency": lambda cell: cell.latency,
    "tokens": lambda cell: cell.tokens,
    "cost": lambda cell: cell.cost,
    "cell": lambda cell: cell,
    "output": lambda cell: cell.output,
    "expected": lambda cell: deepcopy(cell.expected),
    "reference_outputs": lambda cell: deepcopy(cell.expected),
}
"""The parameters that an evaluator can name; the last three are other libraries' names."""

_IN_ORDER = ("inputs", "outputs", "reference", "trajectory")


@dataclass(frozen=True)
class Evaluator:
    """An evaluator by name, and how it is called."""

    name: str
    function: Callable[..., Any]
    named: tuple[str, ...] = ()  # passed by keyword
    ordered: tuple[str, ...] = ()  # passed by position

    @property
    def better(self) -> Better:
        """Which direction of its score is better."""
        found: Better = getattr(self.function, "better", "higher")
        return found

    @property
    def tolerance(self) -> float | None:
        """How much worse than its baseline a case may score; None: it varies from run to run."""
        found: float | None = getattr(self.function, "tolerance", 0.0)
        return found

    @property
    def waits(self) -> bool:
        """Whether it waits for a network, so that several are called at once."""
        return bool(getattr(self.function, "waits", False))

    def score(self, cell: Scored) -> Score:
        """Score a cell. An evaluator that fails gives a missing score, never a bad one."""
        if cell.status != "completed":
            why = f"{cell.status}: {cell.error}" if cell.error else cell.status
            return Score(None, why)
        try:
            found = self.function(
                *(ARGUMENTS[name](cell) for name in self.ordered),
                **{name: ARGUMENTS[name](cell) for name in self.named},
            )
            return as_score(_awaited(found))
        except Exception as error:
            return Score(None, f"{self.name} failed: {type(error).__name__}: {error}")


def read_evaluators(given: Any) -> list[Evaluator]:
    """Evaluators by name, or a list of functions; refuses those that could not be called."""
    if given is None:
        return []
    if callable(given):
        given = [given]
    if not isinstance(given, Mapping):
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise BadSpec(f"evaluators is {given!r}", hint="write {name: function}")
        named = [(getattr(each, "__name__", type(each).__name__), each) for each in given]
        if len(dict(named)) < len(named):
            raise BadSpec("two evaluators have the same name", hint="write {name: function}")
        given = dict(named)
    taken = next((name for name in given if name in (*MEASURED, INTERRUPTED)), None)
    if taken is not None:
        raise BadSpec(
            f"an evaluator can't be called {taken!r}: every cell has a metric of this name",
            hint="give it another name, so that gates know which one is meant",
        )
    return [_evaluator(name, function) for name, function in given.items()]


def as_score(found: Any) -> Score:
    """A score from what an evaluator returned: a number, a bool, or a dict with `score`."""
    if not isinstance(found, Mapping):
        return _score(found, "", {})
    if "score" not in found:
        raise TypeError(f"it returned a dict without 'score': {found!r:.200}")
    reason = found.get("reason", found.get("comment"))
    more = {k: v for k, v in found.items() if k not in ("score", "reason", "comment")}
    return _score(found["score"], "" if reason is None else str(reason), more)


def _score(value: Any, reason: str, more: dict[str, Any]) -> Score:
    if value is None:
        return Score(None, reason or "it returned no score", more)
    item = getattr(value, "item", None)  # numpy's numbers and booleans
    value = item() if callable(item) else value
    if not isinstance(value, Real):
        raise TypeError(f"it returned {value!r:.200}, and not a number, a bool or a dict")
    if not math.isfinite(value):
        return Score(None, reason or f"its score is {float(value)}", more)
    return Score(float(value), reason, more)


def _evaluator(name: str, function: Any) -> Evaluator:
    if not isinstance(name, str) or not name:
        raise BadSpec(f"an evaluator's name is {name!r}", hint="use a text")
    if not callable(function):
        raise BadSpec(f"the evaluator {name!r} is {function!r:.80}", hint="pass a function")
    if isinstance(function, type):
        raise BadSpec(
            f"the evaluator {name!r} is the class {function.__name__}",
            hint=f"pass an instance of it: {function.__name__}(…)",
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return Evaluator(name, function, ordered=_IN_ORDER)
    own = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    known = [p for p in own if p.name in ARGUMENTS]
    required = [p for p in own if p.default is p.empty]
    unknown = [p.name for p in required if p.name not in ARGUMENTS]
    if unknown:
        by_position = [p for p in required if p.kind != p.KEYWORD_ONLY]
        if not known and len(by_position) == len(required) <= len(_IN_ORDER):
            return Evaluator(name, function, ordered=_IN_ORDER[: len(required)])
        raise BadSpec(
            f"the evaluator {name!r} has a parameter {unknown[0]!r}"
            f"{did_you_mean(unknown[0], ARGUMENTS)}",
            hint=f"it can have: {', '.join(ARGUMENTS)}",
        )
    if not own:
        everything = any(p.kind == p.VAR_KEYWORD for p in parameters)
        return Evaluator(name, function, named=_IN_ORDER if everything else ())
    ordered = tuple(p.name for p in known if p.kind == p.POSITIONAL_ONLY)
    return Evaluator(name, function, tuple(p.name for p in known if p.name not in ordered), ordered)


def _awaited(found: Any) -> Any:
    """The result of a coroutine, also where a loop runs already."""
    if not inspect.isawaitable(found):
        return found

    async def wait() -> Any:
        return await found

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    here = contextvars.copy_context()
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(here.run, asyncio.run, wait()).result()

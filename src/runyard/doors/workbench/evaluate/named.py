"""Evaluators as bench files name them: a ready one, with its options, or a function.

correct = "graph.py:correct"
exact = { use = "exact_match", field = "answer" }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from runyard.attempt.load import load_object
from runyard.doors.workbench.evaluate import ready
from runyard.doors.workbench.evaluate.judge import Judge
from runyard.doors.workbench.evaluate.trajectories import TrajectoryMatch
from runyard.errors import BadSpec
from runyard.spec.names import did_you_mean

READY: dict[str, Callable[..., Any]] = {
    "exact_match": ready.ExactMatch,
    "json_match": ready.JsonMatch,
    "regex": ready.RegexMatch,
    "numeric": ready.NumericMatch,
    "trajectory": TrajectoryMatch,
    "tool_calls": ready.ToolCallMatch,
    "latency": ready.Latency,
    "cost": ready.Cost,
    "judge": Judge,
}
"""The ready evaluators by their names in bench files."""


def named(value: Any, root: str) -> Any:
    """The evaluator that a bench file describes; anything else as it is."""
    if isinstance(value, str):
        return load_object(value, root) if ":" in value else _made(value, {})
    if isinstance(value, Mapping):
        options = dict(value)
        use = options.pop("use", None)
        if not isinstance(use, str):
            raise BadSpec(f"the evaluator {value!r:.80} has no `use`", hint=f"one of: {_known()}")
        return load_object(use, root)(**options) if ":" in use else _made(use, options)
    return value


def _made(name: str, options: Mapping[str, Any]) -> Any:
    if name not in READY:
        raise BadSpec(
            f"there is no evaluator {name!r}{did_you_mean(name, READY)}",
            hint=f"use module:function, or one of: {_known()}",
        )
    known = [each for each in signature(READY[name]).parameters if not each.startswith("_")]
    unknown = next((each for each in options if each not in known), None)
    if unknown is not None:
        raise BadSpec(
            f"the evaluator {name} has no option {unknown!r}{did_you_mean(unknown, known)}",
            hint=f"its options: {', '.join(known)}",
        )
    return READY[name](**options)


def _known() -> str:
    return ", ".join(READY)

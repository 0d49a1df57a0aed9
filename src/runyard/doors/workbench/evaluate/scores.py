"""Scores of cells, computed from what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runyard.errors import BadSpec

Evaluator = Callable[..., Any]
"""A function of inputs, outputs, reference and trajectory."""


def evaluate(cells: Any, evaluators: Mapping[str, Evaluator]) -> None:
    """Score every completed cell."""
    for cell in cells:
        for name, evaluator in evaluators.items():
            cell.scores[name], reason = _score(cell, name, evaluator)
            if reason:
                cell.reasons[name] = reason


def _score(cell: Any, name: str, evaluator: Evaluator) -> tuple[float | None, str]:
    if cell.status != "completed":
        return None, cell.status
    try:
        found = evaluator(cell.inputs, cell.output, cell.expected, cell.trajectory)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    reason = ""
    if isinstance(found, Mapping):
        reason, found = str(found.get("reason", "")), found.get("score")
    if found is None or isinstance(found, bool | int | float):
        return None if found is None else float(found), reason
    raise BadSpec(
        f"the evaluator {name!r} returned {found!r}",
        hint="return a number, a bool, or {'score': …, 'reason': …}",
    )

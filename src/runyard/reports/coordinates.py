"""The coordinates of tasks: variant, case, parameters and replicate, as codes for ranges of tasks.

A described batch is a few boxes, so that the position of a million tasks on an axis is arithmetic;
a listed batch is read task by task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runyard.errors import NotFound
from runyard.spec.codec import encode
from runyard.spec.plan import Axis, Plan, axis_label
from runyard.store.base import Snapshot
from runyard.store.stored_batch import StoredBatch

REPLICATE = "replicate"
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Coordinate:
    """A name by which tasks differ: its values, and the code of each task's value."""

    name: str
    values: Sequence[Any]
    codes: Callable[[int, int], Codes]
    """Which of `values` each of the tasks [low, high) has; -1 for none."""

    order: Sequence[int]
    """The codes as the author lists their values, which growth may have mixed."""

    axis: int | None = None
    """The axis of the plan whose positions are exactly these values, if there is one."""


def positions(plan: Plan, axis: int, low: int, high: int) -> Codes:
    """The positions of tasks [low, high) on an axis; axis 0 is the replicate."""
    parts, start = [], 0
    for box in plan.boxes:
        end = start + box.size
        first, last = max(low, start), min(high, end)
        if first < last:
            sides = [h - w for w, h in zip(box.low, box.high, strict=True)]
            stride = int(np.prod(sides[axis + 1 :], dtype=np.int64))
            numbers = np.arange(first - start, last - start, dtype=np.int64)
            parts.append(numbers // stride % sides[axis] + box.low[axis])
        start = end
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def coordinates(view: Snapshot, recorded: StoredBatch) -> dict[str, Coordinate]:
    """All coordinates by which the tasks of a batch differ."""
    plan = recorded.plan
    if plan is None:
        return _listed(view, recorded)
    found: dict[str, Coordinate] = {}
    for number, (axis, order) in enumerate(zip(plan.axes, plan.order, strict=True), start=1):
        for name, values in _names(axis):
            if name not in found:
                found[name] = _on_axis(plan, number, name, values, order)
    if plan.replicates > 1:
        values = range(plan.replicates)
        found[REPLICATE] = Coordinate(REPLICATE, values, partial(positions, plan, 0), values, 0)
    return found


def _on_axis(
    plan: Plan, axis: int, name: str, values: Sequence[Any], order: Sequence[int] | None
) -> Coordinate:
    distinct, codes = (values, None) if isinstance(values, range) else _distinct(values)
    every = range(len(distinct))
    if codes is None or len(distinct) == len(values):
        return Coordinate(name, distinct, partial(positions, plan, axis), order or every, axis)
    return Coordinate(name, distinct, lambda *span: codes[positions(plan, axis, *span)], every)


def coordinate(known: dict[str, Coordinate], name: str) -> Coordinate:
    """The one of this name."""
    if name not in known:
        names = ", ".join(known) or "nothing: all tasks are alike"
        raise NotFound(f"can't group tasks by {name!r}", hint=f"they vary by: {names}")
    return known[name]


def _names(axis: Axis) -> list[tuple[str, Sequence[Any]]]:
    if axis.role == "param":
        return [(axis.name, axis.values)]
    if axis.role == "item":
        values = axis.values
        return [(axis.name, values if isinstance(values, range) else [v[0] for v in values])]
    labels = [axis_label(axis, position) for position in range(len(axis.values))]
    sets: list[dict[str, Any]] = [axis.params(position) for position in range(len(axis.values))]
    inner = dict.fromkeys(key for params in sets for key in params if key != "name")
    return [(axis.role, labels), *((key, [p.get(key) for p in sets]) for key in inner)]


def _distinct(values: Sequence[Any]) -> tuple[Sequence[Any], Codes]:
    numbers: dict[bytes, int] = {}
    codes = [numbers.setdefault(encode(value), len(numbers)) for value in values]
    firsts = dict(zip(reversed(codes), reversed(values), strict=True))
    return [firsts[code] for code in range(len(numbers))], np.array(codes, np.int64)


def _listed(view: Snapshot, recorded: StoredBatch) -> dict[str, Coordinate]:
    labels: list[dict[str, Any]] = [{} for _ in range(recorded.row.next_task)]
    for row in view.tasks(recorded.id):
        labels[row.task] = recorded.labels(view, row.task)
    found: dict[str, Coordinate] = {}
    for name in dict.fromkeys(key for label in labels for key in label):
        held = [at for at, label in enumerate(labels) if name in label]
        distinct, codes = _distinct([labels[at][name] for at in held])
        own = np.full(len(labels), -1, np.int64)
        own[held] = codes
        codes_of = partial(_between, own)
        found[name] = Coordinate(name, distinct, codes_of, range(len(distinct)))
    return found


def _between(codes: Codes, low: int, high: int) -> Codes:
    return codes[low:high]


def shown_coordinates(known: dict[str, Coordinate], plan: Plan | None, most: int) -> list[str]:
    """The variants and parameters to group by in a table of at most `most` rows."""
    names = list(known) if plan is None else plan.group_axes()
    while names and math.prod(len(known[name].values) for name in names) > most:
        names.remove(max(names, key=lambda name: len(known[name].values)))
    return names

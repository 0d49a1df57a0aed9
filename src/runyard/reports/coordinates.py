"""The coordinates of tasks: variant, case, parameters and replicate, as codes for ranges of tasks.

A described batch is a few boxes, so that the position of a million tasks on an axis is arithmetic;
a listed batch is read task by task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


class Coordinate:
    """A name by which tasks differ: its values, and the code of each task's value."""

    def __init__(
        self,
        name: str,
        values: Sequence[Any],
        source: _Source,
        order: Sequence[int] | None = None,
    ) -> None:
        self.name = name
        self.values = values
        self._source = source
        self.order = range(len(values)) if order is None else order
        """The codes as the author lists their values, which growth may have mixed."""

    @property
    def axis(self) -> int | None:
        """The axis of the plan whose positions are exactly these values, if there is one."""
        source = self._source
        return source.axis if isinstance(source, _OnAxis) and source.is_plain else None

    def codes(self, low: int, high: int) -> Codes:
        """Which of `values` each of these tasks has; -1 for none."""
        return self._source(low, high)


class _OnAxis:
    """The codes of a described batch: by the position on an axis."""

    def __init__(self, plan: Plan, axis: int, codes: Codes | None) -> None:
        self._plan = plan
        self.axis = axis  # 0: the replicate
        self._codes = codes  # of each position, where several share one
        self.is_plain = codes is None

    def __call__(self, low: int, high: int) -> Codes:
        found = positions(self._plan, self.axis, low, high)
        return found if self._codes is None else self._codes[found]


class _ByTask:
    """The codes of a listed batch."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes

    def __call__(self, low: int, high: int) -> Codes:
        return self._codes[low:high]


_Source = _OnAxis | _ByTask


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
    if recorded.plan is None:
        return _listed(view, recorded)
    plan = recorded.plan
    found: dict[str, Coordinate] = {}
    for number, axis in enumerate(plan.axes, start=1):
        for name, values in _names(axis):
            if name not in found:
                distinct, codes = _distinct(values)
                own = None if len(distinct) == len(values) else codes
                order = plan.order[number - 1] if own is None else None
                found[name] = Coordinate(name, distinct, _OnAxis(plan, number, own), order)
    if plan.replicates > 1:
        found[REPLICATE] = Coordinate(REPLICATE, range(plan.replicates), _OnAxis(plan, 0, None))
    return found


def coordinate(known: dict[str, Coordinate], name: str) -> Coordinate:
    """The one of this name."""
    if name not in known:
        names = ", ".join(known) or "nothing: all tasks are alike"
        raise NotFound(f"tasks don't differ by {name!r}", hint=f"they differ by: {names}")
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
    if isinstance(values, range):
        return values, np.arange(len(values))
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
        found[name] = Coordinate(name, distinct, _ByTask(own))
    return found


def shown_coordinates(known: dict[str, Coordinate], plan: Plan | None, most: int) -> list[str]:
    """The variants and parameters to group by in a table of at most `most` rows."""
    names = list(known) if plan is None else plan.group_axes()
    while names and math.prod(len(known[name].values) for name in names) > most:
        names.remove(max(names, key=lambda name: len(known[name].values)))
    return names

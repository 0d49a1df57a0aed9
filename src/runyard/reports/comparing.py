"""Compare variants of a batch, or two batches, on a metric: in pairs where pairs exist.

Tasks with the same case, parameters and replicate belong together. They are compared in pairs if
they share random numbers or a case, otherwise as independent groups.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from runyard.errors import NotFound, UsageError
from runyard.format import count, listed
from runyard.reports.columns import PADDED, TIMES
from runyard.reports.coordinates import Codes, coordinate
from runyard.reports.export import text_of
from runyard.spec.codec import encode
from runyard.spec.names import did_you_mean
from runyard.spec.plan import Plan
from runyard.spec.status import CANCELLED, COMPLETED, FAILED
from runyard.stats.compare import IntervalKind, compare
from runyard.stats.compare_many import Correction, adjusted, matches
from runyard.stats.compare_result import About, Better, Comparison, Side
from runyard.stats.moments import Moments

if TYPE_CHECKING:
    from runyard.reports.result import Result

Array = NDArray[Any]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Pick = Callable[[Array, Any], Array]
"""The values of some tasks out of a column; the second argument stands where there is no task."""

MOST_GROUPS = 200
NO_TASK = 255
"""The status in places where a grown or shorter plan has no task."""


class CompareOptions(TypedDict, total=False):
    """How groups are compared."""

    paired: bool | None  # None: in pairs where there are some
    baseline: str | None  # None: every pair
    correction: Correction | None
    level: float
    better: Better | None  # None: neither direction is
    interval: IntervalKind


class Part:
    """The tasks of one side: a batch, or those of a batch that share a value."""

    def __init__(self, result: Result, pick: Pick, planned: int | None = None) -> None:
        self._columns = result.columns
        self._pick = pick
        self._planned = planned  # how many tasks it has; None: those that are picked

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of its batch."""
        return self._columns.names

    def values(self, metric: str) -> Floats:
        """The values of a metric; NaN for a task without one."""
        if metric not in self.metrics:
            return np.full(len(self.states), np.nan)
        return self._pick(self._columns.metric(metric), np.nan)

    @cached_property
    def states(self) -> Array:
        """The code of each task's status, and `NO_TASK` where there is none."""
        return self._pick(self._columns.fixed("status"), NO_TASK)

    def is_rate(self, metric: str) -> bool:
        """Whether no value of a metric is anything but a boolean."""
        return metric in self._columns.rates or metric not in self.metrics

    def share(self, status: int) -> float:
        """The share of the tasks with an outcome that have this status; NaN without outcomes."""
        ended = np.count_nonzero((self.states != NO_TASK) & (self.states != 0))
        return np.count_nonzero(self.states == status) / ended if ended else math.nan

    def side(self, finite: Bools, kept: Bools) -> Side:
        """What became of its tasks: which have a number, and which of these are compared."""
        states = self.states
        many = np.count_nonzero
        there = int(many(states != NO_TASK))
        tasks = there if self._planned is None else self._planned
        return Side(
            tasks=tasks,
            compared=int(many(kept)),
            no_partner=int(many(finite & ~kept)),
            not_a_number=int(many((states == COMPLETED) & ~finite)),
            failed=int(many(states == FAILED)),
            cancelled=int(many(states == CANCELLED)),
            unfinished=int(many(states == 0)) + tasks - there,
        )


class Groups:
    """What is compared, by label; in a paired set, task i of every group belongs together.

    Without a metric there are sides, and nothing that they are compared on.
    """

    def __init__(self, parts: Mapping[str, Part], paired: bool, metric: str | None) -> None:
        self.parts = dict(parts)
        self.paired = paired
        self.metric = metric

    @cached_property
    def values(self) -> dict[str, Floats]:
        """The values of the metric by label."""
        if self.metric is None:
            return {}
        return {label: part.values(self.metric) for label, part in self.parts.items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that one of them has."""
        return tuple(dict.fromkeys(name for part in self.parts.values() for name in part.metrics))

    @property
    def is_rate(self) -> bool:
        """Whether the metric is one of booleans."""
        metric = self.metric
        return metric is not None and all(part.is_rate(metric) for part in self.parts.values())

    def mean(self, label: str) -> float:
        """The mean of a group's values; NaN without any."""
        return Moments(self.values[label], order=1).mean


@dataclass(frozen=True)
class Compared:
    """The comparisons that could be made, and why others could not."""

    found: list[Comparison]
    missing: dict[tuple[str, str], str]


def whole(result: Result) -> Part:
    """All tasks of a batch."""
    return Part(result, lambda column, _: column, result.recorded.row.next_task)


def groups_of(
    result: Result, metric: str | None, by: str, wanted: Sequence[str] | None = None
) -> Groups:
    """The groups of one batch by a parameter, its variant or its case; all, or some of them."""
    axis = coordinate(result.coordinates, by)
    if len(axis.values) > (MOST_GROUPS if wanted is None else PADDED):
        raise _too_many(by, len(axis.values))
    labels = _unique([text_of(value) for value in axis.values])
    chosen = {labels[at]: at for at in axis.order}
    if wanted is not None:
        unknown = next((label for label in wanted if label not in chosen), None)
        if unknown is not None:
            raise _not_among(unknown, chosen)
        chosen = {label: chosen[label] for label in wanted}
    if len(chosen) > MOST_GROUPS:
        raise _too_many(by, len(chosen))
    _check_metric(metric, result)
    plan, number = result.recorded.plan, axis.axis
    if plan is None or number is None:
        codes = axis.codes(0, result.columns.total)
        parts = {label: _with_code(result, codes, at) for label, at in chosen.items()}
        return Groups(parts, False, metric)
    total = result.columns.total
    cube = _Cube(plan, _replicates(plan, total), total)
    parts = {label: cube.part(result, number, at) for label, at in chosen.items()}
    others = [a for at, a in enumerate(plan.axes, start=1) if at != number]
    paired = plan.common_random_numbers or any(len(a.values) > 1 for a in others)
    return Groups(parts, paired, metric)


def groups_of_two(a: Result, b: Result, metric: str | None) -> Groups:
    """Two batches as two groups."""
    if a.name == b.name:
        raise UsageError(f"{a.name} can't be compared with itself", hint="name two batches")
    _check_metric(metric, a, b)
    unpaired = Groups({a.name: whole(a), b.name: whole(b)}, False, metric)
    mine, theirs = a.recorded.plan, b.recorded.plan
    if mine is None or theirs is None or not _alike(mine, theirs):
        return unpaired
    if a.seed != b.seed and all(len(axis.values) == 1 for axis in mine.axes):
        return unpaired
    both = [(r, p, r.columns.total) for r, p in ((a, mine), (b, theirs))]
    most = max(_replicates(plan, total) for _, plan, total in both)
    parts = {r.name: _Cube(plan, most, total).part(r) for r, plan, total in both}
    return Groups(parts, True, metric)


def compare_groups(
    groups: Groups, metric: str, **options: Unpack[CompareOptions]
) -> list[Comparison]:
    """Compare every pair of groups, or each with a baseline, corrected for multiple comparisons."""
    compared = compare_each(groups, metric, **options)
    for reason in compared.missing.values():
        raise UsageError(reason, hint="a comparison needs two or more values on each side")
    return compared.found


def compare_each(groups: Groups, metric: str, **options: Unpack[CompareOptions]) -> Compared:
    """Compare the pairs that have enough values; say why others are not compared."""
    values, baseline = groups.values, options.get("baseline")
    in_pairs = options.get("paired")
    if in_pairs and len({len(v) for v in values.values()}) > 1:
        raise UsageError("these groups have no pairs", hint="drop --paired")
    if baseline is not None and baseline not in values:
        raise _not_among(baseline, values)
    in_pairs = groups.paired if in_pairs is None else in_pairs
    chosen = matches(values, baseline)
    if not chosen:
        raise UsageError(
            "there is only one group", hint="compare by a parameter with several values"
        )
    kind = options.get("interval", "auto")
    if kind == "auto":
        kind = "score" if groups.is_rate else "t"
    found: list[Comparison] = []
    missing: dict[tuple[str, str], str] = {}
    for one, other in chosen:
        about = About(one, other, metric, options.get("better", "higher"))
        a, b = values[one], values[other]
        finite_a, finite_b = np.isfinite(a), np.isfinite(b)
        kept_a, kept_b = (finite_a & finite_b,) * 2 if in_pairs else (finite_a, finite_b)
        parts = groups.parts
        sides = parts[one].side(finite_a, kept_a), parts[other].side(finite_b, kept_b)
        if min(side.compared for side in sides) < 2:
            missing[one, other] = _too_few(about, in_pairs, sides)
            continue
        a, b = a if kept_a.all() else a[kept_a], b if kept_b.all() else b[kept_b]  # no copies
        level = options.get("level", 0.95)
        made = compare(a, b, paired=in_pairs, level=level, about=about, interval=kind)
        found.append(replace(made, sides=sides))
    return Compared(adjusted(found, options.get("correction", "holm")), missing)


def _too_few(about: About, paired: bool, sides: tuple[Side, Side]) -> str:
    """Why two groups can't be compared."""
    few = list(zip((about.a, about.b), sides, strict=True))
    if paired:
        said = f"{about.a} and {about.b} have {count(sides[0].compared, 'pair')} with values"
    else:
        few = [(label, side) for label, side in few if side.compared < 2]
        said = " and ".join(f"{label} has {count(s.compared, 'value')}" for label, s in few)
    left_out = ", ".join(side.words(label) for label, side in few if side.left_out)
    return f"{said} of {about.metric}" + (f" (left out: {left_out})" if left_out else "")


def _too_many(by: str, values: int) -> UsageError:
    return UsageError(
        f"{by} has {values:,} values",
        hint=f"compare by one with at most {MOST_GROUPS}, or select some with --only",
    )


def _check_metric(metric: str | None, *results: Result) -> None:
    """Refuse a metric that none of them has, unless no task of theirs has returned a number."""
    known = [result for result in results if result.columns.names]
    if metric is not None and known and not any(metric in r.columns.names for r in known):
        known[0].columns.metric(metric)


class _Cube:
    """A plan's tasks by replicate and by each axis; a grown or shorter plan leaves gaps.

    Tasks from `total` on have no place in the columns, and are gaps, too.
    """

    def __init__(self, plan: Plan, replicates: int, total: int) -> None:
        self._plan = plan
        self._sides = replicates, *(len(axis.values) for axis in plan.axes)
        self._tasks: Codes | None = None  # by place, -1 in gaps; None: in order, without gaps
        if len(plan.boxes) == 1 and plan.boxes[0].size == total == math.prod(self._sides):
            return
        planned = _planned(plan, 0, None)
        if total < planned and math.prod(self._sides) > max(PADDED, TIMES * total):
            raise UsageError(
                f"one replicate has {math.prod(self._sides[1:]):,} tasks, and {total:,} tasks at "
                "most have an outcome: too few to compare",
                hint="run more of the batch, or plan fewer parameters",
            )
        self._tasks = np.full(self._sides, -1)
        start = 0
        for box in plan.boxes:
            high = (min(box.high[0], replicates), *box.high[1:])
            if start < total and box.low[0] < high[0]:
                part = tuple(slice(*span) for span in zip(box.low, high, strict=True))
                shape = self._tasks[part].shape
                self._tasks[part] = np.arange(start, start + math.prod(shape)).reshape(shape)
            start += box.size
        self._tasks[self._tasks >= total] = -1

    def part(self, result: Result, axis: int = 0, at: int | None = None) -> Part:
        """The tasks at one position of an axis, or all."""
        pick = self._picker(axis, slice(None) if at is None else at)
        return Part(result, pick, _planned(self._plan, axis, at))

    def _picker(self, axis: int, at: int | slice) -> Pick:
        """Picks their values out of a column."""

        def flat(cube: Array) -> Array:
            return np.moveaxis(cube, axis, 0)[at].reshape(-1)

        if self._tasks is None:
            return lambda column, _: flat(column.reshape(self._sides))
        tasks = flat(self._tasks)
        return lambda column, missing: np.where(tasks < 0, missing, column[tasks])


def _replicates(plan: Plan, total: int) -> int:
    """How many replicates the first tasks of a plan reach into."""
    most, start = 0, 0
    for box in plan.boxes:
        inside = min(box.size, total - start)
        if inside > 0:
            each = box.size // (box.high[0] - box.low[0])
            most = max(most, box.low[0] + -(-inside // each))
        start += box.size
    return most


def _planned(plan: Plan, axis: int, at: int | None) -> int:
    """How many tasks a plan has at one position of an axis, or in all."""
    if at is None:
        return sum(box.size for box in plan.boxes)
    boxes = [box for box in plan.boxes if box.low[axis] <= at < box.high[axis]]
    return sum(box.size // (box.high[axis] - box.low[axis]) for box in boxes)


def _with_code(result: Result, codes: Codes, code: int) -> Part:
    """The tasks that have one value."""
    return Part(result, lambda column, _: column[codes == code])


def _alike(a: Plan, b: Plan) -> bool:
    """Whether the tasks of two plans stand in the same places."""
    sides = [[(axis.name, axis.role, len(axis.values)) for axis in plan.axes] for plan in (a, b)]
    return sides[0] == sides[1] and all(
        encode(list(mine.values)) == encode(list(theirs.values))
        for mine, theirs in zip(a.axes, b.axes, strict=True)
        if not (isinstance(mine.values, range) and mine.values == theirs.values)
    )


def _unique(labels: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for label in labels:
        seen[label] += 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def _not_among(label: str, labels: Iterable[str]) -> NotFound:
    there = list(labels)
    return NotFound(
        f"there is no group {label!r}{did_you_mean(label, there)}",
        hint=f"the groups are: {listed(there)}",
    )

"""Variants of a batch, or two batches, compared on a metric: in pairs where pairs exist.

Tasks with the same case, parameters and replicate belong together. The pairs are worth something
where they share random numbers or a case; otherwise the groups are compared as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from runyard.errors import NotFound, UsageError
from runyard.reports.coordinates import coordinate
from runyard.reports.export import text_of
from runyard.spec.codec import encode
from runyard.spec.plan import Plan
from runyard.stats.compare import (
    About,
    Better,
    Comparison,
    adjusted,
    compare,
    paired_moments,
    paired_rates,
    unpaired_moments,
    unpaired_rates,
)
from runyard.stats.compare_many import Correction, matches
from runyard.stats.moments import Moments

if TYPE_CHECKING:
    from runyard.reports.result import Result

Floats = NDArray[np.float64]
Kind = Literal["auto", "t", "bootstrap"]
STREAMED = 1 << 20
"""So many values are compared by their moments alone: rank tests would sort all of them."""

MOST_GROUPS = 200


class Groups:
    """Values by label; in a paired set, value i of every group belongs together."""

    def __init__(self, values: dict[str, Floats], paired: bool) -> None:
        self.values = values
        self.paired = paired

    def means(self) -> dict[str, float]:
        """The mean of each group."""
        found = {}
        for label, values in self.values.items():
            moments = _moments(values)
            if moments.count:
                found[label] = moments.mean
        return found


def groups_of(result: Result, metric: str, by: str, wanted: Sequence[str] | None = None) -> Groups:
    """The groups of one batch by a parameter, its variant or its case; all, or some of them."""
    axis = coordinate(result.coordinates, by)
    labels = _unique([text_of(value) for value in axis.values])
    chosen = {labels[at]: at for at in axis.order}
    if wanted is not None:
        chosen = _some(chosen, wanted)
    if len(chosen) > MOST_GROUPS:
        raise UsageError(
            f"{by} has {len(chosen):,} values",
            hint=f"compare by what has at most {MOST_GROUPS}, or choose some with --only",
        )
    array, plan = result.columns.metric(metric), result.recorded.plan
    number = axis.axis
    if plan is None or number is None:
        codes = axis.codes(0, result.columns.total)
        return Groups({label: array[codes == at] for label, at in chosen.items()}, False)
    cube = _cube(plan, array)
    along = np.moveaxis(cube, number, 0)
    values = {label: along[at].reshape(-1) for label, at in chosen.items()}
    others = [a for at, a in enumerate(plan.axes, start=1) if at != number]
    return Groups(values, plan.common_random_numbers or any(len(a.values) > 1 for a in others))


def groups_of_two(a: Result, b: Result, metric: str) -> Groups:
    """Two batches as two groups."""
    if a.name == b.name:
        raise UsageError(f"{a.name} can't be compared with itself", hint="name two batches")
    arrays = [result.columns.metric(metric) for result in (a, b)]
    plans = [result.recorded.plan for result in (a, b)]
    if plans[0] is None or plans[1] is None or not _alike(plans[0], plans[1]):
        return Groups({a.name: arrays[0], b.name: arrays[1]}, False)
    if a.seed != b.seed and all(len(axis.values) == 1 for axis in plans[0].axes):
        return Groups({a.name: arrays[0], b.name: arrays[1]}, False)
    least = min(plan.replicates for plan in plans if plan is not None)
    cubes = [_cube(p, m)[:least] for p, m in zip(plans, arrays, strict=True) if p is not None]
    return Groups({a.name: cubes[0].ravel(), b.name: cubes[1].ravel()}, True)


def compare_groups(
    groups: Groups,
    metric: str,
    *,
    paired: bool | None = None,
    baseline: str | None = None,
    correction: Correction | None = "holm",
    level: float = 0.95,
    better: Better = "higher",
    interval: Kind = "auto",
) -> list[Comparison]:
    """Every pair of groups, or each against a baseline, corrected for having made several."""
    values = groups.values
    if paired and len({len(v) for v in values.values()}) > 1:
        raise UsageError("these groups have no pairs", hint="leave --paired out")
    if baseline is not None and baseline not in values:
        raise NotFound(f"there is no {baseline!r}", hint=f"there are: {', '.join(values)}")
    in_pairs = groups.paired if paired is None else paired
    chosen = matches(values, baseline)
    if not chosen:
        raise UsageError("there is only one group", hint="compare by what has several values")
    found = []
    for one, other in chosen:
        about = About(one, other, metric, better)
        a, b = values[one], values[other]
        kept_a, kept_b = np.isfinite(a), np.isfinite(b)
        if in_pairs:
            kept_a = kept_b = kept_a & kept_b
        a, b = _kept(a, kept_a), _kept(b, kept_b)
        if min(len(a), len(b)) < 2:
            few = one if len(a) < 2 else other
            raise UsageError(
                f"{few} has {min(len(a), len(b))} values of {metric}",
                hint="a comparison takes two or more on each side",
            )
        found.append(_one(a, b, in_pairs, level, about, interval))
    return adjusted(found, correction)


def _kept(values: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Those values; no copy where that is all of them."""
    return values if kept.all() else values[kept]


def _one(a: Floats, b: Floats, paired: bool, level: float, about: About, kind: Kind) -> Comparison:
    if max(len(a), len(b)) < STREAMED or kind == "bootstrap":
        return compare(a, b, paired=paired, level=level, about=about, interval=kind)
    if kind == "auto" and _is_rate(a) and _is_rate(b):
        if paired:
            both, neither = int(np.count_nonzero(a * b)), int(np.count_nonzero(a + b == 0))
            alone = int(a.sum()) - both, int(b.sum()) - both
            return paired_rates(both, *alone, neither, level, about)
        successes = int(a.sum()), int(b.sum())
        return unpaired_rates(successes[0], len(a), successes[1], len(b), level, about)
    if paired:
        return paired_moments(_moments(a, b), _moments(a), _moments(b), level, about)
    return unpaired_moments(_moments(a), _moments(b), level, about)


def _moments(a: Floats, minus: Floats | None = None) -> Moments:
    found = Moments(order=2)
    for low in range(0, len(a), STREAMED):
        part = a[low : low + STREAMED]
        found.add_array(part if minus is None else part - minus[low : low + STREAMED])
    return found


def _is_rate(values: Floats) -> bool:
    parts = range(0, len(values), STREAMED)
    return all(np.isin(values[low : low + STREAMED], (0.0, 1.0)).all() for low in parts)


def _cube(plan: Plan, array: Floats) -> Floats:
    """A column by replicate and by each axis; NaN where a grown plan has no task."""
    sides = (plan.replicates, *(len(axis.values) for axis in plan.axes))
    if len(plan.boxes) == 1:
        return array.reshape(sides)
    cube, start = np.full(sides, np.nan), 0
    for box in plan.boxes:
        part = tuple(slice(low, high) for low, high in zip(box.low, box.high, strict=True))
        shape = [high - low for low, high in zip(box.low, box.high, strict=True)]
        cube[part] = array[start : start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
    return cube


def _alike(a: Plan, b: Plan) -> bool:
    """Whether the tasks of two plans stand in the same places."""
    sides = [(axis.name, axis.role, len(axis.values)) for axis in a.axes]
    return sides == [(axis.name, axis.role, len(axis.values)) for axis in b.axes] and all(
        encode(list(mine.values)) == encode(list(theirs.values))
        for mine, theirs in zip(a.axes, b.axes, strict=True)
        if not (isinstance(mine.values, range) and mine.values == theirs.values)
    )


def _unique(labels: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def _some(labels: Mapping[str, int], wanted: Sequence[str]) -> dict[str, int]:
    for label in wanted:
        if label not in labels:
            there = ", ".join(list(labels)[:20])
            raise NotFound(f"there is no {label!r}", hint=f"there are: {there}")
    return {label: labels[label] for label in wanted}

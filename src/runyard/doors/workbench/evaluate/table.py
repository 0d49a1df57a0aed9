"""The cells of a bench as a table of numbers: variants × cases × repetitions.

    cells ──▶ CellTable ──┬─▶ summaries: means, pass rates, pass@k
                      └─▶ Groups of the engine ──▶ comparisons, gates

Where a case has several repetitions, its value is their mean: what is uncertain about a variant is
how it does on other cases, and repetitions of one case say little about that. With a single case,
its repetitions are the values.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from runyard.doors.workbench.evaluate.evaluators import INTERRUPTED, MEASURED
from runyard.doors.workbench.evaluate.scores import metric_of
from runyard.errors import NotFound
from runyard.reports.comparing import Array, Floats, Groups, Part
from runyard.spec.names import did_you_mean
from runyard.spec.status import CANCELLED, COMPLETED, FAILED
from runyard.stats.intervals import Interval, Rate, t_interval, wilson
from runyard.stats.moments import Moments
from runyard.stats.passes import over_cases

_INTERRUPTED = 254
_CODES = {
    "completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED, "interrupted": _INTERRUPTED
}  # fmt: skip
_MOST_KS = 5


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """One metric of one variant."""

    variant: str
    metric: str
    cells: int
    scored: int  # cells with a score
    missing: int  # completed cells whose evaluator gave none
    failed: int
    interrupted: int
    cancelled: int
    mean: float | None  # over cases
    interval: Interval | None
    passed: (
        Rate | None
    )  # of the cells that completed with a score, or failed; None: no pass or fail
    pass_at: dict[int, float]  # pass@k: at least one of k repetitions passes
    pass_all: dict[int, float]  # pass^k: all of them do

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        interval = None if self.passed is None else self.passed.interval()
        return {
            "variant": self.variant, "metric": self.metric, "cells": self.cells,
            "scored": self.scored, "missing": self.missing, "failed": self.failed,
            "interrupted": self.interrupted, "cancelled": self.cancelled, "mean": self.mean,
            "low": self.interval and self.interval.low,
            "high": self.interval and self.interval.high,
            "pass_rate": self.passed and self.passed.value,
            "pass_low": interval and interval.low, "pass_high": interval and interval.high,
            "pass@k": {str(k): value for k, value in self.pass_at.items()},
            "pass^k": {str(k): value for k, value in self.pass_all.items()},
        }  # fmt: skip


class CellTable:
    """The cells of a bench by variant, case and repetition; a cell that is not there is NaN."""

    def __init__(
        self, cells: Iterable[Any], variants: Sequence[str], cases: Sequence[str], repetitions: int
    ) -> None:
        self.variants = list(variants)
        self.cases = list(cases)
        self.repetitions = repetitions
        self._cells = list(cells)
        rows = {name: at for at, name in enumerate(self.variants)}
        columns = {name: at for at, name in enumerate(self.cases)}
        self._at = tuple(
            np.array([place[n] for place in
                      ((rows[c.variant], columns[c.case], c.repetition) for c in self._cells)],
                     dtype=np.intp)
            for n in range(3)
        )  # fmt: skip
        self.status = self._placed([_CODES[cell.status] for cell in self._cells], 0)
        self.scores = list(dict.fromkeys(name for cell in self._cells for name in cell.scores))
        self._values: dict[str, Floats] = {}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores, what every cell has, and whether it was interrupted."""
        return metrics_with(self.scores)

    def check(self, metric: str) -> str:
        """Refuse a metric that no cell has."""
        if metric not in self.metrics:
            raise NotFound(
                f"there is no metric {metric!r}{did_you_mean(metric, self.metrics)}",
                hint=f"the metrics are: {', '.join(self.metrics)}",
            )
        return metric

    def values(self, metric: str) -> Floats:
        """A metric of every cell; NaN where it has none."""
        if metric not in self._values:
            found = [metric_of(cell, metric) for cell in self._cells]
            placed = self._placed([math.nan if v is None else v for v in found], np.nan)
            self._values[metric] = placed
        return self._values[metric]

    def is_rate(self, metric: str) -> bool:
        """Whether every value is 0 or 1, so that cells pass or fail."""
        if metric not in (*self.scores, INTERRUPTED):
            return False
        values = self.values(metric)
        values = values[~np.isnan(values)]
        return bool(((values == 0) | (values == 1)).all())

    @property
    def by_case(self) -> bool:
        """Whether the values that are compared are those of cases, each the mean of its cells."""
        return self.repetitions > 1 and len(self.cases) > 1

    def units(self, values: Floats) -> Floats:
        """The values of a variant that count as independent: those of cases, or of cells."""
        return _means(values) if self.by_case else values.reshape(-1)

    def groups(
        self,
        metric: str | None,
        variants: Sequence[str] | None = None,
        *,
        failed_as: float | None = None,
    ) -> Groups:
        """The variants as the engine compares them, in pairs of the same case.

        `failed_as` is the score of cells that did not complete, which have none.
        """
        if metric is not None:
            self.check(metric)
        chosen = self.variants if variants is None else [self._variant(each) for each in variants]
        parts = {name: _VariantPart(self, self.variants.index(name), failed_as) for name in chosen}
        return Groups(parts, True, metric)

    def summary(self, variant: str, metric: str, passing: float | None = None) -> VariantSummary:
        """A variant's figures of a metric; a cell passes at `passing`, or a score of 1 if all
        scores are 0 or 1."""
        self.check(metric)
        at = self.variants.index(self._variant(variant))
        values, status = self.values(metric)[at], self.status[at]
        scored = ~np.isnan(values)
        counted = {name: int((status == code).sum()) for name, code in _CODES.items()}
        units = self.units(values)
        moments = Moments(units, order=2)
        if passing is None and self.is_rate(metric):
            passing = 1.0
        passed: Rate | None = None
        at_k: dict[int, float] = {}
        all_k: dict[int, float] = {}
        if passing is not None:
            with np.errstate(invalid="ignore"):
                passes = scored & (values >= passing)
            tried = scored | (status == FAILED)
            if tried.any():
                passed = Rate(int(passes.sum()), int(tried.sum()))
            counts = [
                (int(n), int(c)) for n, c in zip(tried.sum(1), passes.sum(1), strict=True) if n
            ]
            for k in _ks(max((n for n, _ in counts), default=0)):
                at_k[k] = over_cases(counts, k)[0]
                all_k[k] = over_cases(counts, k, every=True)[0]
        completed_without = int(((status == COMPLETED) & ~scored).sum())
        return VariantSummary(
            variant, metric, cells=int((status != 0).sum()), scored=int(scored.sum()),
            missing=completed_without, failed=counted["failed"],
            interrupted=counted["interrupted"], cancelled=counted["cancelled"],
            mean=moments.mean if moments.count else None,
            interval=self._interval(metric, moments), passed=passed,
            pass_at=at_k, pass_all=all_k,
        )  # fmt: skip

    def _interval(self, metric: str, moments: Moments) -> Interval | None:
        """Wilson's for scores of 0 and 1; for their means over repetitions only where Student's
        is no use: without any spread, or beyond 0 and 1."""
        student = t_interval(moments) if moments.count > 1 else None
        if not moments.count or not self.is_rate(metric):
            return student
        is_of_use = student is not None and student.half and 0 <= student.low <= student.high <= 1
        if self.by_case and is_of_use:
            return student
        return wilson(moments.total, moments.count)

    def _variant(self, name: str) -> str:
        if name not in self.variants:
            raise NotFound(
                f"there is no variant {name!r}{did_you_mean(name, self.variants)}",
                hint=f"the variants are: {', '.join(self.variants)}",
            )
        return name

    def _placed(self, values: Sequence[float], missing: float) -> Array:
        shape = len(self.variants), len(self.cases), self.repetitions
        made = np.full(shape, missing, dtype=np.uint8 if missing == 0 else np.float64)
        made[self._at] = values
        return made


def metrics_with(scores: Iterable[str]) -> tuple[str, ...]:
    """The metrics of a bench with these scores."""
    return tuple(dict.fromkeys((*scores, *MEASURED, INTERRUPTED)))


class _VariantPart(Part):
    """The cells of one variant, as the engine compares them."""

    def __init__(self, table: CellTable, at: int, failed_as: float | None) -> None:
        self._table = table
        self._at = at
        self._failed_as = failed_as
        self._planned = None

    @property
    def metrics(self) -> tuple[str, ...]:
        return self._table.metrics

    def values(self, metric: str) -> Floats:
        table = self._table
        values = table.values(metric)[self._at]
        if self._failed_as is not None and metric in table.scores:
            unscored = np.isin(table.status[self._at], COMPLETED, invert=True)
            values = np.where(unscored, self._failed_as, values)
        return table.units(values)

    @cached_property
    def states(self) -> Array:
        status = self._table.status[self._at]
        if not self._table.by_case:
            # An interrupted cell completed as a task, but without a number.
            return np.where(status == _INTERRUPTED, COMPLETED, status).reshape(-1)
        found = np.zeros(len(status), np.uint8)
        for code in (CANCELLED, FAILED, _INTERRUPTED, COMPLETED):  # the last one there counts
            found[(status == code).any(axis=1)] = COMPLETED if code == _INTERRUPTED else code
        return found

    def is_rate(self, metric: str) -> bool:
        return self._table.is_rate(metric) and not self._table.by_case

    def share(self, status: int) -> float:
        cells = self._table.status[self._at]
        ended = np.count_nonzero(cells)
        return np.count_nonzero(cells == status) / ended if ended else math.nan


def _means(values: Floats) -> Floats:
    """The mean of each case over its repetitions; NaN without any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a case without values
        found: Floats = np.nanmean(values, axis=1)
    return found


def _ks(most: int) -> list[int]:
    """1 to 5, then powers of two, and all."""
    found = {k for k in range(1, most + 1) if k <= _MOST_KS or k & (k - 1) == 0 or k == most}
    return sorted(found)

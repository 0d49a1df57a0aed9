"""Gates of a bench, in the engine's condition language, judged for each variant.

A cell that failed, was interrupted or was cancelled has no score. At a gate it scores 0, unless
leaving it out is stricter: it never helps. A missing score of a cell that completed is left out and
named; a variant without any score meets no condition about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from runyard.doors.workbench.evaluate.table import CellTable, metrics_with
from runyard.errors import UsageError
from runyard.format import count
from runyard.reports.comparing import Compared, CompareOptions, compare_each
from runyard.reports.gates import Gates, GateVerdict
from runyard.spec.status import COMPLETED
from runyard.stats.compare_many import matches
from runyard.stats.conditions import Condition, Scope, parse


@dataclass(frozen=True)
class BenchGate(GateVerdict):
    """The result of a gate."""

    notes: tuple[str, ...] = ()  # about cells without scores

    @property
    def text(self) -> str:
        """The condition with its figures, and what became of cells without scores."""
        return "; ".join([super().text, *self.notes])

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {**super().to_data(), "notes": list(self.notes)}


def check(gates: Iterable[str], variants: Sequence[str], scores: Sequence[str]) -> None:
    """Refuse gates that can't be read, or name what a bench will not have."""
    metric = scores[0] if len(scores) == 1 else None
    pairs = matches(variants) if metric is not None else []
    scope = Scope(variants, metrics_with(scores), pairs, metric)
    for gate in gates:
        parse(gate).within(scope)


def judge(
    table: CellTable,
    gates: Sequence[str],
    metric: str | None = None,
    **options: Unpack[CompareOptions],
) -> list[BenchGate]:
    """Judge gates. `metric` is what `a - b` is about: by default, the only score."""
    if metric is None and len(table.scores) == 1:
        metric = table.scores[0]
    conditions = {gate: parse(gate) for gate in gates}
    if not conditions:
        return []
    if not table.variants:
        raise UsageError("there is no cell to judge", hint="run the bench first")
    strict, mild = (_judged(table, conditions, metric, f, options) for f in (0.0, None))
    found = []
    for counted, left_out in zip(strict, mild, strict=True):
        chosen = counted if left_out.holds else left_out
        notes = tuple(_notes(table, conditions[chosen.gate]))
        found.append(BenchGate(chosen.gate, chosen.each, notes))
    return found


def _judged(
    table: CellTable,
    conditions: dict[str, Condition],
    metric: str | None,
    failed_as: float | None,
    options: CompareOptions,
) -> list[GateVerdict]:
    groups = table.groups(metric, failed_as=failed_as)
    judges = Gates(conditions, groups, **options)
    compared = Compared([], {})
    if metric is not None and len(groups.parts) > 1:
        compared = compare_each(groups, metric, **options)
    return judges.judge(compared)


def _notes(table: CellTable, condition: Condition) -> list[str]:
    names = [name for name in table.scores if name in str(condition)]
    if not names:
        return []
    notes = []
    others = int((table.status != COMPLETED).sum())
    if others:
        notes.append(f"{count(others, 'cell')} did not complete and can't raise a score")
    for name in names:
        missing = int((np.isnan(table.values(name)) & (table.status == COMPLETED)).sum())
        if missing:
            notes.append(f"{count(missing, 'score')} of {name} missing, left out")
    return notes

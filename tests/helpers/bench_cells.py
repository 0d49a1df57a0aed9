"""Cells without a graph, for tests of what is computed from cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.doors.workbench.evaluate.table import CellTable


@dataclass
class FakeCell:
    """What evaluators, tables and files need of a cell."""

    variant: str = "baseline"
    case: str = "case-0"
    repetition: int = 0
    task: int = 0
    attempt: int = 0
    status: str = "completed"
    inputs: Any = None
    output: Any = None
    expected: Any = None
    trajectory: list[str] = field(default_factory=list)
    state: Any = None
    error: str | None = None
    failure: Any = None
    latency: float = 0.5
    tokens: int = 0
    cost: float | None = None
    retries: int = 0
    scores: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    interrupts: list[Any] = field(default_factory=list)

    @property
    def thread_id(self) -> str:
        return f"{self.variant}/{self.case}/{self.repetition}"

    @property
    def content(self) -> Any:
        return [self.inputs, self.expected, self.output, self.trajectory]


def cells_of(
    score: Callable[[int, int, int], float | str | None],
    variants: Sequence[str] = ("a", "b"),
    cases: int = 4,
    repetitions: int = 1,
) -> list[FakeCell]:
    """Cells by a function of the positions: a score, None for a missing one, or a status."""
    made = []
    for v, variant in enumerate(variants):
        for c in range(cases):
            for r in range(repetitions):
                found = score(v, c, r)
                status = found if isinstance(found, str) else "completed"
                value = None if isinstance(found, str) else found
                cell = FakeCell(variant, f"case-{c}", r, status=status, scores={"score": value})
                cell.error = "ValueError: as asked" if status == "failed" else None
                made.append(cell)
    return made


def table_of(cells: Sequence[FakeCell]) -> CellTable:
    """Their table."""
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    cases = list(dict.fromkeys(cell.case for cell in cells))
    return CellTable(cells, variants, cases, 1 + max(cell.repetition for cell in cells))

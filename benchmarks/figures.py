"""A figure, what it must reach, and how figures are shown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """A limit that a figure must reach, or must not pass."""

    limit: float
    at_least: bool

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True)
class Figure:
    """One measured number. Without a target it is shown for information."""

    benchmark: str
    measure: str
    value: float
    unit: str = "×"
    target: Target | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        return None if self.target is None else self.target.holds(self.value)


def at_least(limit: float) -> Target:
    return Target(limit, at_least=True)


def at_most(limit: float) -> Target:
    return Target(limit, at_least=False)


def machine() -> str:
    """The machine in one line, for the head of the table."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    return f"Python {platform.python_version()}, {cores} cores, {system}"


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned text, one a line."""
    head = ("benchmark", "measure", "value", "target", "holds", "measured")
    rows = [head, *(_cells(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def save(figures: Sequence[Figure], path: Path) -> None:
    """Write the figures as one JSON document."""
    document = {"machine": machine(), "figures": [_record(figure) for figure in figures]}
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def rate(per_second: float) -> str:
    """A rate short enough for a table."""
    if per_second >= 100_000:
        return f"{per_second / 1000:,.0f}k/s"
    return f"{per_second / 1000:.1f}k/s" if per_second >= 1000 else f"{per_second:.0f}/s"


def _cells(figure: Figure) -> tuple[str, ...]:
    target, holds = "", ""
    if figure.target is not None:
        sign = "≥" if figure.target.at_least else "≤"
        target = f"{sign} {_number(figure.target.limit, figure.unit)}"
        holds = "yes" if figure.holds else "NO"
    value = _number(figure.value, figure.unit)
    return (figure.benchmark, figure.measure, value, target, holds, figure.note)


def _number(value: float, unit: str) -> str:
    digits = {"×": 2, "s": 2, "%": 1}.get(unit, 0)
    return f"{value:,.{digits}f}{'' if unit == '%' else ' '}{unit}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if column in (2, 3) else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _record(figure: Figure) -> dict[str, object]:
    target = figure.target
    return {
        "benchmark": figure.benchmark,
        "measure": figure.measure,
        "value": round(figure.value, 4),
        "unit": figure.unit,
        "target": None if target is None else target.limit,
        "at_least": None if target is None else target.at_least,
        "holds": figure.holds,
        "measured": figure.note,
    }

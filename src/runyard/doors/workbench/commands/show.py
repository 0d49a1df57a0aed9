"""`runyard workbench show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import command
from runyard.cli.session import Session, style
from runyard.cli.table import table
from runyard.events.plain import json_safe

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.cell import Cell
    from runyard.doors.workbench.bench.result import BenchResult

LONGEST = 100


@command(
    "runyard workbench show qa-1f2e3d4c",
    "runyard workbench show qa-1f2e3d4c/3",
    "runyard workbench show qa-1f2e3d4c/3 --json",
)
@click.argument("cell", metavar="BENCH|CELL")
def show(session: Session, cell: str) -> None:
    """Show a cell: its nodes with their times, its checkpoints and its state; or list a bench's
    cells."""
    from runyard.doors.workbench.bench.recorded import recorded_bench, recorded_cell

    with session.yard() as yard:
        if "/" in cell:
            lines, document = describe(recorded_cell(yard, cell))
        else:
            lines, document = _listed(recorded_bench(yard, cell))
    session.answer("\n".join(lines), document)


def _listed(found: BenchResult) -> tuple[list[str], dict[str, Any]]:
    """The cells of a bench, one in each line."""
    heads = ["cell", "variant", "case", "repetition", "status", *found.metrics]
    rows = [
        [cell.id, cell.variant, cell.case, str(cell.repetition), cell.status,
         *("–" if (score := cell.scores.get(name)) is None else f"{score:g}"
           for name in found.metrics)]
        for cell in found
    ]  # fmt: skip
    return [table(heads, rows, numbers=(3, *range(5, len(heads))))], {
        "batch": found.result.name,
        "cells": [
            {"cell": cell.id, "variant": cell.variant, "case": cell.case,
             "repetition": cell.repetition, "status": cell.status, "scores": cell.scores}
            for cell in found
        ],
    }  # fmt: skip


def describe(cell: Cell) -> tuple[list[str], dict[str, Any]]:
    """A cell as lines of text, and as a document."""
    lines = [
        f"{style(cell.id, bold=True)}  {cell.variant} on {cell.case}, repetition "
        f"{cell.repetition}: {cell.status}"
    ]
    if cell.error:
        lines.append("  " + style(cell.error, fg="red"))
    lines += [f"  asks: {each}" for each in cell.interrupts]
    rows = [
        [name, f"{start:.3f}", "–" if seconds is None else f"{seconds:.3f}"]
        for name, start, seconds in cell.nodes
    ]
    if rows:
        lines.append(table(["node", "at (s)", "took (s)"], rows, numbers=(1, 2)))
    if cell.scores:
        told = [[name, "missing" if value is None else f"{value:g}", cell.reasons.get(name, "")]
                for name, value in cell.scores.items()]  # fmt: skip
        lines.append(table(["score", "value", "reason"], told, numbers=(1,)))
    checkpoints = _checkpoints(cell)
    if checkpoints:
        heads = ["checkpoint", "id", "next"]
        lines.append(table(heads, [[str(n), *each] for n, each in enumerate(checkpoints)]))
    state = cell._value.get("state")
    if isinstance(state, dict):
        lines += [f"  {key}: {_short(value)}" for key, value in state.items()]
    return lines, {
        "cell": cell.id, "variant": cell.variant, "case": cell.case,
        "repetition": cell.repetition, "status": cell.status, "error": cell.error,
        "trajectory": cell.trajectory, "latency": cell.latency, "tokens": cell.tokens,
        "cost": cell.cost, "scores": cell.scores, "reasons": cell.reasons,
        "thread_id": cell.thread_id, "interrupts": json_safe(cell.interrupts),
        "output": json_safe(cell._value.get("output")), "state": json_safe(state),
        "checkpoints": [{"id": id_, "next": following} for id_, following in checkpoints],
    }  # fmt: skip


def _checkpoints(cell: Cell) -> list[list[str]]:
    """The id of each checkpoint, and what comes next where the graph can be loaded."""
    from runyard.doors.workbench.bench.recorded import is_by_name

    if is_by_name(cell):
        return [[each.id, ", ".join(each.next) or "end"] for each in cell.checkpoints()]
    rows = sorted(row.id for row in cell.rows.checkpoints if not row.ns)
    return [[each, ""] for each in rows]


def _short(value: Any) -> str:
    text = str(json_safe(value))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

"""The cells of a bench in the report: an article for each field of the matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from runyard.doors.workbench.bench.cell import Cell
from runyard.doors.workbench.bench.result import BenchResult
from runyard.doors.workbench.report.paths import sequence
from runyard.events.plain import json_safe
from runyard.format import cut, duration
from runyard.reports.html import Html, ReportContext, command, element, facts, join, table
from runyard.reports.html.blocks import number

_LONGEST = 2_000
_LINE = 160
_MOST_REPETITIONS = 20
_MOST_CELLS = 2_000
"""About how many cells are shown in all; each field shows one at least."""


def field_id(variant: int, case: int) -> str:
    """The name of a field's article in the page."""
    return f"cell-{variant}-{case}"


def cell_articles(found: BenchResult, context: ReportContext) -> Iterator[Html]:
    """An article for each field: what its cells were given, returned and scored."""
    variants = {name: at for at, name in enumerate(found.variants)}
    cases = {name: at for at, name in enumerate(found.cases)}
    fields: dict[tuple[str, str], list[Cell]] = {}
    for cell in found.cells:
        fields.setdefault((cell.variant, cell.case), []).append(cell)
    most = max(1, min(_MOST_REPETITIONS, _MOST_CELLS // max(1, len(fields))))
    for (variant, case), cells in fields.items():
        head = element("h3", f"{variant} on {case}", " ", element("a", "close", href="#matrix-0"))
        shown = [_cell(cell, context) for cell in cells[:most]]
        more = len(cells) - len(shown)
        rest = [element("p", f"and {more:,} more repetitions")] if more > 0 else []
        first = facts([
            ("input", _pre(_given(cells[0], "inputs"))),
            ("expected", _pre(_given(cells[0], "expected"))),
        ])  # fmt: skip
        name = field_id(variants[variant], cases[case])
        yield element("article", head, first, *shown, *rest, id=name)


def _cell(cell: Cell, context: ReportContext) -> Html:
    told: list[tuple[str, object]] = [
        ("cell", f"{cell.id}, repetition {cell.repetition}: {cell.status}"),
        ("error", cell.error),
        ("asks", "; ".join(map(str, cell.interrupts)) if cell.status == "interrupted" else None),
        ("output", _pre(cell.recorded_output)),
        ("trajectory", sequence(cell.trajectory)),
        ("latency", duration(cell.latency)),
        ("tokens", f"{cell.tokens:,}" if cell.tokens else None),
        ("cost", None if cell.cost is None else f"${cell.cost:.4g}"),
        ("retries", cell.retries or None),
    ]
    parts = [facts([(name, value) for name, value in told if value is not None])]
    if cell.scores:
        parts.append(_scores(cell))
    parts.append(_times(cell))
    parts.append(element("p", command(context.command("workbench", "show", cell.id))))
    return join(parts)


def _scores(cell: Cell) -> Html:
    rows: list[Sequence[object]] = [
        [
            name,
            "missing" if value is None else number(value, 3),
            cut(cell.reasons.get(name, ""), 500),
        ]
        for name, value in cell.scores.items()
    ]
    return table(["score", "value", "reason"], rows, numbers=[1])


def _times(cell: Cell) -> Html:
    rows = [
        [name, duration(start), "–" if seconds is None else duration(seconds)]
        for name, start, seconds in cell.nodes[:50]
    ]
    if not rows:
        return Html("")
    return element(
        "details",
        element("summary", "Times of nodes"),
        table(["node", "started at", "took"], rows, numbers=[1, 2]),
    )


def _given(cell: Cell, name: str) -> Any:
    """A parameter as recorded: objects that travelled by value are not here."""
    found = cell.source.params.get(name)
    if isinstance(found, dict) and len(found) == 1 and "runyard:by-value" in found:
        return str(found["runyard:by-value"])
    return found


def _pre(value: Any) -> Html | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else _json(value)
    return element("pre", cut(text, _LONGEST))


def _json(value: Any) -> str:
    """On one line where that is short."""
    plain = json_safe(value)
    line = json.dumps(plain, ensure_ascii=False)
    return line if len(line) <= _LINE else json.dumps(plain, ensure_ascii=False, indent=1)

"""The section of a bench in a batch's report; importing this module registers it.

variants ──▶ figures, comparisons ──▶ matrix, each field a link ──▶ the cells of that field
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from runyard.doors.workbench.bench.cell import Cell
from runyard.doors.workbench.bench.recorded import is_bench, result_of
from runyard.doors.workbench.bench.result import BenchResult
from runyard.doors.workbench.evaluate.baseline import SHOWN_IN_REPORT
from runyard.doors.workbench.evaluate.table import VariantSummary
from runyard.doors.workbench.report.cells import cell_articles, field_id
from runyard.doors.workbench.report.paths import drawing, paths_of
from runyard.format import count, duration, plus_minus
from runyard.reports.comparing import compare_each
from runyard.reports.html import (
    Estimate,
    Html,
    ReportContext,
    Section,
    element,
    interval_plot,
    join,
    paragraph,
    register,
    table,
    tiles,
)
from runyard.reports.html.blocks import number

ORDER = 5
MOST_FIELDS = 2_000
"""The largest matrix that is shown; a page with more could not be read."""

MOST_PATHS = 12
"""The most variants whose trajectories are drawn."""

_STYLE = Html("""
.matrix td { text-align: center; min-width: 4.5rem !important; padding: .2rem .3rem; }
.matrix td a { display: block; padding: .25rem .4rem; border-radius: 4px; color: var(--ink);
  text-decoration: none; border: 1px solid var(--line); }
.matrix td a:hover, .matrix td a:focus-visible { border-color: var(--deep); }
.matrix a.bad { border: 1px solid var(--bad); color: var(--bad); }
.matrix a.bad::before { content: "✕ "; }
.cells > article { display: none; border-left: 4px solid var(--deep); padding: .25rem 0 .25rem 1rem;
  margin: 1rem 0; scroll-margin-top: 40vh; }
.cells > article:target { display: block; }
@media print { .cells > article { display: block; } }
""")


def bench_section(context: ReportContext) -> Section | None:
    """The scores of a bench, its matrix and its cells."""
    found = result_of(context.result)
    if not found.cells:
        return None
    metrics = found.metrics or ["latency"]
    parts = [
        element("style", _STYLE),
        _tiles(found),
        _figures(found, metrics),
        *_comparisons(found),
        *_baseline(context.folder),
    ]
    if len(found.variants) * len(found.cases) <= MOST_FIELDS:
        parts += [_matrix(found, metric, at) for at, metric in enumerate(metrics)]
        parts.append(paragraph("A field leads to its cells, which appear below.", class_="aside"))
        parts.append(element("div", *cell_articles(found, context), class_="cells"))
    else:
        parts.append(paragraph("The matrix is too large to be shown; "
                               "export has it: runyard export.", class_="aside"))  # fmt: skip
    parts.append(element("h3", "Trajectories"))
    for variant in found.variants[:MOST_PATHS]:
        shown = [cell for cell in found.cells if cell.variant == variant and cell.nodes]
        ended = [cell.nodes for cell in shown if cell.status == "completed"]
        stopped = [cell.nodes for cell in shown if cell.status != "completed"]
        if shown:
            parts.append(drawing(paths_of(ended, stopped), variant))
    if len(found.variants) > MOST_PATHS:
        parts.append(paragraph(f"Only the first {MOST_PATHS} variants are drawn.", class_="aside"))
    return Section("Workbench", join(parts), order=ORDER)


def _tiles(found: BenchResult) -> Html:
    counted = {
        status: sum(cell.status == status for cell in found.cells)
        for status in ("completed", "failed", "interrupted", "cancelled")
    }
    costs = [cell.cost for cell in found.cells]
    known = [cost for cost in costs if cost is not None]
    tokens = sum(cell.tokens for cell in found.cells)
    shown = [("cells completed", f"{counted['completed']:,} of {len(found.cells):,}", "")]
    shown += [
        (name, f"{counted[name]:,}", "bad")
        for name in ("failed", "interrupted", "cancelled")
        if counted[name]
    ]
    shown.append(("seconds of graphs", duration(sum(c.latency for c in found.cells)), ""))
    if tokens:
        shown.append(("tokens", f"{tokens:,}", ""))
    if known:
        shown.append(("cost", f"${sum(known):.4g}", ""))
    return tiles(shown)


def _figures(found: BenchResult, metrics: Sequence[str]) -> Html:
    """A row for each variant and score, with cost and latency beside."""
    summaries = [summary for metric in metrics for summary in found.summaries(metric)]
    ks = sorted({k for each in summaries for k in each.pass_at if k > 1})[:3]
    heads = ["variant", "score", "mean", "passed", "missing", "latency", "tokens", "cost"]
    heads[5:5] = [f"pass{sign}{k}" for k in ks for sign in ("@", "^")]
    rows = [_row(found, each, ks) for each in summaries]
    return table(heads, rows, numbers=range(2, len(heads)), caption="Variants", sortable=True)


def _row(found: BenchResult, summary: VariantSummary, ks: Sequence[int]) -> list[object]:
    variant, passed = summary.variant, summary.passed
    mean = number(summary.mean, 3)
    if summary.mean is not None and summary.interval is not None and summary.interval.half > 0:
        low, high = (number(end, 2) for end in (summary.interval.low, summary.interval.high))
        mean = (
            plus_minus(summary.mean, summary.interval.half)
            if summary.interval.method == "t"
            else f"{mean} ({low} to {high})"
        )
    rate = "–"
    if passed is not None:
        ends = passed.interval()
        rate = f"{passed.value:.0%} ({ends.low:.0%} to {ends.high:.0%})"
    measured = [found.table.summary(variant, name).mean for name in ("latency", "tokens", "cost")]
    latency, tokens, cost = measured
    return [
        variant, summary.metric, mean, rate, f"{summary.missing:,}" if summary.missing else "",
        *(number(values.get(k), 2) for k in ks for values in (summary.pass_at, summary.pass_all)),
        "–" if latency is None else duration(latency), number(tokens, 0),
        "–" if cost is None else f"${cost:.4g}",
    ]  # fmt: skip


def _comparisons(found: BenchResult) -> list[Html]:
    """The differences between variants on the same cases, in words and as a chart."""
    if len(found.variants) < 2:
        return []
    parts = []
    for metric in found.metrics:
        groups = found.table.groups(metric)
        made = compare_each(groups, metric, baseline=found.variants[0], better=found.better(metric))
        compared = made.found
        parts += [
            paragraph(f"{metric} is not compared: {why}", class_="aside")
            for why in made.missing.values()
        ]
        if not compared:
            continue
        words = [
            element("li", f"{metric}: ", each.words(), _left_out(each.left_out_words()))
            for each in compared
        ]
        plot = [
            Estimate(f"{each.a} − {each.b}", each.interval.low, each.effect, each.interval.high,
                     f"p = {each.p_text}")
            for each in compared
        ]  # fmt: skip
        parts.append(element("ul", *words, class_="words"))
        if any(each.interval.half for each in compared):
            parts.append(
                interval_plot(f"Differences of {metric} on the same cases", plot, zero=True)
            )
    return [element("h3", f"Compared with {found.variants[0]}"), *parts] if parts else []


def _left_out(text: str) -> Html | str:
    return element("span", f" ({text})", class_="aside") if text else ""


def _baseline(folder: Path) -> list[Html]:
    """What differed from the baseline file at the last run."""
    try:
        found = json.loads((folder / SHOWN_IN_REPORT).read_text(encoding="utf-8"))
        lines = [str(line) for line in found["lines"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    items = [element("li", line) for line in lines[1:]]
    return [
        element("h3", "Differences from the baseline"),
        paragraph(f"{lines[0].removeprefix('baseline: ').capitalize()} ({found['path']}).",
                  class_="warning" if found["worse"] else None),
        *([element("ul", *items, class_="words")] if items else []),
    ]  # fmt: skip


def _matrix(found: BenchResult, metric: str, at: int) -> Html:
    """A metric by case and variant; each field is a link to its cells."""
    values = found.matrix(metric)
    cells: dict[tuple[str, str], list[Cell]] = {}
    for cell in found.cells:
        cells.setdefault((cell.variant, cell.case), []).append(cell)
    is_rate = found.table.is_rate(metric)
    rows: list[list[object]] = []
    for c, case in enumerate(found.cases):
        row: list[object] = [case]
        for v, variant in enumerate(found.variants):
            here = cells.get((variant, case), [])
            value = values[variant].get(case)
            bad = any(cell.status != "completed" for cell in here)
            text = _field(here, value)
            is_bad = bad or (is_rate and value is not None and value < 1)
            row.append(
                element("a", text, href=f"#{field_id(v, c)}", class_="bad" if is_bad else None,
                        title=f"{variant} on {case}: {count(len(here), 'cell')}",
                        style=_shade(value) if is_rate else None)
                if here else "–"
            )  # fmt: skip
        rows.append(row)
    made = table(["case", *found.variants], rows, caption=f"{metric}, by case and variant")
    return element("div", made, class_="matrix", id=f"matrix-{at}")


def _field(cells: Sequence[Cell], value: float | None) -> str:
    if value is not None:
        done = sum(cell.status == "completed" for cell in cells)
        return number(value, 2) + (f" ({done} of {len(cells)})" if done < len(cells) else "")
    statuses = list(dict.fromkeys(cell.status for cell in cells))
    return "missing" if statuses == ["completed"] else ", ".join(statuses)


def _shade(value: float | None) -> str | None:
    """The higher a share, the more colour; the figure says the same."""
    if value is None:
        return None
    return f"background:color-mix(in srgb, var(--fill) {round(60 * value)}%, transparent)"


register(is_bench, bench_section)

"""Tables as aligned text, and summaries of metrics as the rows of one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from runyard.format import cut, plus_minus, show
from runyard.plaintext import one_line
from runyard.reports.export import text_of

if TYPE_CHECKING:
    from runyard.reports.metrics import Group
    from runyard.stats.summary import Summary

NARROWEST = 8
_GAP = 2
QUANTILES = (0.05, 0.5, 0.95)


class SummaryTable(NamedTuple):
    """The cells of a table."""

    heads: list[str]
    cells: list[list[str]]
    numbers: range  # columns aligned right


def aligned(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[int] = (),
    width: int | None = None,
) -> list[str]:
    """A line for the heads and one per row; the last column is shortened to fit the width."""
    cells = [[one_line(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(text) for text in column) for column in zip(*cells, strict=True)]
    if width is not None:
        before = sum(widths[:-1]) + _GAP * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(NARROWEST, width - before))
    return [_line(row, widths, numbers) for row in cells]


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Collection[int]) -> str:
    shown = []
    for position, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = cut(cell, width)
        shown.append(text.rjust(width) if position in numbers else text.ljust(width))
    return (" " * _GAP).join(shown).rstrip()


def summary_rows(groups: Sequence[Group]) -> SummaryTable:
    """A row for each metric of each group."""
    labels = list(groups[0].labels) if groups else []
    cells = [
        [*(text_of(value) for value in group.labels.values()), metric, *_figures(summary)]
        for group in groups
        for metric, summary in group.summaries.items()
    ]
    heads = [*labels, "metric", "mean", "sd", "min", "5%", "median", "95%", "max", "n"]
    first = len(labels) + 1
    return SummaryTable(heads, cells, range(first, len(heads)))


def notebook_html(
    lines: Sequence[str], groups: Sequence[Group], seed: int, digest: str | None
) -> str:
    """A batch in a notebook: lines, the table of its groups, seed and digest."""
    from runyard.reports.html.blocks import element, join

    parts = [element("p", line) for line in lines]
    if groups and groups[0].summaries:
        rows = summary_rows(groups)
        heads = element("tr", *(element("th", head) for head in rows.heads))
        body = [element("tr", *(element("td", cell) for cell in row)) for row in rows.cells]
        parts.append(element("table", element("thead", heads), element("tbody", *body)))
    if digest is not None:
        parts.append(element("p", f"seed {seed}, digest ", element("code", digest[:16])))
    return join(parts)


def _figures(summary: Summary) -> list[str]:
    if not summary.count:
        return ["–"] * 7 + ["0"]
    moments, interval, rate = summary.moments, summary.interval(), summary.rate
    mean = show(summary.mean) if interval is None else plus_minus(summary.mean, interval.half)
    if interval is not None and rate is not None:  # whose interval is not symmetric
        mean = f"{rate.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"
    low, middle, high = (show(summary.quantiles.quantile(q)) for q in QUANTILES)
    sd = show(moments.sd, 3) if summary.count > 1 else "–"
    ends = show(moments.minimum), show(moments.maximum)
    return [mean, sd, ends[0], low, middle, high, ends[1], f"{summary.count:,}"]

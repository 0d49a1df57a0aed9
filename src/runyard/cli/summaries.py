"""Summaries of metrics, for `results`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runyard.cli.session import Session
from runyard.cli.table import table
from runyard.errors import NotFound

if TYPE_CHECKING:
    from runyard.reports.result import Result
    from runyard.stats.summary import Summary


def show_summaries(
    session: Session, result: Result, metrics: Sequence[str], by: str | None
) -> None:
    """Show each metric's figures by group, as a table or JSON lines."""
    from runyard.reports.text import summary_rows
    from runyard.spec.shown import jsonable

    names = [name.strip() for name in by.split(",")] if by else []
    groups = result.summaries(metrics or None, names)
    if not groups or not groups[0].summaries:
        raise NotFound(f"the tasks of {result.name} return no numbers")
    for group in groups:
        for metric, summary in group.summaries.items():
            labels = jsonable(group.labels)
            session.document({"labels": labels, "metric": metric, **figures(summary)})
    rows = summary_rows(groups)
    session.say(table(rows.heads, rows.cells, numbers=rows.numbers))


def figures(summary: Summary) -> dict[str, Any]:
    """A summary as plain JSON; missing figures are null."""
    moments, interval = summary.moments, summary.interval()
    return {
        "count": summary.count,
        "missing": summary.missing,
        "mean": moments.mean if summary.count else None,
        "low95": None if interval is None else interval.low,
        "high95": None if interval is None else interval.high,
        "sd": moments.sd if summary.count > 1 else None,
        "min": moments.minimum if summary.count else None,
        "max": moments.maximum if summary.count else None,
        "quantiles": {
            str(q): summary.quantiles.quantile(q) if summary.count else None
            for q in (0.05, 0.25, 0.5, 0.75, 0.95)
        },
    }

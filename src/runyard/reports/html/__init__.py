"""The HTML report: one file that holds everything, makes no requests, and can be printed.

    record, audit log ──▶ ReportContext ──▶ sections ──▶ page ──▶ report.html

Applications add sections with `register`, made of the blocks and charts here, which escape.
"""

from __future__ import annotations

from runyard.reports.html.blocks import (
    Html,
    command,
    details,
    element,
    facts,
    join,
    paragraph,
    safe,
    table,
    tiles,
)
from runyard.reports.html.charts import (
    Estimate,
    Row,
    Scale,
    bar_chart,
    chart,
    histogram,
    interval_plot,
)
from runyard.reports.html.context import Maker, ReportContext, Section, register, unregister
from runyard.reports.html.page import write_report

__all__ = [  # noqa: RUF022 - grouped by what they are for
    "write_report",
    # Additional sections
    "Section", "ReportContext", "Maker", "register", "unregister",
    # Blocks
    "Html", "safe", "join", "element", "paragraph", "command", "facts", "tiles", "table", "details",
    # Charts
    "histogram", "bar_chart", "interval_plot", "Estimate", "chart", "Row", "Scale",
]  # fmt: skip

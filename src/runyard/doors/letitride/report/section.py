"""This game's section of a batch's HTML report; importing this module registers it."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from runyard.doors.letitride.engine.blocks import SimulationJob
from runyard.doors.letitride.report import charts
from runyard.doors.letitride.report.hands import trajectories
from runyard.doors.letitride.report.results import SimulationResults, results_of
from runyard.doors.letitride.report.text import LABELS, hand_rows
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
from runyard.reports.html import write_report as write_batch_report
from runyard.reports.html.blocks import number
from runyard.store.stored_batch import StoredBatch

if TYPE_CHECKING:
    from runyard.doors.letitride.report.aggregate import Aggregate

_RESULTS: ContextVar[SimulationResults | None] = ContextVar("letitride_results", default=None)


def write_report(results: SimulationResults, path: Path | None = None) -> Path:
    """Write the report of a simulation, by default to its batch's folder; return its path."""
    folder = results.result.folder
    assert folder is not None
    before = _RESULTS.set(results)
    try:
        return write_batch_report(results.result, folder, path, yard=str(folder.parent.parent))
    finally:
        _RESULTS.reset(before)


def is_simulation(recorded: StoredBatch) -> bool:
    """Whether the tasks of a batch are blocks of sessions."""
    return recorded.plan is not None and set(recorded.plan.fixed) == set(
        SimulationJob.__struct_fields__
    )


def section(context: ReportContext) -> Section | None:
    """The section; None before the first block is done."""
    if not context.stats.completed:
        return None
    return _section(_RESULTS.get() or results_of(context.result))


def _section(results: SimulationResults) -> Section:
    """The aggregate of the sessions, next to the exact figures."""
    found = results.aggregate
    parts = [_tiles(found), _figures(found)]
    if results.config.output.formats.html.include_charts:
        drawings = [
            charts.profits(charts.TITLES["session_outcomes_histogram"], found),
            charts.hands(charts.TITLES["hand_frequency"], found),
        ]
        if found.bonus_wagered:
            drawings.append(charts.bonus_impact(charts.TITLES["bonus_impact"], found))
        if not results.has_own_players:
            paths = trajectories(results, charts.SAMPLE)
            drawings.append(charts.trajectories(charts.TITLES["bankroll_trajectory"], paths))
        parts += [
            element("figure", element("div", drawing, class_="scroll", tabindex=0))
            for drawing in drawings
        ]
    parts.append(_hands(found))
    return Section("Let It Ride", join(parts), order=5)


def _tiles(found: Aggregate) -> Html:
    profit = found.profit.moments
    return tiles(
        [
            ("sessions", f"{found.sessions:,}", ""),
            ("hands", f"{found.hands:,}", ""),
            ("sessions won", f"{found.outcomes['win'] / found.rows:.2%}", ""),
            ("out of money", f"{int(found.stops[-1]) / found.rows:.2%}", ""),
            ("mean profit, $", number(profit.mean, 2), ""),
            ("median profit, $", number(found.profit.quantiles.median, 2), ""),
        ]
    )


def _figures(found: Aggregate) -> Html:
    rows, estimates = [], []
    for name, told in found.figures().items():
        value, low, high = (told[key] or 0.0 for key in ("value", "low", "high"))
        exact, z = told.get("exact"), told.get("z")
        rows.append(
            [
                LABELS[name].strip(), f"{value:z.5f}", f"{low:z.5f} to {high:z.5f}",
                "" if exact is None else f"{exact:z.5f}", "" if z is None else f"{z:+z.2f}",
            ]
        )  # fmt: skip
        if exact is not None and name.endswith(("ev_per_hand", "risk")):
            label, note = f"{LABELS[name].strip()} − exact", "" if z is None else f"z {z:+z.2f}"
            estimates.append(Estimate(label, low - exact, value - exact, high - exact, note))
    chi, p = found.chi_square()
    heads = ["figure", "simulated", "95% interval", "exact", "difference, in standard errors"]
    hands = paragraph(f"Hand frequencies against the exact counts: χ² = {chi:.1f}, p = {p:.2g}.")
    plot = interval_plot("Simulated − exact", estimates, zero=True) if estimates else ""
    return join((table(heads, rows, numbers=[1, 3, 4]), hands, plot))


def _hands(found: Aggregate) -> Html:
    rows = [
        [name, f"{count:,}", f"{share:.6%}", f"{exact:.6%}"]
        for name, count, share, exact in hand_rows(found)
    ]
    return table(["hand", "times", "share", "exact share"], rows, numbers=[1, 2, 3])


register(is_simulation, section)

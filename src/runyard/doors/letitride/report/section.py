"""Registers this game's section with the HTML report; importing this module does so."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

from runyard.doors.letitride.engine.blocks import SimulationJob
from runyard.doors.letitride.report.results import SimulationResults, results_of
from runyard.doors.letitride.report.simulation import simulation_section
from runyard.reports.html import ReportContext, Section, register
from runyard.reports.html import write_report as write_batch_report
from runyard.store.stored_batch import StoredBatch

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
    return simulation_section(_RESULTS.get() or results_of(context.result))


register(is_simulation, section)

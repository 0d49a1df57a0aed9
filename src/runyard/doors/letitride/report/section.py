"""Registers what this game adds to the report of a batch of its sessions, whoever asks for it."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

from runyard.doors.letitride.engine.blocks import SimulationJob
from runyard.doors.letitride.report.results import SimulationResults, results_of
from runyard.doors.letitride.report.simulation import simulation_section
from runyard.reports.html import ReportContext, Section, register
from runyard.reports.html import write_report as write_batch_report
from runyard.store.stored_batch import StoredBatch

_AT_HAND: ContextVar[SimulationResults | None] = ContextVar("letitride_results", default=None)


def write_report(results: SimulationResults, path: Path | None = None) -> Path:
    """Write the report of a simulation, by default among its batch's files; where it is."""
    folder = results.result.folder
    assert folder is not None
    before = _AT_HAND.set(results)
    try:
        return write_batch_report(results.result, folder, path, yard=str(folder.parent.parent))
    finally:
        _AT_HAND.reset(before)


def is_simulation(recorded: StoredBatch) -> bool:
    """Whether the tasks of a batch are blocks of sessions."""
    return recorded.plan is not None and set(recorded.plan.fixed) == set(
        SimulationJob.__struct_fields__
    )


def section(context: ReportContext) -> Section | None:
    """What the sessions add up to; nothing before the first block is done."""
    if not context.stats.completed:
        return None
    return simulation_section(_AT_HAND.get() or results_of(context.result))


register(is_simulation, section)

"""Cells of batches that this process did not run."""

from __future__ import annotations

from runyard.doors.workbench.bench.cell import Cell, Source
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.doors.workbench.run.program import BY_VALUE, CellProgram
from runyard.doors.workbench.run.session import thread_of
from runyard.doors.workbench.tape.file import places
from runyard.doors.workbench.tape.records import beside, read
from runyard.errors import NotFound, UsageError
from runyard.spec.plan import Plan
from runyard.yard import Yard


def recorded_cell(yard: Yard, text: str) -> Cell:
    """A cell by its id, `batch/task`."""
    name, slash, number = text.rpartition("/")
    if not slash or not number.isdigit():
        raise UsageError(f"{text!r} is not a cell", hint="write BATCH/TASK, such as bench-1f2e/3")
    result = yard.results(name)
    recorded = result.recorded
    if recorded.target is None or "doors.workbench" not in recorded.target.ref:
        raise NotFound(f"{name} is not a batch of the workbench")
    outcome = result.outcome(int(number))
    plan = recorded.plan
    assert isinstance(plan, Plan)
    folder = yard.batch_folder(name)
    program = CellProgram({}, CellSettings(**outcome.params["settings"]))
    source = Source(folder, program, outcome.params)
    thread = thread_of(name, outcome.task, outcome.attempt)
    found = places(folder, outcome.task, outcome.attempt, outcome.worker)
    records = (read(beside(place)).get((thread, outcome.worker)) for place in found)
    record = next((each for each in records if each is not None), None)
    return Cell(outcome, source, plan.replicate(outcome.task), record)


def is_by_name(cell: Cell) -> bool:
    """Whether its graph can be found by import, as `fork` needs it."""
    params = cell.source.params
    references = [params["graph"], *params["nodes"].values()]
    return not any(each.startswith(BY_VALUE) for each in references)

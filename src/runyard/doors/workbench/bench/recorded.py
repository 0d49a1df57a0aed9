"""Cells of batches that this process did not run."""

from __future__ import annotations

from runyard.doors.workbench.bench.cell import Cell, Source
from runyard.doors.workbench.bench.result import BenchResult
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.doors.workbench.evaluate.scores import FILE, ScoreBook
from runyard.doors.workbench.run.program import BY_VALUE, CellProgram
from runyard.doors.workbench.run.session import thread_of
from runyard.doors.workbench.tape.file import places
from runyard.doors.workbench.tape.records import beside, read
from runyard.errors import NotFound, UsageError
from runyard.reports.result import Result
from runyard.spec.plan import Plan
from runyard.store.stored_batch import StoredBatch
from runyard.yard import Yard

_OURS = "runyard.doors.workbench."


def recorded_bench(yard: Yard, name: str) -> BenchResult:
    """A bench by the name of its batch."""
    return result_of(yard.results(name))


def result_of(result: Result) -> BenchResult:
    """The bench of a batch's result."""
    plan, names = _checked(result), {}
    for axis, order in zip(plan.axes, plan.order, strict=True):
        if axis.role in ("variant", "case"):
            places = range(len(axis.values)) if order is None else order
            names[axis.role] = [str(axis.params(at)[axis.role]) for at in places]
    settings = CellSettings(**plan.fixed["settings"])
    return BenchResult(result, CellProgram({}, settings), names["variant"], names["case"])


def recorded_cell(yard: Yard, text: str) -> Cell:
    """A cell by its id, `batch/task`."""
    name, slash, number = text.rpartition("/")
    if not slash or not number.isdigit():
        raise UsageError(f"{text!r} is not a cell", hint="write BATCH/TASK, such as bench-1f2e/3")
    result = yard.results(name)
    plan = _checked(result)
    outcome = result.outcome(int(number))
    folder = yard.batch_folder(name)
    program = CellProgram({}, CellSettings(**outcome.params["settings"]))
    source = Source(folder, program, outcome.params)
    thread = thread_of(name, outcome.task, outcome.attempt)
    found = places(folder, outcome.task, outcome.attempt, outcome.worker)
    records = (read(beside(place)).get((thread, outcome.worker)) for place in found)
    record = next((each for each in records if each is not None), None)
    cell = Cell(outcome, source, plan.replicate(outcome.task), record)
    ScoreBook(folder / FILE).apply([cell])
    return cell


def is_bench(recorded: StoredBatch) -> bool:
    """Whether a batch is one of the workbench."""
    return recorded.target is not None and recorded.target.ref.startswith(_OURS)


def _checked(result: Result) -> Plan:
    recorded = result.recorded
    if not is_bench(recorded):
        raise NotFound(f"{recorded.name} is not a batch of the workbench")
    plan = recorded.plan
    assert isinstance(plan, Plan)
    return plan


def is_by_name(cell: Cell) -> bool:
    """Whether its graph can be found by import, as `fork` needs it."""
    params = cell.source.params
    references = [params["graph"], *params["nodes"].values()]
    return not any(each.startswith(BY_VALUE) for each in references)

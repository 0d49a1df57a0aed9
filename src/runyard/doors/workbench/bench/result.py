"""The results of a bench: its cells in order, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from runyard.doors.workbench.bench.cell import Cell, Source
from runyard.doors.workbench.bench.evaluated import Evaluated
from runyard.doors.workbench.evaluate.matrix import Matrix
from runyard.doors.workbench.evaluate.scores import metric_of
from runyard.doors.workbench.run.program import CellProgram
from runyard.doors.workbench.tape.records import read_all
from runyard.errors import NotFound
from runyard.reports.result import Result
from runyard.spec.names import did_you_mean
from runyard.spec.plan import Plan


class BenchResult(Evaluated):
    """The cells of a batch: variants outermost, then cases, then repetitions."""

    def __init__(
        self, result: Result, program: CellProgram, variants: Sequence[str], cases: Sequence[str]
    ) -> None:
        self.result = result  # the engine's, with statistics, failures and report
        self.variants = list(variants)
        self.cases = list(cases)
        self._program = program

    @property
    def name(self) -> str:
        """The name of the batch."""
        return self.result.name

    @property
    def digest(self) -> str | None:
        """A hash of all outputs and states; None while a cell is unfinished."""
        return self.result.digest

    @cached_property
    def cells(self) -> list[Cell]:  # type: ignore[override]
        """The cells that have an outcome."""
        plan = self.result.recorded.plan
        assert isinstance(plan, Plan)
        folder = self.result.folder
        assert folder is not None
        records = read_all(folder)
        order = {name: at for at, name in enumerate(self.variants)}
        cases = {name: at for at, name in enumerate(self.cases)}
        found = []
        for outcome in self.result.outcomes():
            if outcome.params["variant"] not in order or outcome.params["case"] not in cases:
                continue  # an earlier run with the same name had more
            source = Source(folder, self._program, outcome.params)
            cell = Cell(outcome, source, plan.replicate(outcome.task), None)
            cell._record = records.get((cell.thread_id, cell.worker), {})
            found.append(cell)
        found.sort(key=lambda each: (order[each.variant], cases[each.case], each.repetition))
        self.scorebook.apply(found)
        return found

    def cell(self, *, variant: Any, case: Any, repetition: int = 0) -> Cell:
        """One cell."""
        for each in self.cells:
            if (each.variant, each.case, each.repetition) == (variant, case, repetition):
                return each
        known = self.cases if variant in self.variants else self.variants
        wanted = case if variant in self.variants else variant
        raise NotFound(
            f"{self.name} has no cell of variant {variant!r} on case {case!r}, repetition "
            f"{repetition}{did_you_mean(str(wanted), known)}",
            hint=f"variants: {', '.join(self.variants)}; cases: {', '.join(self.cases[:10])}",
        )

    def matrix(self, metric: str) -> Matrix:
        """A metric's mean over repetitions, by variant and case; None where it is missing.

        It is a dict of dicts that prints as a table.
        A metric is a score's name, or one of latency, tokens, cost, retries and interrupted.
        """
        self.table.check(metric)
        return Matrix(
            (variant, {case: self._mean(metric, variant, case) for case in self.cases})
            for variant in self.variants
        )

    def fresh(self) -> BenchResult:
        """The same result with cells of its own."""
        return BenchResult(self.result, self._program, self.variants, self.cases)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report; return its path."""
        # By name, since sections are made of results.
        import_module("runyard.doors.workbench.hooks").register_sections()
        return self.result.report(path)

    def _mean(self, metric: str, variant: str, case: str) -> float | None:
        values = [metric_of(cell, metric) for cell in self._by_pair.get((variant, case), [])]
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    @cached_property
    def _by_pair(self) -> dict[tuple[str, str], list[Cell]]:
        found: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.cells:
            found.setdefault((cell.variant, cell.case), []).append(cell)
        return found

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __getitem__(self, at: int) -> Cell:
        return self.cells[at]

    def __repr__(self) -> str:
        return f"<BenchResult {self.result.headline()}>"

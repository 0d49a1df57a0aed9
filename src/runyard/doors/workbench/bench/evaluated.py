"""What the scores of a bench say: figures of variants, comparisons, gates, baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from runyard.doors.workbench.evaluate.evaluators import Better, Evaluator
from runyard.doors.workbench.evaluate.scores import FILE, ScoreBook
from runyard.doors.workbench.evaluate.table import CellTable, VariantSummary
from runyard.errors import UsageError
from runyard.events import TaskEmitted, to_record
from runyard.events.audit import AuditLog
from runyard.format import listed
from runyard.spec.plan import Plan
from runyard.stats.agreement import Agreement, Weights, cohen_kappa

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.cell import Cell
    from runyard.doors.workbench.evaluate.baseline import Changes
    from runyard.doors.workbench.evaluate.gates import BenchGate
    from runyard.doors.workbench.evaluate.judge import PairJudge
    from runyard.doors.workbench.evaluate.preferences import Preferences
    from runyard.reports.comparing import CompareOptions
    from runyard.reports.result import Result
    from runyard.stats.compare_result import Comparison


class Evaluated:
    """The part of a `BenchResult` that is about scores."""

    result: Result
    variants: list[str]
    cases: list[str]
    cells: list[Cell]

    @cached_property
    def scorebook(self) -> ScoreBook:
        """The scores as they are kept."""
        assert self.result.folder is not None
        return ScoreBook(self.result.folder / FILE)

    def evaluate(
        self, evaluators: Sequence[Evaluator], *, again: bool = False
    ) -> list[TaskEmitted]:
        """Score the cells; `again` asks judges a second time, too.

        What is new goes to the audit log, and is returned as events.
        """
        news = self.scorebook.evaluate(self.cells, evaluators, again=again)
        events = [
            TaskEmitted(
                batch=self.result.name, task=cell.task, attempt=cell.attempt, kind="score",
                data={"evaluator": name, "score": score.value, "reason": score.reason},
            )
            for cell, name, score in news
        ]  # fmt: skip
        assert self.result.folder is not None
        AuditLog(self.result.folder / "events.jsonl").append(map(to_record, events))
        for cell in self.cells:
            cell.scores.clear()
            cell.reasons.clear()
        self.scorebook.apply(self.cells)
        vars(self).pop("table", None)
        return events

    @cached_property
    def table(self) -> CellTable:
        """The cells as numbers."""
        plan = self.result.recorded.plan
        assert isinstance(plan, Plan)
        most = max((cell.repetition for cell in self.cells), default=0)
        return CellTable(self.cells, self.variants, self.cases, max(plan.replicates, most + 1))

    @property
    def metrics(self) -> list[str]:
        """The scores."""
        return self.table.scores

    def summaries(
        self, metric: str | None = None, *, passing: float | None = None
    ) -> list[VariantSummary]:
        """Each variant's mean with its interval, pass rate, pass@k and pass^k, and what is missing.

        A cell passes with a score of `passing` or more; by default, with 1 where all are 0 or 1.
        """
        metric = self._metric(metric)
        return [self.table.summary(variant, metric, passing) for variant in self.variants]

    def compare(
        self,
        metric: str | None = None,
        *,
        variants: Sequence[str] | None = None,
        failed_as: float | None = None,
        **options: Unpack[CompareOptions],
    ) -> list[Comparison]:
        """Compare variants on the same cases: effect, interval, p, and the detectable difference.

        Every pair, or each variant with `baseline`; p is corrected for their number. Cells without
        a score are left out, with their partners, and named; with `failed_as=0`, those that did not
        complete score 0 instead.
        """
        from runyard.reports.comparing import compare_groups

        metric = self._metric(metric)
        options.setdefault("better", self.better(metric))
        groups = self.table.groups(metric, variants, failed_as=failed_as)
        return compare_groups(groups, metric, **options)

    def prefer(self, judge: PairJudge, a: str, b: str) -> Preferences:
        """Let a judge choose between the outputs of two variants, on the same cases."""
        from runyard.doors.workbench.evaluate.preferences import prefer

        others = {(c.case, c.repetition): c for c in self.cells if c.variant == b}
        pairs = [
            (cell, others[cell.case, cell.repetition])
            for cell in self.cells
            if cell.variant == a and (cell.case, cell.repetition) in others
        ]
        if not pairs:
            raise UsageError(
                f"{a} and {b} have no cells on the same cases",
                hint=f"the variants are: {', '.join(self.variants)}",
            )
        return prefer(pairs, judge, a, b)

    def agreement(
        self,
        metric: str,
        labels: Mapping[Any, Any] | str,
        *,
        passing: float | None = None,
        weights: Weights = "none",
    ) -> Agreement:
        """How far a score agrees with people's labels, as Cohen's kappa.

        `labels` is another score, or labels by cell id, by (variant, case) or by case. With
        `passing`, both sides are pass or fail; cells without a score or a label are counted.
        """
        first = [cell.scores.get(self._metric(metric)) for cell in self.cells]
        second: list[Any]
        if isinstance(labels, str):
            second = [cell.scores.get(self._metric(labels)) for cell in self.cells]
        else:
            keys = ([c.id, (c.variant, c.case, c.repetition), (c.variant, c.case), c.case]
                    for c in self.cells)  # fmt: skip
            second = [next((labels[key] for key in each if key in labels), None) for each in keys]
        if passing is not None:
            first, second = (
                [None if value is None else value >= passing for value in side]
                for side in (first, second)
            )
        return cohen_kappa(first, second, weights)

    def better(self, metric: str) -> Better:
        """Which direction of a metric is better."""
        rule = self.scorebook.rules.get(metric)
        if rule is None:
            return "higher" if metric in self.metrics else "lower"
        return rule.better

    def gate(
        self, *conditions: str, metric: str | None = None, **options: Unpack[CompareOptions]
    ) -> list[BenchGate]:
        """Judge conditions such as `score >= 0.8`, for each variant.

        Cells that failed or were interrupted count against them.
        """
        from runyard.doors.workbench.evaluate.gates import judge

        return judge(self.table, conditions, metric, **options)

    def write_baseline(self, path: str | Path) -> None:
        """Write the scores to a baseline file."""
        from runyard.doors.workbench.evaluate.baseline import write_baseline

        write_baseline(Path(path), self.baseline())

    def baseline(self) -> dict[str, Any]:
        """The scores as a baseline file has them."""
        from runyard.doors.workbench.evaluate.baseline import baseline_of

        return baseline_of(self.table, self.scorebook.rules, self.result.name)

    def changes(self, path: str | Path) -> Changes:
        """What is different from a baseline file, and what got worse."""
        from runyard.doors.workbench.evaluate.baseline import changes_since, read_baseline

        before = read_baseline(Path(path))
        if before is None:
            raise UsageError(f"there is no baseline {path}", hint="write one: write_baseline(path)")
        return changes_since(before, self.baseline())

    def changes_since(self, before: Evaluated) -> Changes:
        """What is different from an earlier bench."""
        from runyard.doors.workbench.evaluate.baseline import changes_since

        return changes_since(before.baseline(), self.baseline())

    def junit(
        self, path: str | Path, *, gates: Sequence[BenchGate] = (), passing: float | None = None
    ) -> Path:
        """Write JUnit XML, one testcase a cell; return its path."""
        from runyard.doors.workbench.evaluate.junit import write_junit

        row = self.result.recorded.row
        write_junit(
            Path(path), self.result.name, self.cells, self.table,
            gates=gates, passing=passing, at=row.started,
        )  # fmt: skip
        return Path(path)

    def _metric(self, metric: str | None) -> str:
        if metric is not None:
            return self.table.check(metric)
        if len(self.metrics) == 1:
            return self.metrics[0]
        raise UsageError(
            f"{self.result.name} has {len(self.metrics) or 'no'} scores",
            hint=f"choose a metric: {listed(self.table.metrics)}",
        )

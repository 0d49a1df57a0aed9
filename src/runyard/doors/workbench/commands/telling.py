"""What `run` and `compare` say about a bench."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from runyard.cli.compare import gate_lines
from runyard.cli.exit_codes import EXIT_FAILED, EXIT_GATE
from runyard.cli.running import final_document, result_lines
from runyard.cli.session import Session, style
from runyard.cli.table import table
from runyard.format import count, plus_minus, show

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.cell import Cell
    from runyard.doors.workbench.bench.result import BenchResult
    from runyard.doors.workbench.evaluate.baseline import Changes
    from runyard.doors.workbench.evaluate.table import VariantSummary


class Checks(NamedTuple):
    """What is checked and written after a run."""

    gates: Sequence[str] = ()
    baseline: Path | None = None
    update_baseline: bool = False
    junit: Path | None = None
    passing: float | None = None


def tell(session: Session, found: BenchResult, checks: Checks) -> int:
    """Show a bench, judge its gates, and return the exit code."""
    result, stats = found.result, found.result.stats
    interrupted = sum(cell.status == "interrupted" for cell in found)
    lines = result_lines(result, result.failures() if stats.failed else [])
    if interrupted:
        lines.append("  " + style(count(interrupted, "cell") + " interrupted", fg="yellow"))
    summaries, shown = score_lines(found, checks.passing)
    lines += shown
    lines += _missing_lines(found)
    verdicts = found.gate(*checks.gates)
    lines += gate_lines(verdicts)
    changes, said = _baseline(found, checks, finished=not stats.total - stats.done)
    lines += said
    if checks.junit is not None:
        found.junit(checks.junit, gates=verdicts, passing=checks.passing)
    lines.append(f"  next: {session.command('workbench', 'show', _worth_a_look(found))}")
    metrics = found.metrics or ["latency"]
    document = {
        **final_document(result),
        "interrupted": interrupted,
        "matrix": {metric: found.matrix(metric) for metric in metrics},
        "scores": [each.to_data() for each in summaries],
        "gates": [each.to_data() for each in verdicts],
        "baseline": None if changes is None else changes.to_data(),
    }
    session.answer("\n".join(lines), document)
    if not all(each.holds for each in verdicts) or not (changes is None or changes.holds):
        return EXIT_GATE
    return EXIT_FAILED if stats.failed or stats.cancelled else 0


def score_lines(
    found: BenchResult, passing: float | None, metrics: Sequence[str] = ()
) -> tuple[list[VariantSummary], list[str]]:
    """The figures of each variant, as data and as a table; without scores, the latency."""
    wanted = list(metrics) or found.metrics or ["latency"]
    summaries = [
        summary for metric in wanted for summary in found.summaries(metric, passing=passing)
    ]
    heads = ["metric", "variant", "completed", "mean", "passed", "missing"]
    rows = [_row(each) for each in summaries]
    several = sorted({k for each in summaries for k in each.pass_at if k > 1})
    for k in several:
        heads += [f"pass@{k}", f"pass^{k}"]
        for row, each in zip(rows, summaries, strict=True):
            row += [_short(each.pass_at.get(k)), _short(each.pass_all.get(k))]
    return summaries, [table(heads, rows, numbers=tuple(range(2, len(heads))))]


def _missing_lines(found: BenchResult) -> list[str]:
    """Why completed cells have no score: for each evaluator, its most frequent reason."""
    lines = []
    for metric in found.metrics:
        reasons = Counter(
            cell.reasons.get(metric, "no reason given")
            for cell in found
            if cell.status == "completed" and cell.scores.get(metric, 0) is None
        )
        for reason, _ in reasons.most_common(1):
            missing = f"{count(reasons.total(), 'score')} of {metric} missing"
            lines.append("  " + style(f"{missing}: {reason:.200}", fg="yellow"))
    return lines


def _worth_a_look(found: BenchResult) -> str:
    """The id of the first cell that did not complete; otherwise, of one with a missing score, or
    with a score of 0."""
    signs: Sequence[Callable[[Cell], bool]] = (
        lambda cell: cell.status != "completed",
        lambda cell: None in cell.scores.values(),
        lambda cell: 0 in cell.scores.values(),
    )
    of_note = (cell.id for sign in signs for cell in found if sign(cell))
    return next(of_note, f"{found.result.name}/0")


def _row(summary: VariantSummary) -> list[str]:
    done = summary.cells - summary.failed - summary.interrupted - summary.cancelled
    mean, interval = summary.mean, summary.interval
    shown = _short(mean)
    if mean is not None and interval is not None:
        shown = plus_minus(mean, interval.half) if interval.method == "t" and interval.half else (
            f"{shown} ({_short(interval.low)} to {_short(interval.high)})"
        )  # fmt: skip
    passed = summary.passed
    rate = "–"
    if passed is not None:
        ends = passed.interval()
        rate = f"{passed.value:.0%} ({ends.low:.0%} to {ends.high:.0%})"
    missing = str(summary.missing) if summary.missing else ""
    return [summary.metric, summary.variant, f"{done:,} of {summary.cells:,}", shown, rate, missing]


def _short(value: float | None) -> str:
    return "–" if value is None else show(value, 3)


def _baseline(
    found: BenchResult, checks: Checks, *, finished: bool
) -> tuple[Changes | None, list[str]]:
    """What is different from the baseline file, which is written where there is none."""
    from runyard.doors.workbench.evaluate.baseline import keep_for_report

    path = checks.baseline
    if path is None:
        return None, []
    changes = found.changes(path) if path.exists() else None
    assert found.result.folder is not None
    keep_for_report(found.result.folder, path, changes)
    lines: list[Any] = [] if changes is None else changes.lines
    if changes is not None and not changes.holds:
        lines = [style(lines[0], fg="red"), *lines[1:]]
    if not finished:
        lines.append("baseline not written: the bench is not finished")
    elif changes is None or checks.update_baseline:
        found.write_baseline(path)
        lines.append(f"wrote the baseline {path}")
        changes = None
    return changes, lines

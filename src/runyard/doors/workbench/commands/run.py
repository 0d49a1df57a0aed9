"""`runyard workbench run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import COUNT, command, option, seed_option
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.options import fresh_options, option_flags, place_options
from runyard.cli.running import (
    carry_out,
    final_document,
    may_forget,
    result_lines,
    show_notices,
    tell_result,
)
from runyard.cli.session import Session, style
from runyard.cli.table import table
from runyard.format import count

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.result import BenchResult
    from runyard.reports.result import Result


@command(
    "runyard workbench run bench.toml",
    "runyard workbench run bench.toml --repetitions 5 --backend serial",
    "runyard workbench run benches:retrievers",
)
@click.argument("bench", metavar="BENCH.toml|MODULE:NAME")
@option("--repetitions", type=COUNT, help="Run each variant on each case N times.")
@seed_option
@fresh_options
@option_flags(["timeout", "retries", "changed"])
@place_options
def run(session: Session, bench: str, yes: bool, **given: Any) -> int:
    """Run every variant on every case; repeat the command to continue where it stopped."""
    from runyard.doors.workbench.bench.benchfile import read_bench
    from runyard.doors.workbench.bench.workbench import Workbench

    found = read_bench(bench)
    if given["fresh"] and found.name and not may_forget(session, found.name, yes=yes):
        return EXIT_FAILED
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=given["progress"])
        made: list[BenchResult] = []

        def start() -> Any:
            made.append(found.run(Workbench(yard=yard), **given))
            return made[0].result

        def answer(session: Session, result: Result) -> int:
            return tell(session, made[0]) if made else tell_result(session, result)

        return carry_out(session, yard, found.name or "", start, answer)


def tell(session: Session, found: BenchResult) -> int:
    """Show the cells of a bench as a matrix; return the exit code."""
    result, stats = found.result, found.result.stats
    interrupted = sum(cell.status == "interrupted" for cell in found)
    lines = result_lines(result, result.failures() if stats.failed else [])
    if interrupted:
        lines.append("  " + style(count(interrupted, "cell") + " interrupted", fg="yellow"))
    metrics = sorted({name for cell in found for name in cell.scores}) or ["latency"]
    rows = []
    for variant in found.variants:
        cells = [cell for cell in found if cell.variant == variant]
        done = sum(cell.status == "completed" for cell in cells)
        means = [_mean(found.matrix(metric)[variant]) for metric in metrics]
        rows.append([variant, f"{done:,} of {len(cells):,}", *means])
    numbers = tuple(range(1, 2 + len(metrics)))
    lines.append(table(["variant", "completed", *metrics], rows, numbers=numbers))
    lines.append(f"  next: {session.command('workbench', 'show', f'{result.name}/0')}")
    matrices = {metric: found.matrix(metric) for metric in metrics}
    session.answer(
        "\n".join(lines),
        {**final_document(result), "interrupted": interrupted, "matrix": matrices},
    )
    return EXIT_FAILED if stats.failed or stats.cancelled else 0


def _mean(row: dict[str, float | None]) -> str:
    known = [value for value in row.values() if value is not None]
    return f"{sum(known) / len(known):.4g}" if known else "–"

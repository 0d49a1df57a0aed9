"""`runyard workbench compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import command, level_option, option
from runyard.cli.compare import decision_lines
from runyard.cli.exit_codes import EXIT_GATE
from runyard.cli.session import Session
from runyard.cli.table import table
from runyard.doors.workbench.commands.telling import score_lines

if TYPE_CHECKING:
    from runyard.doors.workbench.evaluate.matrix import Matrix

MOST_COLUMNS, MOST_ROWS = 8, 40
"""The largest matrix that is shown on a terminal; JSON has any."""


@command(
    "runyard workbench compare qa-1f2e3d4c",
    "runyard workbench compare qa-1f2e3d4c --metric correct --baseline baseline",
    "runyard workbench compare qa-1f2e3d4c --gate 'correct >= 0.8 and interrupted == 0'",
    "runyard workbench compare old new",
)
@click.argument("bench")
@click.argument("other", required=False)
@option(
    "--metric",
    metavar="M",
    help="Compare this score, or latency, tokens, cost or retries.  [default: the first score]",
)
@option("--baseline", metavar="VARIANT", help="Compare with this variant.  [default: every pair]")
@option("--passing", type=float, metavar="SCORE", help="Let scores from this one up pass.")
@option(
    "--correction",
    type=click.Choice(["holm", "bh", "none"]),
    default="holm",
    help="Correct p-values of several comparisons.",
)
@option(
    "--failed-as",
    type=float,
    metavar="SCORE",
    help="Let cells that did not complete have this score.  [default: leave them out]",
)
@level_option
@option(
    "--gate",
    "gates",
    metavar="CONDITION",
    multiple=True,
    help="Exit with code 4 unless this holds for every variant.",
)
def compare(
    session: Session,
    bench: str,
    other: str | None,
    metric: str | None,
    baseline: str | None,
    passing: float | None,
    correction: str,
    failed_as: float | None,
    gates: tuple[str, ...],
    level: float,
) -> int:
    """Compare the variants of a bench on the same cases, or a later bench with an earlier one.

    With two benches, what got worse from BENCH to OTHER is named, for each variant and case.
    """
    from runyard.doors.workbench.bench.recorded import recorded_bench
    from runyard.reports.comparing import Compared, compare_each
    from runyard.reports.decision import Decision

    with session.yard() as yard:
        found = recorded_bench(yard, bench if other is None else other)
        chosen = metric or (found.metrics[0] if found.metrics else "latency")
        options: Any = {
            "baseline": baseline, "level": level, "better": found.better(chosen),
            "correction": None if correction == "none" else correction,
        }  # fmt: skip
        summaries, lines = score_lines(found, passing, [metric] if metric else [])
        matrix = found.matrix(chosen)
        if len(found.variants) <= MOST_COLUMNS and len(found.cases) <= MOST_ROWS:
            lines += ["", f"{chosen} by case and variant", _matrix(matrix)]
        groups = found.table.groups(chosen, failed_as=failed_as)
        compared = Compared([], {})
        if len(groups.parts) > 1:
            compared = compare_each(groups, chosen, **options)
        decision = Decision(groups, compared, list(found.gate(*gates, metric=chosen, **options)))
        lines += ["", *decision_lines(decision)]
        changes = None
        if other is not None:
            changes = found.changes_since(recorded_bench(yard, bench))
            lines += ["", *changes.lines]
    document = {
        "batch": bench, "other": other, "matrix": {chosen: matrix},
        "scores": [each.to_data() for each in summaries],
        "changes": None if changes is None else changes.to_data(), **decision.to_data(),
    }  # fmt: skip
    session.answer("\n".join(lines), document)
    return 0 if decision.holds else EXIT_GATE


def _matrix(matrix: Matrix) -> str:
    return table(matrix.heads, matrix.rows, numbers=tuple(range(1, len(matrix.heads))))

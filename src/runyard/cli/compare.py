"""`runyard compare`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import codec_option, command, level_option, option
from runyard.cli.exit_codes import EXIT_GATE
from runyard.cli.results import note_mixed_code
from runyard.cli.session import Session, style
from runyard.cli.table import table
from runyard.format import plus_minus, show

if TYPE_CHECKING:
    from runyard.reports.decision import Decision
    from runyard.reports.gates import GateVerdict
    from runyard.stats.compare_result import Comparison


@command(
    "runyard compare game --by variant --metric profit",
    "runyard compare old new --metric score --gate 'new >= old - 0.02'",
    "runyard compare game --by stake --baseline 1 --correction bh --json",
    "runyard compare bench --gate 'mean(score) >= 0.8 and failed < 1%'",
    "runyard compare old new --metric score --gate 'low95(new - old) > -0.01'",
    "runyard compare old new --metric score --gate 'new.failed < 1%' --gate 'p < 0.05'",
)
@click.argument("batch")
@click.argument("other", required=False)
@option("--by", metavar="K", help="Compare by this parameter, by variant or by case.")
@option("--metric", metavar="M", help="Compare this metric, a number that tasks return.")
@option("--only", metavar="A,B", help="Compare only these values of K.")
@option("--baseline", metavar="A", help="Compare each value with this one.  [default: every pair]")
@option(
    "--paired/--unpaired",
    default=None,
    help="Compare in pairs.  [default: if tasks share a case or random numbers]",
)
@option(
    "--better",
    type=click.Choice(["higher", "lower"]),
    help="Name the winner: the side with the higher, or lower, values.",
)
@option(
    "--interval",
    type=click.Choice(["auto", "t", "score", "bootstrap"]),
    default="auto",
    help="Use this interval; auto: score for booleans, otherwise t.",
)
@option(
    "--correction",
    type=click.Choice(["holm", "bh", "none"]),
    default="holm",
    help="Correct p-values of several comparisons.",
)
@level_option
@option(
    "--gate",
    "gates",
    metavar="CONDITION",
    multiple=True,
    help="Exit with code 4 unless this holds for every side.",
)
@codec_option
def compare(
    session: Session,
    batch: str,
    other: str | None,
    only: str | None,
    correction: str,
    gates: tuple[str, ...],
    codec: str,
    **given: Any,
) -> int:
    """Compare variants: effect, interval, significance.

    Compares the variants of one BATCH, or two batches; in pairs where pairs exist.
    """
    from runyard.reports.decision import decide
    from runyard.stats.conditions import parse

    conditions = {gate: parse(gate) for gate in gates}
    with session.yard() as yard:
        names = [batch] if other is None else [batch, other]
        results = [yard.results(name, codec=codec) for name in names]
        note_mixed_code(session, *results)
        decision = decide(
            results,
            only=None if only is None else [label.strip() for label in only.split(",")],
            correction=None if correction == "none" else correction,  # type: ignore[arg-type]
            gates=conditions,
            **given,
        )
    session.answer(
        "\n".join(decision_lines(decision)), {"batch": batch, "other": other, **decision.to_data()}
    )
    return 0 if decision.holds else EXIT_GATE


def decision_lines(decision: Decision) -> list[str]:
    """The comparisons in words and as a table, and the gates."""
    groups, found, missing = decision.groups, decision.compared.found, decision.compared.missing
    lines = []
    for comparison in found:
        words, left_out = comparison.words(), comparison.left_out_words()
        lines.append(style(words, bold=True) if comparison.shown else words)
        lines += [f"  {left_out}"] if left_out else []
    if found:
        lines += ["", _table(found)]
    for (a, b), reason in missing.items():
        pair = f"{a} and {b}"
        why = reason if reason.startswith(pair) else f"{pair}: {reason}"
        lines.append(style(f"not compared: {why}", fg="red"))
    if groups.metric is None and len(groups.parts) > 1:
        metrics = ", ".join(groups.metrics[:20])
        lines.append(f"not compared: choose a metric with --metric: {metrics}")
    return lines + gate_lines(decision.verdicts)


def gate_lines(verdicts: Iterable[GateVerdict]) -> list[str]:
    """Each gate with its figures."""
    lines = []
    for verdict in verdicts:
        said, colour = ("passed", "green") if verdict.holds else ("failed", "red")
        lines.append(f"{style(f'gate {said}', fg=colour)}: {verdict.text}")
    return lines


def _table(found: list[Comparison]) -> str:
    rows = [
        [
            c.a,
            c.b,
            *figures(c),
            show(c.detectable, 2),
            f"{c.n:,}" if isinstance(c.n, int) else " and ".join(f"{n:,}" for n in c.n),
            f"{c.method}; {c.interval.method}",
        ]
        for c in found
    ]
    p = "p" if found[0].correction is None else f"p ({found[0].correction})"
    counted = "pairs" if found[0].paired else "values"
    heads = ["a", "b", "mean a", "mean b", "a − b", p, "detectable", counted, "test; interval"]
    return table(heads, rows, numbers=(2, 3, 4, 5, 6, 7))


def figures(comparison: Comparison) -> list[str]:
    """Both means, the effect with its interval, and p."""
    effect = plus_minus(comparison.effect, comparison.interval.half)
    return [show(comparison.mean_a), show(comparison.mean_b), effect, comparison.p_text]

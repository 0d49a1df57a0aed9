"""`runyard compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.results import codec_option
from runyard.cli.session import Session, examples, shared, style
from runyard.cli.table import table
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.reports.comparing import Groups
    from runyard.reports.result import Result
    from runyard.stats.compare import Comparison
    from runyard.stats.conditions import Verdict
    from runyard.yard import Yard

EXIT_GATE = 4


@click.command(
    epilog=examples(
        "runyard compare game --by variant --metric profit",
        "runyard compare old new --metric score --gate 'new >= old - 0.02'",
        "runyard compare game --by stake --baseline 1 --correction bh --json",
        "runyard compare bench --gate 'mean(score) >= 0.8 and failed < 1%'",
    )
)
@click.argument("batch")
@click.argument("other", required=False)
@click.option("--by", metavar="K", help="What to compare: a parameter, variant or case.")
@click.option("--metric", metavar="M", help="What to compare it on: a number that tasks return.")
@click.option("--only", metavar="A,B", help="Only these values of K.")
@click.option("--baseline", metavar="A", help="Compare each with this one.  [default: every pair]")
@click.option(
    "--paired/--unpaired",
    default=None,
    help="[default: in pairs where tasks share a case or random numbers]",
)
@click.option(
    "--better",
    type=click.Choice(["higher", "lower"]),
    default="higher",
    show_default=True,
    help="Which direction of the metric is better.",
)
@click.option(
    "--interval",
    type=click.Choice(["auto", "t", "bootstrap"]),
    default="auto",
    show_default=True,
    help="auto: scores for rates, otherwise t.",
)
@click.option(
    "--correction",
    type=click.Choice(["holm", "bh", "none"]),
    default="holm",
    show_default=True,
    help="For several comparisons at once.",
)
@click.option(
    "--level",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    show_default=True,
    help="How sure intervals are.",
)
@click.option("--gate", metavar="CONDITION", multiple=True, help="Exit 4 unless this holds.")
@codec_option
@shared
def compare(session: Session, batch: str, other: str | None, **given: Any) -> int:
    """Which is better, by how much, and how sure is that.

    Compares the variants of one BATCH, or two batches; in pairs where pairs exist.
    """
    gates = given.pop("gate")
    with session.yard() as yard:
        result = yard.results(batch, codec=given["codec"])
        groups, metric = _groups(yard, result, other, given, gates)
        found = [] if groups is None else _compare(groups, metric, given)
        means = {} if groups is None else groups.means()
        for comparison in found:
            session.say(_words(comparison))
        if found:
            session.say()
            session.say(_table(found))
        verdicts = [_judge(result, gate, means) for gate in gates]
        for verdict in verdicts:
            look = {"fg": "green"} if verdict.holds else {"fg": "red"}
            session.say(f"gate {style('holds' if verdict.holds else 'fails', **look)}: "
                        f"{verdict.text}")  # fmt: skip
        session.document(_document(result, other, metric, found, gates, verdicts))
    return 0 if all(verdict.holds for verdict in verdicts) else EXIT_GATE


def _groups(
    yard: Yard, result: Result, other: str | None, given: dict[str, Any], gates: tuple[str, ...]
) -> tuple[Groups | None, str]:
    """What is to be compared, on which metric; nothing where only gates are asked about."""
    from runyard.reports.comparing import groups_of, groups_of_two

    by = given["by"]
    if other is not None and by is not None:
        raise UsageError("--by compares inside one batch", hint="drop --by, or one of the batches")
    if other is None and by is None:
        axes = [name for name in result.coordinates if name != "replicate"]
        if gates and given["metric"] is None:
            return None, ""
        if len(axes) != 1:
            raise UsageError(
                f"{result.name} can be compared by: {', '.join(axes) or 'nothing'}",
                hint="say which with --by, or name a second batch",
            )
        by = axes[0]
    metric = given["metric"] or _only_metric(result)
    only = given["only"]
    if other is not None:
        if only is not None:
            raise UsageError("--only chooses values of --by", hint="drop it, or one of the batches")
        return groups_of_two(result, yard.results(other, codec=given["codec"]), metric), metric
    wanted = None if only is None else [label.strip() for label in only.split(",")]
    return groups_of(result, metric, by, wanted), metric


def _only_metric(result: Result) -> str:
    names = result.columns.names
    if len(names) != 1:
        raise UsageError(
            f"{result.name} has {len(names)} metrics",
            hint=f"say which with --metric: {', '.join(names[:20])}",
        )
    return names[0]


def _compare(groups: Groups, metric: str, given: dict[str, Any]) -> list[Comparison]:
    from runyard.reports.comparing import compare_groups

    return compare_groups(
        groups, metric, paired=given["paired"], baseline=given["baseline"],
        correction=None if given["correction"] == "none" else given["correction"],
        level=given["level"], better=given["better"], interval=given["interval"],
    )  # fmt: skip


def _judge(result: Result, gate: str, means: dict[str, float]) -> Verdict:
    from runyard.reports.verdict import judge

    return judge(result, gate, means)


def _words(comparison: Comparison) -> str:
    words = comparison.words()
    return style(words, bold=True) if comparison.shown else words


def _table(found: list[Comparison]) -> str:
    from runyard.stats.summary import plus_minus, show

    rows = [
        [
            c.a,
            c.b,
            show(c.mean_a),
            show(c.mean_b),
            plus_minus(c.effect, c.interval.half),
            f"{c.p if c.p_adjusted is None else c.p_adjusted:.3g}",
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


def _document(
    result: Result,
    other: str | None,
    metric: str,
    found: list[Comparison],
    gates: tuple[str, ...],
    verdicts: list[Verdict],
) -> dict[str, Any]:
    judged = [
        {"gate": gate, "holds": v.holds, "known": v.known, "text": v.text}
        for gate, v in zip(gates, verdicts, strict=True)
    ]
    return {
        "batch": result.name,
        "other": other,
        "metric": metric or None,
        "comparisons": [comparison.to_data() for comparison in found],
        "gates": judged,
    }

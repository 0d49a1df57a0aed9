"""`runyard compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.results import codec_option, note_mixed_code
from runyard.cli.session import Session, examples, shared, style
from runyard.cli.table import table
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.reports.comparing import Compared, CompareOptions, Groups
    from runyard.reports.gates import GateVerdict
    from runyard.reports.result import Result
    from runyard.stats.compare_result import Comparison

EXIT_GATE = 4


@click.command(
    epilog=examples(
        "runyard compare game --by variant --metric profit",
        "runyard compare old new --metric score --gate 'new >= old - 0.02'",
        "runyard compare game --by stake --baseline 1 --correction bh --json",
        "runyard compare bench --gate 'mean(score) >= 0.8 and failed < 1%'",
        "runyard compare old new --metric score --gate 'low95(new - old) > -0.01'",
        "runyard compare old new --metric score --gate 'new.failed < 1%' --gate 'p < 0.05'",
    )
)
@click.argument("batch")
@click.argument("other", required=False)
@click.option("--by", metavar="K", help="Compare the values of this parameter, or variant or case.")
@click.option("--metric", metavar="M", help="Compare this number that tasks return.")
@click.option("--only", metavar="A,B", help="Compare only these values of K.")
@click.option(
    "--baseline", metavar="A", help="Compare each value with this one.  [default: every pair]"
)
@click.option(
    "--paired/--unpaired",
    default=None,
    help="Compare in pairs.  [default: if tasks share a case or random numbers]",
)
@click.option(
    "--better",
    type=click.Choice(["higher", "lower"]),
    default="higher",
    show_default=True,
    help="Say which direction of the metric is better.",
)
@click.option(
    "--interval",
    type=click.Choice(["auto", "t", "score", "bootstrap"]),
    default="auto",
    show_default=True,
    help="Use this interval; auto: score for booleans, otherwise t.",
)
@click.option(
    "--correction",
    type=click.Choice(["holm", "bh", "none"]),
    default="holm",
    show_default=True,
    help="Correct p-values of several comparisons.",
)
@click.option(
    "--level",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    show_default=True,
    help="Set the confidence level of intervals.",
)
@click.option(
    "--gate",
    metavar="CONDITION",
    multiple=True,
    help="Exit with code 4 unless this holds for every side.",
)
@codec_option
@shared
def compare(session: Session, batch: str, other: str | None, **given: Any) -> int:
    """Compare variants: effect, interval, significance.

    Compares the variants of one BATCH, or two batches; in pairs where pairs exist.
    """
    from runyard.reports.gates import Gates
    from runyard.stats.conditions import parse

    conditions = {gate: parse(gate) for gate in given["gate"]}
    with session.yard() as yard:
        names = (batch,) if other is None else (batch, other)
        results = [yard.results(name, codec=given["codec"]) for name in names]
        note_mixed_code(session, *results)
        groups = _groups(results, given)
        options = _options(given)
        gates = Gates(conditions, groups, **options)
        compared = _compare(groups, options, bool(conditions))
        verdicts = gates.judge(compared)
    for comparison in compared.found:
        session.say(_words(comparison))
        if comparison.left_out_words():
            session.say(f"  {comparison.left_out_words()}")
    if compared.found:
        session.say()
        session.say(_table(compared.found))
    for reason in compared.missing.values():
        session.say(style(f"not compared: {reason}", fg="red"))
    if groups.metric is None and len(groups.parts) > 1:
        session.say(
            f"not compared: choose a metric with --metric: {', '.join(groups.metrics[:20])}"
        )
    for verdict in verdicts:
        look = {"fg": "green"} if verdict.holds else {"fg": "red"}
        said = style(f"gate {'holds' if verdict.holds else 'fails'}", **look)
        session.say(f"{said}: {verdict.text}")
    session.document(_document(batch, other, groups, compared, verdicts))
    return 0 if all(verdict.holds for verdict in verdicts) else EXIT_GATE


def _groups(results: list[Result], given: dict[str, Any]) -> Groups:
    """The groups to compare; a single one if there are only gates to check."""
    from runyard.reports.comparing import Groups, groups_of, groups_of_two, whole

    by, metric, gates = given["by"], given["metric"], bool(given["gate"])
    result, *others = results
    for second in others:
        for option, what in (
            ("by", "compares inside one batch"),
            ("only", "selects values of --by"),
        ):
            if given[option] is not None:
                raise UsageError(f"--{option} {what}", hint="remove it, or one of the batches")
        return groups_of_two(result, second, metric or _only_metric((result, second), gates))
    if by is None:
        axes = [name for name in result.coordinates if name != "replicate"]
        if gates and metric is None:
            return Groups({result.name: whole(result)}, False, None)
        if len(axes) != 1:
            raise UsageError(
                f"{result.name} can be compared by: {', '.join(axes) or 'nothing'}",
                hint="choose one with --by, or name a second batch",
            )
        by = axes[0]
    only = given["only"]
    wanted = None if only is None else [label.strip() for label in only.split(",")]
    return groups_of(result, metric or _only_metric((result,), gates), by, wanted)


def _only_metric(results: tuple[Result, ...], gates: bool) -> str | None:
    """The only metric; None if gates can do without one."""
    names = list(dict.fromkeys(name for result in results for name in result.columns.names))
    if len(names) == 1:
        return names[0]
    if gates:
        return None
    who = " and ".join(result.name for result in results)
    if not names:
        raise UsageError(f"the tasks of {who} return no numbers to compare")
    raise UsageError(
        f"{who} {'has' if len(results) == 1 else 'have'} {len(names)} metrics",
        hint=f"choose one with --metric: {', '.join(names[:20])}",
    )


def _options(given: dict[str, Any]) -> CompareOptions:
    return {
        "paired": given["paired"],
        "baseline": given["baseline"],
        "correction": None if given["correction"] == "none" else given["correction"],
        "level": given["level"],
        "better": given["better"],
        "interval": given["interval"],
    }


def _compare(groups: Groups, options: CompareOptions, gates: bool) -> Compared:
    """The comparisons; an error if there are neither comparisons nor gates."""
    from runyard.reports.comparing import Compared, compare_each, compare_groups

    if groups.metric is None:
        return Compared([], {})
    compared = compare_each(groups, groups.metric, **options)
    if not compared.found and not gates:
        compare_groups(groups, groups.metric, **options)
    return compared


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
            c.p_text,
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
    batch: str,
    other: str | None,
    groups: Groups,
    compared: Compared,
    verdicts: list[GateVerdict],
) -> dict[str, Any]:
    return {
        "batch": batch,
        "other": other,
        "metric": groups.metric,
        "comparisons": [comparison.to_data() for comparison in compared.found],
        "not_compared": [
            {"a": a, "b": b, "reason": reason} for (a, b), reason in compared.missing.items()
        ],
        "gates": [verdict.to_data() for verdict in verdicts],
    }

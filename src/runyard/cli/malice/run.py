"""`runyard malice run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.asking import fresh_options, may_forget
from runyard.cli.options import option_flags
from runyard.cli.running import (
    EXIT_FAILED,
    code_of,
    final_document,
    place_options,
    show_notices,
)
from runyard.cli.session import Session, examples, shared, style
from runyard.cli.table import table
from runyard.cli.values import assignments, values_of
from runyard.doors.malice.run.experiment import PARTS
from runyard.doors.malice.society.immune import MODES
from runyard.errors import NotFound, UsageError

if TYPE_CHECKING:
    from runyard.doors.malice.batch.runs import MaliceBatch
    from runyard.stats.compare_result import Comparison


@click.command(
    epilog=examples(
        "runyard malice run --runs 30 --tickets 60 --seed 7",
        "runyard malice run --runs 200 --immune wired --tag wired",
        "runyard malice run --runs 200 --without civil --without immune",
        "runyard malice run --runs 100 --grid promote_at=4,5,6 --grid penalty=0.3,0.6",
    )
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    metavar="N",
    default=30,
    show_default=True,
    help="Number of runs.",
)
@click.option(
    "--tickets",
    type=click.IntRange(1),
    metavar="N",
    default=60,
    show_default=True,
    help="Messages in each run.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    help="The root seed.  [default: chosen and recorded]",
)
@click.option("--tag", metavar="NAME", help="Name the batch malice-NAME.")
@click.option(
    "--immune",
    type=click.Choice(MODES),
    default="logged",
    show_default=True,
    help="Mode of the immune system; logged, as published, has no effect on votes.",
)
@click.option(
    "--without",
    type=click.Choice(PARTS),
    multiple=True,
    help="Leave this part out in a variant; repeatable.",
)
@click.option(
    "--grid",
    metavar="RULE=V,V,…",
    multiple=True,
    help="Vary the numbers of a rule; every combination is a variant.",
)
@click.option(
    "--parts",
    metavar="MODULE:FUNCTION",
    help="Function that returns your own agents, gates and rules.",
)
@click.option("--timeout", metavar="TIME", help="Time limit of a run: 30s, 5m.")
@click.option("--retries", type=click.IntRange(0), metavar="N", help="Retries of a run that fails.")
@fresh_options
@option_flags(["changed"])
@place_options
@shared
def run(session: Session, **given: Any) -> int:
    """Play many runs in parallel and summarise them.

    Each run has its own pair of logs. --without and --grid add variants of the experiment, which
    are compared with the whole one run by run, on the same random numbers. Repeat the command to
    continue where it stopped.
    """
    from runyard.doors.malice.batch.runs import carry_out, collect, describe

    rules = assignments(given.pop("grid"), "--grid")
    grid = {name: _numbers(name, text) for name, text in rules.items()}
    described = describe(**{name: given.pop(name) for name in _WHAT}, grid=grid)
    yes = given.pop("yes")
    if given["fresh"] and not may_forget(session, described.record_name, yes=yes):
        return EXIT_FAILED
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=given["progress"])
        interrupted, result = 0, None
        try:
            result = carry_out(described, yard, **given)
        except (KeyboardInterrupt, SystemExit) as end:
            interrupted = code_of(end)
        try:
            found = collect(yard, described.record_name, result)
        except NotFound:
            return interrupted
        code = _tell(session, found)
    return interrupted or code


_WHAT = ("runs", "tickets", "seed", "tag", "immune", "without", "parts")


def _tell(session: Session, found: MaliceBatch) -> int:
    """Print the results, as text or JSON; return the exit code."""
    from runyard.doors.malice.report.results import RESULTS, SUMMARY
    from runyard.format import count
    from runyard.reports.versions import mixed_lines

    result = found.result
    stats = result.stats
    whole = next(path for path in found.files if path.name == SUMMARY)
    session.say(whole.read_text(encoding="utf-8"))
    if found.comparisons:
        session.say(_table(found.comparisons))
        session.say()
    session.say(result.headline())
    for line in mixed_lines(result.mixed_code):
        session.say("  " + style(line, fg="yellow"))
    for group in result.failures() if stats.failed else []:
        session.say("  " + style(group.line(), fg="red"))
    session.say(f"  files: {found.folder}")
    if found.lost:
        some = ", ".join(found.lost[:5]) + (", …" if len(found.lost) > 5 else "")
        session.note(
            f"the logs of {count(len(found.lost), 'finished run')} are missing ({some}); "
            "logs stay on the machine that wrote them; --fresh plays all runs again"
        )
    if stats.done < stats.total:
        again = style("the same command", bold=True)
        session.note(f"unfinished: {stats.done:,} recorded; run {again} to continue")
    else:
        session.say(f"  next: {session.command('report', result.name)}")
    session.document(
        {
            **final_document(result),
            "folder": str(found.folder),
            "results": [str(path) for path in found.files if path.name == RESULTS],
            "comparisons": [comparison.to_data() for comparison in found.comparisons],
        }
    )
    return EXIT_FAILED if stats.failed or stats.cancelled else 0


def _table(found: Sequence[Comparison]) -> str:
    from runyard.stats.summary import plus_minus, show

    rows = [
        [
            each.metric,
            each.a,
            each.b,
            show(each.mean_a),
            show(each.mean_b),
            plus_minus(each.effect, each.interval.half),
            each.p_text,
        ]
        for each in found
    ]
    p = "p" if found[0].correction is None else f"p ({found[0].correction})"
    heads = ["metric", "a", "b", "mean a", "mean b", "a − b", p]
    return table(heads, rows, numbers=(3, 4, 5, 6))


def _numbers(name: str, text: str) -> Sequence[float]:
    found = values_of(text)
    if not found or not all(type(each) in (int, float) for each in found):
        raise UsageError(f"--grid {name}={text} is not a list of numbers", hint="write RULE=4,5,6")
    return [float(each) for each in found]

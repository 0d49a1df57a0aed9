"""`runyard malice run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import COUNT, INDEX, command, option, seed_option
from runyard.cli.compare import figures
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.options import fresh_options, option_flags, place_options
from runyard.cli.running import (
    WHY,
    carry_out,
    exit_code,
    final_document,
    may_forget,
    result_lines,
    resume_command,
    show_notices,
)
from runyard.cli.session import Session, style
from runyard.cli.table import table
from runyard.cli.values import assignments, values_of
from runyard.doors.malice.run.experiment import PARTS
from runyard.doors.malice.run.models import AGENTS, MODERATIONS, MODES
from runyard.doors.malice.society.immune import MODES as IMMUNE_MODES
from runyard.errors import UsageError
from runyard.format import count, listed

if TYPE_CHECKING:
    from runyard.doors.malice.batch.runs import MaliceBatch
    from runyard.stats.compare_result import Comparison

_WHAT = ("runs", "tickets", "seed", "tag", "immune", "without", "parts", "agents", "model", "llm",
         "tape", "moderation")  # fmt: skip


@command(
    "runyard malice run --runs 30 --tickets 60 --seed 7",
    "runyard malice run --runs 200 --immune wired --tag wired",
    "runyard malice run --runs 200 --without civil --without immune",
    "runyard malice run --runs 100 --grid promote_at=4,5,6 --grid penalty=0.3,0.6",
    "runyard malice run --agents llm --model gpt-4o-mini --llm record --tape malice.jsonl --seed 7 "
    "--budget usd=5",
    "runyard malice run --agents llm --model gpt-4o-mini --llm replay --tape malice.jsonl --seed 7",
)
@option("--runs", type=COUNT, default=30, help="Play N runs.")
@option("--tickets", type=COUNT, default=60, help="Send N messages in each run.")
@seed_option
@option("--tag", metavar="NAME", help="Name the batch malice-NAME.")
@option(
    "--immune",
    type=click.Choice(IMMUNE_MODES),
    default="logged",
    help="Set the mode of the immune system; logged, as published, has no effect on votes.",
)
@option(
    "--without",
    type=click.Choice(PARTS),
    multiple=True,
    help="Leave this part out in a variant; repeatable.",
)
@option(
    "--grid",
    metavar="RULE=V,V,…",
    multiple=True,
    help="Vary the numbers of a rule; every combination is a variant.",
)
@option(
    "--parts",
    metavar="MODULE:FUNCTION",
    help="Use the agents, gates and rules that this function returns.",
)
@option(
    "--agents",
    type=click.Choice(AGENTS),
    default="rules",
    help="Let the agents follow rules, or a language model write their messages.",
)
@option("--model", metavar="NAME", help="Ask this model; $OPENAI_BASE_URL is its endpoint.")
@option(
    "--llm",
    type=click.Choice(MODES),
    help="Ask the model, ask and record on the tape, or replay the tape.  [default: live]",
)
@option("--tape", metavar="FILE", help="Record the model's calls in this file, or replay them.")
@option(
    "--moderation",
    type=click.Choice(MODERATIONS),
    help="Have harassment scored by the model, or by the moderation endpoint.  [default: model]",
)
@option("--timeout", metavar="TIME", help="Limit the time of a run: 30s, 5m.")
@option("--retries", type=INDEX, help="Retry a run that fails up to N times.")
@fresh_options
@option_flags(["budget", "changed"])
@place_options
def run(session: Session, grid: tuple[str, ...], yes: bool, **given: Any) -> int:
    """Play many runs in parallel and summarise them.

    Each run has its own pair of logs. --without and --grid add variants of the experiment, which
    are compared with the whole one run by run, on the same random numbers. With --agents llm, a
    language model writes the messages; --budget usd=5 limits what its calls cost. Repeat the
    command to continue where it stopped.
    """
    from runyard.doors.malice.batch import runs

    rules = {name: _numbers(name, text) for name, text in assignments(grid, "--grid").items()}
    described = runs.describe(**{name: given.pop(name) for name in _WHAT}, grid=rules)
    name = described.record_name
    if given["fresh"] and not may_forget(session, name, yes=yes):
        return EXIT_FAILED
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=given["progress"])
        return carry_out(
            session, yard, name, lambda: runs.carry_out(described, yard, **given),
            lambda session, result: _tell(session, runs.collect(yard, name, result)),
        )  # fmt: skip


def _tell(session: Session, found: MaliceBatch) -> int:
    """Print the results, as text or JSON; return the exit code."""
    from runyard.doors.malice.report.results import RESULTS, SUMMARY

    result, stats = found.result, found.result.stats
    whole = next(path for path in found.files if path.name == SUMMARY)
    lines = [whole.read_text(encoding="utf-8")]
    if found.comparisons:
        lines += [_table(found.comparisons), ""]
    lines += [*result_lines(result, result.failures()), f"  files: {found.folder}"]
    if found.lost:
        some = listed(found.lost, 5)
        session.note(
            f"the logs of {count(len(found.lost), 'finished run')} are missing ({some}); "
            "logs stay on the machine that wrote them; --fresh plays all runs again"
        )
    if stats.done < stats.total:
        again = style("the same command", bold=True)
        if result.end == "budget":
            again = f"`{resume_command(session, result)}`"
        why = WHY.get(result.end, "unfinished")
        session.note(f"{why}: {stats.done:,} recorded; run {again} to continue")
    else:
        lines += [f"  next: {session.command('report', result.name)}"]
    session.answer(
        "\n".join(lines),
        {
            **final_document(result),
            "folder": str(found.folder),
            "results": [str(path) for path in found.files if path.name == RESULTS],
            "comparisons": [comparison.to_data() for comparison in found.comparisons],
        },
    )
    return exit_code(result)


def _table(found: Sequence[Comparison]) -> str:
    rows = [[each.metric, each.a, each.b, *figures(each)] for each in found]
    p = "p" if found[0].correction is None else f"p ({found[0].correction})"
    heads = ["metric", "a", "b", "mean a", "mean b", "a − b", p]
    return table(heads, rows, numbers=(3, 4, 5, 6))


def _numbers(name: str, text: str) -> Sequence[float]:
    found = values_of(text)
    if not found or not all(type(each) in (int, float) for each in found):
        raise UsageError(f"--grid {name}={text} is not a list of numbers", hint="write RULE=4,5,6")
    return [float(each) for each in found]

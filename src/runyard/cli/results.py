"""`runyard results`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.session import Session, examples, shared, style
from runyard.cli.summaries import show_summaries
from runyard.cli.table import screen_height, table
from runyard.errors import NotFound, UsageError
from runyard.format import count

if TYPE_CHECKING:
    from runyard.reports.failures import FailureGroup
    from runyard.reports.result import Outcome, Result

SMALLEST_PAGE = 10
TRACE_LINES = 12

codec_option = click.option(
    "--codec",
    type=click.Choice(["msgpack", "pickle"]),
    default="msgpack",
    help="Read pickled values with `pickle`, only from a store that you trust.",
)
status_option = click.option(
    "--status",
    type=click.Choice(["completed", "failed", "cancelled"]),
    help="Include only outcomes with this status.",
)


@click.command(
    epilog=examples(
        "runyard results walks",
        "runyard results walks --failures",
        "runyard results walks --status completed --offset 100 --limit 20",
        "runyard results walks --by dimension --metric returned",
        "runyard results walks --json | jq .value",
    )
)
@click.argument("batch")
@status_option
@click.option("--by", metavar="K,…", help="Summarise by these: parameters, variant, case.")
@click.option(
    "--metric",
    metavar="M",
    multiple=True,
    help="Summarise this number that tasks return; repeat for more.",
)
@click.option("--failures", is_flag=True, help="Show failures, grouped by error and line.")
@click.option("--offset", type=click.IntRange(0), metavar="N", default=0, help="Skip the first N.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Show at most N.  [default: what fits the terminal, otherwise all]",
)
@codec_option
@shared
def results(
    session: Session,
    batch: str,
    status: str | None,
    by: str | None,
    metric: tuple[str, ...],
    failures: bool,
    offset: int,
    limit: int | None,
    codec: str,
) -> int:
    """Show outcomes, failures or summaries.

    With --by or --metric: each metric's mean with its interval, spread and quantiles.
    """
    given = {"status": status, "by": by, "metric": metric, "offset": offset, "limit": limit}
    _check({option for option, value in given.items() if value}, failures, status)
    with session.yard() as yard:
        result = yard.results(batch, codec=codec)
        note_mixed_code(session, result)
        if by is not None or metric:
            show_summaries(session, result, metric, by)
        elif failures:
            _show_failures(session, result, offset, limit)
        elif session.json:
            _stream(session, result, status, offset, limit)
        else:
            _show_page(session, result, status, offset, limit)
    return 0


def _check(given: set[str], failures: bool, status: str | None) -> None:
    """Refuse options that would change nothing."""
    summaries = given & {"by", "metric"}
    if failures:
        for option in sorted(given & {"status", "by", "metric"}):
            raise UsageError(
                f"--failures and --{option} can't be combined", hint="remove one of them"
            )
    if summaries and status not in (None, "completed"):
        raise UsageError(
            f"{status} tasks have no metrics to summarise",
            hint="remove --status, or list the outcomes without --metric and --by",
        )
    if summaries and (paging := sorted(given & {"offset", "limit"})):
        raise UsageError(
            f"--{paging[0]} lists outcomes and --{min(summaries)} summarises them",
            hint="remove one of them",
        )


def note_mixed_code(session: Session, *results: Result) -> None:
    """Print which batches have outcomes of several versions of their code."""
    from runyard.reports.versions import mixed_lines

    for result in results:
        for line in mixed_lines(result.mixed_code):
            of = f"{result.name}: " if len(results) > 1 else ""
            session.note(style(of + line, fg="yellow"))


def _stream(
    session: Session, result: Result, status: str | None, offset: int, limit: int | None
) -> None:
    from runyard.reports.export import outcome_document

    found = False
    for outcome in result.outcomes(status, offset=offset, limit=limit):
        found = True
        session.document(outcome_document(outcome), at_once=False)
    if not found:
        raise _nothing(result, status, offset)


def _show_page(
    session: Session, result: Result, status: str | None, offset: int, limit: int | None
) -> None:
    from runyard.reports.export import outcome_line

    height = screen_height()
    if height is None:
        found = False
        for outcome in result.outcomes(status, offset=offset, limit=limit):
            found = True
            session.say(outcome_line(outcome))
        if not found:
            raise _nothing(result, status, offset)
        return
    size = limit or max(SMALLEST_PAGE, height - 4)
    page = list(result.outcomes(status, offset=offset, limit=size))
    if not page:
        raise _nothing(result, status, offset)
    session.say(_table(page))
    total = _count(result, status)
    last = offset + len(page)
    more = ""
    if last < total:
        words = ["results", result.name, *(["--status", status] if status else [])]
        words += ["--offset", str(last), *(["--limit", str(limit)] if limit else [])]
        more = f"; next: {session.command(*words)}"
    session.say(style(f"{offset + 1:,}–{last:,} of {total:,}{more}", dim=True))


def _table(page: list[Outcome]) -> str:
    from runyard.reports.export import outcome_cell, text_of

    labels = list(dict.fromkeys(name for outcome in page for name in outcome.labels))
    rows = [
        [
            str(outcome.task),
            str(outcome.status),
            *(text_of(outcome.labels.get(name, "")) for name in labels),
            outcome_cell(outcome),
        ]
        for outcome in page
    ]
    return table(["task", "status", *labels, "value or error"], rows, numbers=(0,))


def _show_failures(session: Session, result: Result, offset: int, limit: int | None) -> None:
    groups = result.failures()[offset : None if limit is None else offset + limit]
    if not groups:
        session.say(f"no task of {result.name} failed")
    for group in groups:
        session.document(_group_document(session, result.name, group))
        session.say(style(group.line(), fg="red"))
        for line in group.trace.rstrip().splitlines()[-TRACE_LINES:]:
            session.say(f"    {line}")
        more = ", …" if group.count > len(group.tasks) else ""
        session.say(f"  tasks: {', '.join(map(str, group.tasks))}{more}")
        session.say(f"  rerun: {_repro(session, result.name, group)}")
        session.say()


def _group_document(session: Session, name: str, group: FailureGroup) -> dict[str, Any]:
    return {
        "class": group.kind,
        "message": group.message,
        "where": group.where,
        "count": group.count,
        "tasks": [f"{name}/{task}" for task in group.tasks],
        "trace": group.trace,
        "repro": _repro(session, name, group),
    }


def _repro(session: Session, name: str, group: FailureGroup) -> str:
    return session.command("repro", f"{name}/{group.tasks[0]}")


def _count(result: Result, status: str | None) -> int:
    stats = result.stats
    return stats.done if status is None else int(getattr(stats, status))


def _nothing(result: Result, status: str | None, offset: int) -> NotFound:
    which = f"{status} " if status else ""
    after = f" after the first {offset:,}" if offset else ""
    return NotFound(
        f"{result.name} has no {which}outcomes{after}",
        hint=f"{result.stats.done:,} of {count(result.stats.total, 'task')} have an outcome",
    )

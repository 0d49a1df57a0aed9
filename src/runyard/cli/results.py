"""`runyard results`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import (
    COUNT,
    INDEX,
    codec_option,
    command,
    option,
    refuse_together,
    status_option,
)
from runyard.cli.session import Session, style
from runyard.cli.table import screen_size, table
from runyard.errors import NotFound, UsageError
from runyard.format import count

if TYPE_CHECKING:
    from runyard.reports.result import Outcome, Result

SMALLEST_PAGE = 10
TRACE_LINES = 12


@command(
    "runyard results walks",
    "runyard results walks --failures",
    "runyard results walks --status completed --offset 100 --limit 20",
    "runyard results walks --by dimension --metric returned",
    "runyard results walks --json | jq .value",
)
@click.argument("batch")
@status_option
@option("--by", metavar="K,…", help="Summarise by these: parameters, variant, case.")
@option(
    "--metric",
    metavar="M",
    multiple=True,
    help="Summarise this metric, a number that tasks return; repeat for more.",
)
@option("--failures", is_flag=True, help="Show failures, grouped by error and line.")
@option("--offset", type=INDEX, default=0, show_default=False, help="Skip the first N.")
@option(
    "--limit",
    type=COUNT,
    help="Show at most N.  [default: what fits the terminal, otherwise all]",
)
@codec_option
def results(session: Session, batch: str, codec: str, **given: Any) -> None:
    """Show outcomes, failures or summaries.

    With --by or --metric: each metric's mean with its interval, spread and quantiles.
    """
    _check(given)
    status, offset, limit = given["status"], given["offset"], given["limit"]
    with session.yard() as yard:
        result = yard.results(batch, codec=codec)
        note_mixed_code(session, result)
        if given["by"] is not None or given["metric"]:
            _show_summaries(session, result, given["metric"], given["by"])
        elif given["failures"]:
            _show_failures(session, result, offset, limit)
        else:
            _show_outcomes(session, result, status, offset, limit)


def _check(given: dict[str, Any]) -> None:
    """Refuse options that would change nothing."""
    names = sorted(name for name, value in given.items() if value)
    summaries = [name for name in names if name in ("by", "metric")]
    paging = [name for name in names if name in ("limit", "offset")]
    status = given["status"]
    for name in ("by", "metric", "status"):
        refuse_together({"--failures": given["failures"], f"--{name}": given[name]})
    if summaries and status not in (None, "completed"):
        raise UsageError(
            f"{status} tasks have no metrics to summarise",
            hint="remove --status, or list the outcomes without --metric and --by",
        )
    if summaries and paging:
        raise UsageError(
            f"--{paging[0]} lists outcomes and --{summaries[0]} summarises them",
            hint="remove one of them",
        )


def note_mixed_code(session: Session, *results: Result) -> None:
    """Print which batches have outcomes of several versions of their code."""
    from runyard.reports.versions import mixed_lines

    for result in results:
        for line in mixed_lines(result.mixed_code):
            of = f"{result.name}: " if len(results) > 1 else ""
            session.note(style(of + line, fg="yellow"))


def _show_outcomes(
    session: Session, result: Result, status: str | None, offset: int, limit: int | None
) -> None:
    """A document or a line for each; on a terminal, a page of them as a table."""
    from runyard.reports.export import outcome_document, outcome_line

    size = None if session.json else screen_size()
    most = max(SMALLEST_PAGE, size.lines - 4) if size is not None and limit is None else limit
    page, shown = [], 0
    for outcome in result.outcomes(status, offset=offset, limit=most):
        shown += 1
        if size is not None:
            page.append(outcome)
        elif session.json:
            session.document(outcome_document(outcome), at_once=False)
        else:
            session.say(outcome_line(outcome))
    stats = result.stats
    if not shown:
        after = f" after the first {offset:,}" if offset else ""
        raise NotFound(
            f"{result.name} has no {f'{status} ' if status else ''}outcomes{after}",
            hint=f"{stats.done:,} of {count(stats.total, 'task')} have an outcome",
        )
    if size is None:
        return
    total, last, more = getattr(stats, status or "done"), offset + shown, ""
    if last < total:
        words = ["results", result.name, *(["--status", status] if status else [])]
        words += ["--offset", str(last), *(["--limit", str(limit)] if limit else [])]
        more = f"; next: {session.command(*words)}"
    session.say(_table(page))
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
        repro = session.command("repro", f"{result.name}/{group.tasks[0]}")
        more = ", …" if group.count > len(group.tasks) else ""
        lines = [
            style(group.line(), fg="red"),
            *(f"    {line}" for line in group.trace.rstrip().splitlines()[-TRACE_LINES:]),
            f"  tasks: {', '.join(map(str, group.tasks))}{more}",
            f"  rerun: {repro}",
            "",
        ]
        document = {
            "class": group.kind,
            "message": group.message,
            "where": group.where,
            "count": group.count,
            "tasks": [f"{result.name}/{task}" for task in group.tasks],
            "trace": group.trace,
            "repro": repro,
        }
        session.answer("\n".join(lines), document)


def _show_summaries(
    session: Session, result: Result, metrics: tuple[str, ...], by: str | None
) -> None:
    """Each metric's figures by group, as a table or JSON lines."""
    from runyard.reports.text import summary_rows
    from runyard.spec.shown import jsonable

    names = [name.strip() for name in by.split(",")] if by else []
    groups = result.summaries(metrics or None, names)
    if not groups or not groups[0].summaries:
        raise NotFound(f"the tasks of {result.name} return no numbers")
    for group in groups:
        for metric, summary in group.summaries.items():
            labels = jsonable(group.labels)
            session.document({"labels": labels, "metric": metric, **summary.to_data()})
    rows = summary_rows(groups)
    session.say(table(rows.heads, rows.cells, numbers=rows.numbers))

"""From sections to a file: the frame of the page, its style, and writing the file atomically."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from runyard import clock
from runyard.format import count, duration
from runyard.reports.html import account, findings
from runyard.reports.html.blocks import (
    Html,
    command,
    cut,
    element,
    join,
    moment,
    paragraph,
)
from runyard.reports.html.context import Maker, ReportContext, Section, registered
from runyard.reports.versions import mixed_lines
from runyard.spaces import whole_file

if TYPE_CHECKING:
    from runyard.reports.result import Result

FILE = "report.html"
OWN: Sequence[Maker] = (*account.OWN, findings.metrics, findings.comparison)

# Browsers that honour this make no requests, no matter what the page contains.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write_report(
    result: Result,
    folder: Path,
    path: Path | None = None,
    *,
    metrics: Sequence[str] = (),
    by: Sequence[str] = (),
    sections: Iterable[Maker] = (),
    yard: str | None = None,
) -> Path:
    """Write a batch's report; where it is.

    `folder` is the batch's own: its audit log is there, and the report by default. `metrics` and
    `by` choose what is shown; `sections` come besides those that were registered for batches like
    this one. `yard` is where the yard is, for the commands in the report.
    """
    context = ReportContext(result, folder, metrics=metrics, by=by, yard=yard)
    text = page(context, sections)
    target = path or folder / FILE
    with whole_file(target) as place:
        place.write_text(text, encoding="utf-8")
    return target


def page(context: ReportContext, sections: Iterable[Maker] = ()) -> str:
    """The whole report as text."""
    makers = [*OWN, *registered(context.recorded), *sections]
    made = [section for maker in makers if (section := maker(context)) is not None]
    ordered = sorted(made, key=lambda section: section.order)
    here = files("runyard.reports.html")
    style = Html(here.joinpath("report.css").read_text(encoding="utf-8"))
    script = Html(here.joinpath("report.js").read_text(encoding="utf-8"))
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<link rel="icon" href="data:,">'),
        element("title", f"{context.result.name} · Runyard report"),
        element("style", style),
    )
    body = element(
        "body",
        element("header", *_head(context), _contents(ordered)),
        element("main", *(_section(at, each) for at, each in enumerate(ordered))),
        element("footer", *_foot()),
        element("script", script),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _head(context: ReportContext) -> list[Html]:
    stats, row = context.stats, context.recorded.row
    state = f"{stats.completed:,} of {count(stats.total, 'task')} completed"
    if stats.failed:
        state += f", {stats.failed:,} failed"
    if stats.cancelled:
        state += f", {stats.cancelled:,} cancelled"
    when = f"Started {moment(row.started)}" if row.started else "Not started yet"
    parts = [
        element("p", "Runyard report", class_="kind"),
        element("h1", context.result.name),
        paragraph(_what(context), class_="what"),
        element("p", state, class_="state"),
        paragraph(f"{when}; {duration(stats.seconds)} of run time.", class_="aside"),
    ]
    mixed = [
        paragraph(f"{line}.", class_="warning") for line in mixed_lines(context.result.mixed_code)
    ]
    return [*parts, *mixed, *_unfinished(context)]


def _what(context: ReportContext) -> str:
    """What was run, in a line."""
    recorded = context.recorded
    target, plan = recorded.target, recorded.plan
    parts = ["a list of tasks" if target is None else cut(context.near(target.ref), 120)]
    if plan is not None:
        sides = [f"{len(axis.values):,} {_plural(axis.name)}" for axis in plan.axes]
        sides += [count(plan.replicates, "replicate")] if plan.replicates > 1 else []
        parts.append(" × ".join(sides))
    parts.append(f"root seed {recorded.seed}")
    return " · ".join(part for part in parts if part)


def _plural(name: str) -> str:
    return f"{name}s" if name in ("variant", "case") else f"values of {name}"


def _unfinished(context: ReportContext) -> list[Html]:
    row, runs = context.recorded.row, context.history.runs
    if not row.pending:
        return []
    why = ""
    if context.stats.workers:
        why = "it is running now"
    elif runs and runs[-1].reason:
        why = f"its last run ended early: {runs[-1].reason}"
    elif runs:
        why = "its last run ended unexpectedly"
    again: list[object] = [
        " To continue: ",
        command(context.command("resume", context.result.name)),
    ]
    if context.by_value():
        again = [" To continue, run its script again."]
    unfinished = (
        f" {count(row.pending, 'task')} of {row.total:,} {_have(row.pending)} no outcome yet"
    )
    return [
        element(
            "p",
            element("strong", "Not finished."),
            f"{unfinished}{'; ' if why else ''}{why}.",
            " The figures below cover what is recorded so far.",
            *([] if context.stats.workers else again),
            class_="warning",
            role="status",
        )
    ]


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _contents(sections: Sequence[Section]) -> Html:
    links = [
        element("li", element("a", section.title, href=f"#section-{at}"))
        for at, section in enumerate(sections)
    ]
    return element("nav", element("ul", *links), aria_label="Contents")


def _section(at: int, section: Section) -> Html:
    return element("section", element("h2", section.title), section.html, id=f"section-{at}")


def _foot() -> list[Html]:
    written = f"Written {moment(clock.now())} by Runyard {version('runyard')}. "
    return [paragraph(join((written, "This file is self-contained and makes no requests.")))]

"""From sections to a file: the frame of the page, its style, and writing the file atomically."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from runyard import clock, modes
from runyard.format import count, cut, duration
from runyard.reports.html import account, findings
from runyard.reports.html.blocks import Html, aside, command, element, moment, paragraph
from runyard.reports.html.context import Maker, ReportContext, registered
from runyard.reports.versions import mixed_lines
from runyard.spaces import whole_file

if TYPE_CHECKING:
    from runyard.reports.result import Result

FILE = "report.html"
OWN: Sequence[Maker] = (*account.OWN, findings.metrics, findings.comparison)

# Browsers that honour the policy make no requests, no matter what the page contains.
_META = Html(
    '<meta charset="utf-8">'
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
    '<link rel="icon" href="data:,">'
)


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
    """Write a batch's report; return its path.

    `folder` is the batch's own: its audit log is there, and the report by default. `metrics` and
    `by` choose what is shown; `sections` come besides those that were registered for batches like
    this one. `yard` is where the yard is, for the commands in the report.
    """
    context = ReportContext(result, folder, metrics=metrics, by=by, yard=yard)
    text = page(context, sections)
    target = path or folder / FILE
    with whole_file(target) as place:
        place.write_text(text, encoding="utf-8")
        if path is None:
            place.chmod(place.stat().st_mode & modes.FILE)
    return target


def page(context: ReportContext, sections: Iterable[Maker] = ()) -> str:
    """The whole report as text."""
    makers = [*OWN, *registered(context.recorded), *sections]
    made = [section for maker in makers if (section := maker(context)) is not None]
    ordered = sorted(made, key=lambda section: section.order)
    style, script = (
        Html(files("runyard.reports.html").joinpath(name).read_text(encoding="utf-8"))
        for name in ("report.css", "report.js")
    )
    title = element("title", f"{context.result.name} · Runyard report")
    links = [
        element("li", element("a", section.title, href=f"#section-{at}"))
        for at, section in enumerate(ordered)
    ]
    contents = element("nav", element("ul", *links), aria_label="Contents")
    body = [
        element("section", element("h2", section.title), section.html, id=f"section-{at}")
        for at, section in enumerate(ordered)
    ]
    written = f"Written {moment(clock.now())} by Runyard {version('runyard')}. "
    foot = paragraph(written, "This file is self-contained and makes no requests.")
    html = element(
        "html",
        element("head", _META, title, element("style", style)),
        element(
            "body",
            element("header", *_head(context), contents),
            element("main", *body),
            element("footer", foot),
            element("script", script),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{html}\n"


def _head(context: ReportContext) -> list[Html]:
    stats, row = context.stats, context.recorded.row
    state = f"{stats.completed:,} of {count(stats.total, 'task')} completed"
    for name in ("failed", "cancelled"):
        if number := getattr(stats, name):
            state += f", {number:,} {name}"
    when = f"Started {moment(row.started)}" if row.started else "Not started yet"
    return [
        paragraph("Runyard report", class_="kind"),
        element("h1", context.result.name),
        paragraph(_what(context), class_="what"),
        paragraph(state, class_="state"),
        aside(f"{when}; running time {duration(stats.seconds)}."),
        *(paragraph(f"{w}.", class_="warning") for w in mixed_lines(context.result.mixed_code)),
        *_unfinished(context),
    ]


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
        why = "; it is running now"
    elif runs and runs[-1].reason:
        why = f"; its last run ended early: {runs[-1].reason}"
    elif runs:
        why = "; its last run ended unexpectedly"
    again: list[object] = []
    if not context.stats.workers:
        again = [" To continue: ", command(context.command("resume", context.result.name))]
        if context.by_value():
            again = [" To continue, run its script again."]
    have = "has" if row.pending == 1 else "have"
    return [
        element(
            "p",
            element("strong", "Not finished."),
            f" {count(row.pending, 'task')} of {row.total:,} {have} no outcome yet{why}.",
            " The figures below cover the outcomes recorded so far.",
            *again,
            class_="warning",
            role="status",
        )
    ]

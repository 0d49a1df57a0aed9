"""Sections on the run: outcome, alerts, failures, slow tasks, timeline, and what was run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from runyard.format import count, duration, size
from runyard.reports.html import blocks, charts
from runyard.reports.html.blocks import (
    Html,
    element,
    join,
    moment,
    paragraph,
    shown,
)
from runyard.reports.html.context import ReportContext, Section
from runyard.reports.html.history import RunRecord
from runyard.reports.html.timeline import draw, read_lanes
from runyard.reports.metrics import equal_bins
from runyard.spec.options import Options

SLOWEST = 10
FAILURES = 20
ALERTS = 50
RUNS = 20
TRACE_LINES = 15
MESSAGE, TRACE = 500, 6000  # characters
CHUNK = 1 << 20
VALUES = 12  # of a parameter, in the table of what was run


def outcome(context: ReportContext) -> Section:
    """Counts, time, and the distribution of task durations."""
    stats, row = context.stats, context.recorded.row
    longest = _slowest(context)
    figures = [
        ("completed", f"{stats.completed:,}", ""),
        ("failed", f"{stats.failed:,}", "bad" if stats.failed else ""),
        ("cancelled", f"{stats.cancelled:,}", "bad" if stats.cancelled else ""),
        ("unfinished", f"{row.pending:,}", "bad" if row.pending else ""),
        ("tasks", f"{stats.total:,}", ""),
        ("time", duration(stats.seconds), ""),
        ("tasks per second", blocks.number(stats.rate), ""),
        ("retries", f"{sum(context.history.retries.values()):,}", ""),
    ]
    needed = ("completed", "failed", "tasks", "time", "tasks per second")
    parts = [blocks.tiles(f for f in figures if f[0] in needed or f[1] != "0")]
    if longest:
        parts.append(_times(context))
    return Section("Outcome", join(parts), order=10)


def _times(context: ReportContext) -> Html:
    """The distribution of task durations, on a logarithmic scale."""
    from runyard.stats.summary import Summary

    summary = Summary(order=1)
    for _, seconds in _ran(context):
        summary.add_array(seconds)
    low, median, high = summary.quantiles.quantiles([0.0, 0.5, 1.0])
    scale = charts.Scale.of_seconds(max(low, 1e-7), max(high, 1e-7))
    edges = np.linspace(math.log10(scale.low), math.log10(scale.high), 81)
    counts = np.zeros(80)
    for _, seconds in _ran(context):
        counts += equal_bins(np.log10(np.clip(seconds, scale.low, scale.high)), edges)
    marks = join(
        (
            charts.outline(scale, scale.low, scale.high, (counts / counts.max()).tolist(), 46, 2),
            charts.mark("diamond", scale.at(median), 55),
        )
    )
    note = f"median {duration(median)}, longest {duration(high)}, n {summary.count:,}"
    title = f"Tasks took {duration(low)} to {duration(high)}, half of them up to {duration(median)}"
    row = charts.Row("all tasks", marks, note, height=62)
    key = join((charts.sign("diamond"), " median; logarithmic scale"))
    return charts.chart(title, [row], scale, axis="task duration", key=key)


def _ran(context: ReportContext) -> Iterator[tuple[Any, Any]]:
    """Tasks that ran, with their seconds, some at a time."""
    columns = context.result.columns
    seconds, worker = columns.fixed("seconds"), columns.fixed("worker")
    for low in range(0, columns.total, CHUNK):
        ran = np.flatnonzero(worker[low : low + CHUNK] > 0) + low
        if len(ran):
            yield ran, seconds[ran]


def _slowest(context: ReportContext) -> list[tuple[int, float]]:
    best: list[tuple[float, int]] = []
    for tasks, seconds in _ran(context):
        top = np.argsort(-seconds, kind="stable")[:SLOWEST]
        best += [(float(-seconds[at]), int(tasks[at])) for at in top]
        best = sorted(best)[:SLOWEST]
    return [(task, -seconds) for seconds, task in best]


def alerts(context: ReportContext) -> Section | None:
    """Notices, lost workers, and alerts of tasks."""
    history = context.history
    parts: list[Html] = []
    if history.trouble:
        parts.append(
            paragraph(
                f"The audit log is damaged: {history.trouble}. ",
                "Runs, retries and alerts after that point are missing; outcomes are not affected.",
                class_="warning",
            )
        )
    found = sorted(history.alerts.values(), key=lambda alert: (-alert.count, alert.first))
    if found:
        rows = [
            [
                alert.kind,
                alert.level,
                alert.text,
                f"{alert.count:,}",
                _tasks(alert.tasks, alert.count),
                moment(alert.first),
            ]
            for alert in found[:ALERTS]
        ]
        heads = ["kind", "level", "message", "count", "tasks", "first"]
        parts.append(blocks.table(heads, rows, numbers=[3], sortable=len(rows) > 3))
    hidden = max(0, len(found) - ALERTS)
    if hidden or history.more_alerts:
        more = f"{hidden:,} more kinds" if hidden else ""
        rest = f"{history.more_alerts:,} more alerts not listed" if history.more_alerts else ""
        parts.append(paragraph(" and ".join(t for t in (more, rest) if t), class_="aside"))
    return Section("Alerts", join(parts), order=20) if parts else None


def _tasks(tasks: list[int], total: int) -> str:
    return ", ".join(map(str, tasks)) + (", …" if tasks and total > len(tasks) else "")


def failures(context: ReportContext) -> Section | None:
    """Failures by error and line, with the command that reproduces each."""
    groups = context.result.failures()
    if not groups:
        return None
    parts = []
    for group in groups[:FAILURES]:
        trace = "\n".join(context.near(group.trace).rstrip().splitlines()[-TRACE_LINES:])
        more = ", …" if group.count > len(group.tasks) else ""
        parts.append(
            element(
                "article",
                element("h3", f"{group.count:,} × {blocks.cut(group.kind, MESSAGE)}"),
                paragraph(blocks.cut(group.message.partition("\n")[0], MESSAGE), class_="message"),
                blocks.facts(
                    [
                        ("where", context.near(group.where)),
                        ("tasks", ", ".join(map(str, group.tasks)) + more),
                        ("to repeat", _again(context, group.tasks[0])),
                    ]
                ),
                blocks.details(
                    "Traceback of the first task", element("pre", blocks.cut(trace, TRACE))
                )
                if trace
                else "",
                class_="failure",
            )
        )
    if len(groups) > FAILURES:
        rest = sum(group.count for group in groups[FAILURES:])
        more = f"{len(groups) - FAILURES:,} more kinds of failure, {count(rest, 'task')}: "
        every = context.command("results", context.result.name, "--failures")
        parts.append(paragraph(more, blocks.command(every), class_="aside"))
    return Section("Failed tasks", join(parts), order=25)


def _again(context: ReportContext, task: int) -> Html | str:
    if context.by_value(task):
        return "run its script again: its function is sent by value and not stored"
    return blocks.command(context.repro(task))


def timeline(context: ReportContext) -> Section | None:
    """What each worker did over time, run by run."""
    history = context.history
    runs = read_lanes(context.result.columns, history)
    if not runs:
        return None
    parts = [draw(run, history, context.result.name) for run in runs]
    shown_runs = {id(run.run) for run in runs}
    others = sum(id(run) not in shown_runs for run in history.runs)
    if others:
        parts.append(
            paragraph(
                f"{count(others, 'other run')} not shown: without outcomes, or too long ago.",
                class_="aside",
            )
        )
    return Section("Timeline of workers", join(parts), order=60)


def slowest(context: ReportContext) -> Section | None:
    """The slowest tasks."""
    found = _slowest(context)
    if not found:
        return None
    rows = []
    for task, seconds in found:
        outcome = context.result.outcome(task)
        labels = ", ".join(f"{k} {shown(v, 24)}" for k, v in outcome.labels.items())
        cells = [f"{task}", duration(seconds), str(outcome.status), labels]
        rows.append([*cells, "" if context.by_value(task) else blocks.command(context.repro(task))])
    heads = ["task", "duration", "status", "parameters", "to repeat"]
    parts = [blocks.table(heads, rows, numbers=[0, 1])]
    if any(context.by_value(task) for task, _ in found):
        words = """A function sent by value is not stored. To run such a task again, call it from
            its script, or move it to a file and run that."""
        parts.append(paragraph(words, class_="aside"))
    return Section("Slowest tasks", join(parts), order=70)


def spec(context: ReportContext) -> Section:
    """What was run, on what, from which state of the code."""
    recorded = context.recorded
    plan, target = recorded.plan, recorded.target
    what: list[tuple[str, object]] = [
        ("batch", recorded.name),
        (
            "target",
            "a list of tasks" if target is None else blocks.cut(context.near(target.ref), MESSAGE),
        ),
        ("kind", "" if target is None else _KINDS[target.kind]),
        ("tasks", f"{recorded.row.total:,}"),
        ("root seed", str(recorded.seed)),
        ("digest", element("code", context.result.digest or "none: not finished")),
    ]
    if plan is not None:
        what.append(("replicates", f"{plan.replicates:,}"))
        what.append(("common random numbers", "yes" if plan.common_random_numbers else "no"))
    parts = [blocks.facts(what)]
    varied = [
        [a.name, a.role, _values(_in_order(a.values, order), a.role), f"{len(a.values):,}"]
        for a, order in (zip(plan.axes, plan.order, strict=True) if plan else ())
    ]
    varied += [[k, "fixed", shown(v, 200), "1"] for k, v in (plan.fixed if plan else {}).items()]
    if varied:
        heads = ["parameter", "role", "values", "count"]
        parts += [element("h3", "Parameters"), blocks.table(heads, varied, numbers=[3])]
    defaults, used = msgspec.structs.asdict(Options()), msgspec.structs.asdict(recorded.options)
    changed = {k: shown(v) for k, v in used.items() if v != defaults[k]}
    options = (
        blocks.facts(changed) if changed else paragraph("All at their defaults.", class_="aside")
    )
    parts += [element("h3", "Options"), options]
    run = next((run for run in reversed(context.history.runs) if run.described), None)
    if run is not None:
        latest = "Latest run" if run is context.history.runs[-1] else f"RunRecord {run.number}"
        parts += [element("h3", latest), _described(run.described)]
    return Section("What was run", join(parts), order=80)


_KINDS = {
    "import": "a function by its import path",
    "file": "a function in a file",
    "value": "a function sent by value",
    "shell": "a shell command",
}


def _in_order(values: Any, order: tuple[int, ...] | None) -> Any:
    """The values as the author lists them."""
    return values if order is None else [values[at] for at in order]


def _values(values: Any, role: str) -> str:
    if isinstance(values, range):
        return f"{values.start} to {values[-1]}" + (
            f" by {values.step}" if values.step != 1 else ""
        )
    bare = [value[0] for value in values[:VALUES]] if role == "item" else values[:VALUES]
    return ", ".join(shown(value, 60) for value in bare) + (", …" if len(values) > VALUES else "")


def _described(found: dict[str, Any]) -> Html:
    machine = found["machine"]
    memory = machine.get("memory")
    return blocks.facts(
        [
            ("command", element("code", found["command"])),
            ("project", found["project"]),
            ("git", git_words(found["git"])),
            *(
                (name.capitalize() if name == "python" else name, text)
                for name, text in found["versions"].items()
            ),
            (
                "machine",
                ", ".join(
                    str(part)
                    for part in (
                        machine["system"],
                        machine["architecture"],
                        machine.get("processor"),
                        count(machine["cores"], "core"),
                        size(memory) + " memory" if memory else None,
                    )
                    if part
                ),
            ),
        ]
    )


def git_words(git: dict[str, Any] | None) -> Html:
    """The state of the code on one line."""
    if git is None:
        return blocks.safe("not in a git repository, or git is not installed")
    changed = git["changed"]
    state = {None: "unknown whether files were changed", 0: "no uncommitted changes"}.get(
        changed, f"{count(changed or 0, 'file')} changed but not committed"
    )
    return join((element("code", git["commit"][:12]), f" on {git['branch']}, ", state))


def runs(context: ReportContext) -> Section | None:
    """Each time the batch was started or resumed."""
    found = context.history.runs
    if not found:
        return None
    alive = context.result.engines_alive()
    rows = []
    for run in found[-RUNS:]:
        seconds = None if run.ended is None else run.ended - run.started
        rows.append(
            [
                f"{run.number}",
                moment(run.started),
                "" if seconds is None else duration(seconds),
                run.backend,
                f"{run.workers}",
                _end(run, run.engine in alive),
                "" if run.done is None else f"{run.done:,}",
                _commit(run),
            ]
        )
    heads = ["run", "started", "duration", "backend", "workers", "end", "tasks done", "code"]
    parts = [blocks.table(heads, rows, numbers=[0, 2, 4, 6])]
    if len(found) > RUNS:
        parts.append(paragraph(f"{len(found) - RUNS:,} earlier runs not listed.", class_="aside"))
    return Section("Runs", join(parts), order=85)


def _end(run: RunRecord, alive: bool) -> str:
    if run.ended is None:
        return "still running" if alive else "unexpectedly (killed, or power lost)"
    return run.reason


def _commit(run: RunRecord) -> str:
    git = run.described.get("git")
    if not git:
        return ""
    return str(git["commit"])[:7] + ("" if git["changed"] == 0 else "+" if git["changed"] else "?")


OWN = (outcome, alerts, failures, timeline, slowest, spec, runs)
"""The sections of this module; each returns None if it has no content."""

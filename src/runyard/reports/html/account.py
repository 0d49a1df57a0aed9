"""Sections on the run: outcome, alerts, failures, slow tasks, timeline, and what was run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from runyard.format import count, cut, duration, size
from runyard.reports.failures import FailureGroup
from runyard.reports.html import blocks, charts, timeline
from runyard.reports.html.blocks import Html, aside, element, join, moment, paragraph, shown
from runyard.reports.html.context import ReportContext, Section
from runyard.reports.html.history import RunRecord
from runyard.reports.metrics import equal_bins
from runyard.spec import option_kinds as kinds
from runyard.spec.options import SPECS, Options
from runyard.spec.status import Priority

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
    stats = context.stats
    retries = sum(context.history.retries.values())
    counts = {
        "completed": stats.completed, "failed": stats.failed, "cancelled": stats.cancelled,
        "unfinished": context.recorded.row.pending, "tasks": stats.total,
    }  # fmt: skip
    tiles = [
        (name, f"{n:,}", "bad" if n and name in ("failed", "cancelled", "unfinished") else "")
        for name, n in counts.items()
        if n or name not in ("cancelled", "unfinished")
    ]
    tiles += [("time", duration(stats.seconds), "")]
    tiles += [("tasks per second", blocks.number(stats.rate), "")]
    tiles += [("retries", f"{retries:,}", "")] if retries else []
    chart = _times(context) if any(True for _ in _ran(context)) else ""
    return Section("Outcome", join([blocks.tiles(tiles), chart]), order=10)


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
    bars = charts.outline(scale, scale.low, scale.high, (counts / counts.max()).tolist(), 46, 2)
    marks = join([bars, charts.mark("diamond", scale.at(median), 55)])
    note = f"median {duration(median)}, longest {duration(high)}, n = {summary.count:,}"
    title = f"Tasks took {duration(low)} to {duration(high)}; half took at most {duration(median)}"
    if summary.count == 1:
        title = f"The task took {duration(high)}"
    row = charts.Row("all tasks", marks, note, height=62)
    key = join([charts.sign("diamond"), " median; logarithmic scale"])
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
        damage = f"{history.trouble.rstrip('.')}. "
        rest = "Runs, retries and alerts after that point are missing; outcomes are not affected."
        parts.append(paragraph(damage, rest, class_="warning"))
    found = sorted(history.alerts.values(), key=lambda alert: (-alert.count, alert.first))
    rows = [
        [a.kind, a.level, a.text, f"{a.count:,}", _tasks(a.tasks, a.count), moment(a.first)]
        for a in found[:ALERTS]
    ]
    if rows:
        heads = ["kind", "level", "message", "count", "tasks", "first"]
        parts.append(blocks.table(heads, rows, numbers=[3], sortable=len(rows) > 3))
    more = [count(len(found) - ALERTS, "more kind")] if len(found) > ALERTS else []
    if history.more_alerts:
        more.append(f"{count(history.more_alerts, 'more alert')} not listed")
    if more:
        parts.append(aside(" and ".join(more)))
    return Section("Alerts", join(parts), order=20) if parts else None


def _tasks(tasks: list[int] | tuple[int, ...], total: int) -> str:
    return ", ".join(map(str, tasks)) + (", …" if tasks and total > len(tasks) else "")


def failures(context: ReportContext) -> Section | None:
    """Failures by error and line, with the command that reproduces each."""
    groups = context.result.failures()
    if not groups:
        return None
    parts = [_failure(context, group) for group in groups[:FAILURES]]
    if len(groups) > FAILURES:
        rest = sum(group.count for group in groups[FAILURES:])
        more = f"{count(len(groups) - FAILURES, 'more kind')} of failure, {count(rest, 'task')}: "
        every = context.command("results", context.result.name, "--failures")
        parts.append(aside(more, blocks.command(every)))
    return Section("Failed tasks", join(parts), order=25)


def _failure(context: ReportContext, group: FailureGroup) -> Html:
    trace = "\n".join(context.near(group.trace).rstrip().splitlines()[-TRACE_LINES:])
    lines = element("pre", cut(trace, TRACE))
    again: Html | str = "run its script again: its function is sent by value and not stored"
    if not context.by_value(group.tasks[0]):
        again = blocks.command(context.repro(group.tasks[0]))
    tasks = _tasks(group.tasks, group.count)
    where = context.near(group.where)
    return element(
        "article",
        element("h3", f"{group.count:,} × {cut(group.kind, MESSAGE)}"),
        paragraph(cut(group.message.partition("\n")[0], MESSAGE), class_="message"),
        blocks.facts({"where": where, "tasks": tasks, "to reproduce": again}),
        blocks.details("Traceback of the first task", lines) if trace else "",
        class_="failure",
    )


def workers(context: ReportContext) -> Section | None:
    """What each worker did over time, run by run."""
    history = context.history
    runs = timeline.read_lanes(context.result.columns, history)
    if not runs:
        return None
    parts = [timeline.draw(run, history, context.result.name) for run in runs]
    drawn = {id(run.run) for run in runs}
    others = sum(id(run) not in drawn for run in history.runs)
    if others:
        why = "not shown: no outcomes, or too old."
        parts.append(aside(f"{count(others, 'other run')} {why}"))
    return Section("Timeline of workers", join(parts), order=60)


def slowest(context: ReportContext) -> Section | None:
    """The slowest tasks."""
    found = _slowest(context)
    if not found:
        return None
    rows: list[list[object]] = []
    for task, seconds in found:
        outcome = context.result.outcome(task)
        labels = ", ".join(f"{k} {shown(v, 24)}" for k, v in outcome.labels.items())
        again = "" if context.by_value(task) else blocks.command(context.repro(task))
        rows.append([task, duration(seconds), outcome.status, labels, again])
    heads = ["task", "duration", "status", "parameters", "to reproduce"]
    parts = [blocks.table(heads, rows, numbers=[0, 1])]
    if any(context.by_value(task) for task, _ in found):
        words = """A function sent by value is not stored. To run such a task again, call it from
            its script, or move it to a file and run that."""
        parts.append(aside(words))
    return Section("Slowest tasks", join(parts), order=70)


def spec(context: ReportContext) -> Section:
    """What was run, on what, from which state of the code."""
    recorded = context.recorded
    plan, target = recorded.plan, recorded.target
    ref = "a list of tasks" if target is None else cut(context.near(target.ref), MESSAGE)
    what: dict[str, object] = {
        "batch": recorded.name,
        "target": ref,
        "kind": "" if target is None else _KINDS[target.kind],
        "tasks": f"{recorded.row.total:,}",
        "root seed": recorded.seed,
        "digest": element("code", context.result.digest or "none: not finished"),
    }
    varied: list[list[object]] = []
    if plan is not None:
        what["replicates"] = f"{plan.replicates:,}"
        what["common random numbers"] = "yes" if plan.common_random_numbers else "no"
        for axis, order in zip(plan.axes, plan.order, strict=True):
            values = _values(_in_order(axis.values, order), axis.role)
            varied.append([axis.name, axis.role, values, f"{len(axis.values):,}"])
        varied += [[name, "fixed", shown(value, 200), "1"] for name, value in plan.fixed.items()]
    parts = [blocks.facts(what)]
    if varied:
        heads = ["parameter", "role", "values", "count"]
        parts += [element("h3", "Parameters"), blocks.table(heads, varied, numbers=[3])]
    defaults, used = msgspec.structs.asdict(Options()), msgspec.structs.asdict(recorded.options)
    changed = {k: _option(k, v) for k, v in used.items() if v != defaults[k]}
    options = blocks.facts(changed) if changed else aside("All options have their default values.")
    parts += [element("h3", "Options"), options]
    runs = context.history.runs
    run = next((run for run in reversed(runs) if run.described), None)
    if run is not None:
        title = "Latest run" if run is runs[-1] else f"Run {run.number}"
        parts += [element("h3", title), _described(run.described)]
    return Section("What was run", join(parts), order=80)


def _option(name: str, value: Any) -> str:
    """An option's value with its unit."""
    kind = SPECS[name].kind
    if kind in (kinds.DURATION, kinds.WAIT):
        return duration(value)
    if kind is kinds.MEMORY:
        return f"{value:,} bytes"
    return Priority(value).name.lower() if kind is kinds.PRIORITY else shown(value)


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
        step = f" by {values.step}" if values.step != 1 else ""
        return f"{values.start} to {values[-1]}{step}"
    bare = [value[0] if role == "item" else value for value in values[:VALUES]]
    return ", ".join(shown(value, 60) for value in bare) + (", …" if len(values) > VALUES else "")


def _described(found: dict[str, Any]) -> Html:
    machine = found["machine"]
    parts = [machine["system"], machine["architecture"], machine.get("processor")]
    parts.append(count(machine["cores"], "core"))
    if memory := machine.get("memory"):
        parts.append(f"{size(memory)} memory")
    return blocks.facts(
        [
            ("command", element("code", found["command"])),
            ("project", found["project"]),
            ("git", git_words(found["git"])),
            *(("Python" if n == "python" else n, text) for n, text in found["versions"].items()),
            ("machine", ", ".join(str(part) for part in parts if part)),
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
    return join([element("code", git["commit"][:12]), f" on {git['branch']}, ", state])


def runs(context: ReportContext) -> Section | None:
    """Each time the batch was started or resumed."""
    found = context.history.runs
    if not found:
        return None
    alive = context.result.engines_alive()
    rows = [
        [
            run.number,
            moment(run.started),
            "" if run.ended is None else duration(run.ended - run.started),
            run.backend,
            run.workers,
            _end(run, run.engine in alive),
            "" if run.done is None else f"{run.done:,}",
            _commit(run),
        ]
        for run in found[-RUNS:]
    ]
    heads = ["run", "started", "duration", "backend", "workers", "end", "tasks done", "code"]
    parts = [blocks.table(heads, rows, numbers=[0, 2, 4, 6])]
    if len(found) > RUNS:
        parts.append(aside(f"{count(len(found) - RUNS, 'earlier run')} not listed."))
    return Section("Runs", join(parts), order=85)


def _end(run: RunRecord, alive: bool) -> str:
    if run.ended is None:
        return "still running" if alive else "unexpected (killed, or power lost)"
    return run.reason


def _commit(run: RunRecord) -> str:
    git = run.described.get("git")
    if not git:
        return ""
    return str(git["commit"])[:7] + ("" if git["changed"] == 0 else "+" if git["changed"] else "?")


OWN = (outcome, alerts, failures, workers, slowest, spec, runs)
"""The sections of this module; each returns None if it has no content."""

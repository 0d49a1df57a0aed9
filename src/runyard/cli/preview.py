"""`runyard run --dry-run` and `--try`: what would run, and how long it would take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runyard.backends import unopened
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.running import final_document, say_result
from runyard.cli.session import Session, style
from runyard.format import count, cut, duration, listed, plus_minus
from runyard.preview import LOCAL, preview, recorded_result
from runyard.reports.estimate import RunEstimate, estimate
from runyard.spec.options import SPECS

if TYPE_CHECKING:
    from runyard.reports.result import Result
    from runyard.spec.batch import Batch
    from runyard.yard import Yard

WIDTH = 200
"""Characters shown of a call."""


def dry_run(session: Session, batch: Batch, *, fresh: bool, backend: str, workers: Any) -> None:
    """Show what a run would do, without running anything."""
    with session.yard(or_empty=True) as yard:
        found = preview(yard, batch, fresh=fresh, backend=backend, workers=workers)
    recorded, left = found.total - found.left, found.left
    seed = "the first run chooses a seed" if found.seed is None else f"seed {found.seed}"
    counts = f"{count(found.total, 'task')}, {recorded:,} recorded, {left:,} left to run"
    lines = []
    for task, call, replicate in found.calls:
        note = "" if replicate is None else f"  replicate {replicate}"
        lines.append(f"{task}  {cut(call, WIDTH)}{note}")
    if left > len(found.calls):
        lines.append(f"and {left - len(found.calls):,} more")
    if found.estimate.left < left:
        lines.append(f"the budget ends the run after {found.estimate.left:,} of them")
    given = batch.options.given().items()
    lines += [SPECS[name].preview.format(value) for name, value in given if SPECS[name].preview]
    lines += _estimate_lines(found.estimate, batch) if left else []
    if found.forgotten:
        lines.append(f"--fresh would delete {count(found.forgotten, 'outcome')}")
    session.answer("\n  ".join([f"{found.batch}: {counts}; {seed}", *lines]), found.to_data())
    for notice in [*found.notices, "dry run: nothing was run"]:
        session.note(notice)


def after_trial(
    yard: Yard, batch: Batch, *, fresh: bool, backend: str, workers: int | None
) -> Callable[[Session, Result], int]:
    """A function that shows the result of a trial and estimates the rest of its batch."""
    before = None if fresh else recorded_result(yard, batch)
    failed, done = (before.stats.failed, before.stats.done) if before else (0, 0)

    def tell(session: Session, result: Result) -> int:
        code, stats = say_result(session, result), result.stats
        left, lanes = stats.total - stats.done, unopened(LOCAL.get(backend, backend), workers).lanes
        rest = estimate(yard.store, result, left, lanes, batch.options.metrics)
        for line in _estimate_lines(rest, batch) if left else ():
            session.say(f"  {line}")
        figures = {"tried": stats.done - done, "left": left, "estimate": rest.to_data()}
        session.document(final_document(result) | figures)
        return 0 if code == EXIT_FAILED and stats.failed == failed else code

    return tell


def _estimate_lines(found: RunEstimate, batch: Batch) -> list[str]:
    if found.seconds is None:
        return ["no estimate: no outcomes yet; --try 20 runs 20 tasks and estimates the rest"]
    tasks, workers = count(found.left, "task"), count(found.workers, "worker")
    took = style(f"about {duration(found.seconds)}", bold=True)
    lines = [f"{took} for {tasks} on {workers}, estimated from {count(found.outcomes, 'outcome')}"]
    for name, each in found.metrics.items():
        half = math.inf if each["half"] is None else each["half"]
        budget = batch.options.budget
        limit = f" of a budget of {budget[name]:g}" if name in budget else ""
        lines.append(f"{name}: {plus_minus(each['sum'] or 0.0, half)} more{limit}")
    known = listed(found.known) or "none"
    lines += [
        f"{name}: no recorded outcome has this metric; the metrics are: {known}"
        for name in found.absent
    ]
    return lines

"""`runyard resume` and `runyard retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.options import RESUME_FLAGS, option_flags
from runyard.cli.results import codec_option
from runyard.cli.running import (
    EXIT_USAGE,
    carry_out,
    hashing_as_recorded,
    place_options_of_recorded,
    show_notices,
)
from runyard.cli.session import Session, examples, shared
from runyard.doors import hooks_of
from runyard.errors import BadTarget, NotFound
from runyard.format import count

if TYPE_CHECKING:
    from runyard.yard import Yard

SIGNALLED = 128
"""The first exit code that stands for a signal."""


@click.command(
    epilog=examples(
        "runyard resume",
        "runyard resume walks --workers 4",
        "runyard resume walks --budget cost=5",
        "runyard resume --json",
    )
)
@click.argument("batch", required=False)
@option_flags(RESUME_FLAGS, defaults=False)
@codec_option
@place_options_of_recorded
@shared
def resume(
    session: Session,
    batch: str | None,
    progress: bool,
    **where: Any,
) -> int:
    """Continue a batch, or all unfinished ones.

    Without BATCH: every unfinished batch that is not running, the highest priority first.
    """
    with session.yard() as yard:
        show_notices(session, yard, progress=progress)
        if batch is not None:
            return _resume(session, yard, batch, progress=progress, **where)
        codes, by_value = [], False
        for name in _unfinished(session, yard):
            try:
                code = _resume(session, yard, name, progress=progress, **where)
            except BadTarget as error:
                by_value = True
                _leave_out(session, name, error)
                continue
            if code >= SIGNALLED:
                return code
            codes.append(code)
    if not codes and not by_value:
        session.note("nothing to resume: every batch is finished or running")
    return max(codes, default=EXIT_USAGE if by_value else 0)


@click.command(
    epilog=examples("runyard retry walks", "runyard retry walks --status cancelled --workers 4")
)
@click.argument("batch")
@click.option(
    "--status",
    type=click.Choice(["failed", "cancelled"]),
    default="failed",
    show_default=True,
    help="Rerun tasks with this status.",
)
@codec_option
@place_options_of_recorded
@shared
def retry(
    session: Session,
    batch: str,
    status: str,
    **where: Any,
) -> int:
    """Rerun the failed tasks of a batch.

    Their outcomes are deleted; everything else stays as it is.
    """
    with session.yard() as yard:
        yard.refuse_by_value(batch)
        with hashing_as_recorded(session, yard.recorded(batch), where["backend"]):
            again = yard.retry(batch, status)
            if not again:
                raise NotFound(f"{batch} has no {status} tasks")
            session.note(f"{batch}: rerunning {count(again, f'{status} task')}")
            show_notices(session, yard, progress=where["progress"])
            return _resume(session, yard, batch, **where)


def _resume(
    session: Session,
    yard: Yard,
    name: str,
    **where: Any,
) -> int:
    with hashing_as_recorded(session, yard.recorded(name), where["backend"]):
        code = carry_out(session, yard, name, lambda: yard.resume(name, **where))
    hooks = hooks_of(yard.recorded(name))
    if hooks is not None and hasattr(hooks, "collect"):
        session.say(f"  files: {hooks.collect(yard, name).folder}")
    return code


def _leave_out(session: Session, name: str, error: BadTarget) -> None:
    session.note(f"skipping {name}: {error.message}\n  {error.hint}")
    told = {"class": type(error).__name__, "message": error.message, "hint": error.hint}
    session.document({"batch": name, "error": told})


def _unfinished(session: Session, yard: Yard) -> list[str]:
    """Batches to continue, the highest priority first."""
    found = []
    for result in yard.status():
        row, stats = result.recorded.row, result.stats
        if stats.workers:
            session.note(f"{row.name} is already running")
        elif row.pending:
            found.append(row)
    return [row.name for row in sorted(found, key=lambda row: (-row.priority, row.id))]

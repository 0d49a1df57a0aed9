"""`runyard resume`, `runyard retry` and `runyard worker`: run what is recorded already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.cli.applications import hooks_of
from runyard.cli.command import codec_option, command, option
from runyard.cli.exit_codes import EXIT_SIGNAL, EXIT_USAGE, code_of
from runyard.cli.options import (
    RESUME_FLAGS,
    option_flags,
    place_options,
    place_options_of_recorded,
)
from runyard.cli.running import (
    WHY,
    carry_out,
    hashing_as_recorded,
    show_notices,
)
from runyard.cli.session import Session
from runyard.errors import BadTarget, NotFound
from runyard.format import count

if TYPE_CHECKING:
    from runyard.worker import Turn
    from runyard.yard import Yard


@command(
    "runyard resume",
    "runyard resume walks --workers 4",
    "runyard resume walks --budget cost=5",
    "runyard resume --json",
)
@click.argument("batch", required=False)
@option_flags(RESUME_FLAGS, defaults=False)
@codec_option
@place_options_of_recorded
def resume(session: Session, batch: str | None, **where: Any) -> int:
    """Continue a batch, or all unfinished ones.

    Without BATCH: every unfinished batch that is not running, the highest priority first.
    """
    with session.yard() as yard:
        show_notices(session, yard, progress=where["progress"])
        if batch is not None:
            return _resume(session, yard, batch, **where)
        codes, by_value = [], False
        for name in _unfinished(session, yard):
            try:
                code = _resume(session, yard, name, **where)
            except BadTarget as error:
                by_value = True
                session.note(f"skipping {name}: {error.message}\n  {error.hint}")
                told = {"class": "BadTarget", "message": error.message, "hint": error.hint}
                session.document({"batch": name, "error": told})
                continue
            if code >= EXIT_SIGNAL:
                return code
            codes.append(code)
    if not codes and not by_value:
        session.note("nothing to resume: every batch is finished or running")
    return max(codes, default=EXIT_USAGE if by_value else 0)


@command("runyard retry walks", "runyard retry walks --status cancelled --workers 4")
@click.argument("batch")
@option(
    "--status",
    type=click.Choice(["failed", "cancelled"]),
    default="failed",
    help="Rerun tasks with this status.",
)
@codec_option
@place_options_of_recorded
def retry(session: Session, batch: str, status: str, **where: Any) -> int:
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


@command(
    "runyard worker",
    "runyard worker --yard postgresql://lab@db.example.org/lab --workers 8",
    "runyard worker --forever --yard postgresql://lab@db.example.org/lab",
)
@option("--forever", is_flag=True, help="Wait for more work instead of ending.")
@place_options
def worker(session: Session, forever: bool, **place: Any) -> int:
    """Run tasks from a shared yard.

    Workers on any number of machines can share one yard in PostgreSQL; the most urgent batch runs
    first. Tasks are imported by name, so start the worker in a folder with the project's code.
    """
    from runyard.execution import RunSettings
    from runyard.worker import YardWorker

    ended: list[Turn] = []
    code = 0

    def tell(turn: Turn) -> None:
        ended.append(turn)
        why = f"; {WHY[turn.end]}" if turn.end in WHY else ""
        session.say(f"{turn.batch}: {count(turn.tasks, 'task')}{why}")

    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=place["progress"])
        try:
            settings = RunSettings(**place)
            YardWorker(yard, settings, forever=forever, on_turn=tell, say=session.note).run()
        except (KeyboardInterrupt, SystemExit) as end:
            code = code_of(end)
    session.document({"batches": [turn._asdict() for turn in ended]})
    if not ended and not code:
        session.say("nothing to do")
    return code


def _resume(session: Session, yard: Yard, name: str, **where: Any) -> int:
    with hashing_as_recorded(session, yard.recorded(name), where["backend"]):
        code = carry_out(session, yard, name, lambda: yard.resume(name, **where))
    hooks = hooks_of(yard.recorded(name))
    if hooks is not None and hasattr(hooks, "collect"):
        session.say(f"  files: {hooks.collect(yard, name).folder}")
    return code


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

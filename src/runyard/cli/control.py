"""`runyard stop`, `runyard cancel` and `runyard clear`."""

from __future__ import annotations

import click

from runyard.cli.command import command, yes_option
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.session import Session
from runyard.cli.values import task_of
from runyard.errors import NotFound
from runyard.format import count


@command("runyard stop", "runyard stop walks")
@click.argument("batch", required=False)
def stop(session: Session, batch: str | None) -> None:
    """Stop engines once their running tasks end.

    Without BATCH: every engine. `runyard resume` continues later.
    """
    with session.yard() as yard:
        asked = yard.stop(batch)
    if not asked:
        raise NotFound("nothing is running" if batch is None else f"{batch} is not running")
    session.answer(
        f"asked {count(asked, 'engine')} to stop once running tasks end", {"asked": asked}
    )


@command("runyard cancel walks", "runyard cancel walks/17")
@click.argument("target", metavar="BATCH|TASK")
def cancel(session: Session, target: str) -> None:
    """Cancel a batch or a task, even while it runs."""
    name, number = task_of(target) if "/" in target else (target, None)
    with session.yard() as yard:
        cancelled = yard.cancel(name, number)
    if not cancelled:
        done = "has no unfinished tasks" if number is None else "has already ended"
        raise NotFound(f"{target} {done}: there is nothing to cancel")
    session.answer(f"cancelled {count(cancelled, 'task')}", {"cancelled": cancelled})


@command("runyard clear walks", "runyard clear walks --yes")
@click.argument("batch")
@yes_option
def clear(session: Session, batch: str, yes: bool) -> int:
    """Delete a batch: its record and its files."""
    with session.yard() as yard:
        done = yard.results(batch).stats.done
        outcomes = count(done, "outcome")
        if not yes and not session.confirm_loss(f"this would delete batch {batch} ({outcomes})"):
            return EXIT_FAILED
        yard.clear(batch)
    session.answer(f"deleted batch {batch} ({outcomes})", {"cleared": batch, "outcomes": done})
    return 0

"""`runyard stop`, `runyard cancel` and `runyard clear`."""

from __future__ import annotations

import click

from runyard.cli.asking import agreed
from runyard.cli.session import Session, examples, shared
from runyard.cli.tasks import task_of
from runyard.errors import NotFound
from runyard.format import count


@click.command(epilog=examples("runyard stop", "runyard stop walks"))
@click.argument("batch", required=False)
@shared
def stop(session: Session, batch: str | None) -> int:
    """Stop running engines once their current tasks end.

    Without BATCH: every engine. `runyard resume` continues later.
    """
    with session.yard() as yard:
        asked = yard.stop(batch)
    if not asked:
        raise NotFound("nothing is running" if batch is None else f"{batch} is not running")
    session.say(f"asked {count(asked, 'engine')} to stop after the current tasks")
    session.document({"asked": asked})
    return 0


@click.command(epilog=examples("runyard cancel walks", "runyard cancel walks/17"))
@click.argument("target", metavar="BATCH|TASK")
@shared
def cancel(session: Session, target: str) -> int:
    """Cancel a batch or a task, even while it runs."""
    name, number = task_of(target) if "/" in target else (target, None)
    with session.yard() as yard:
        cancelled = yard.cancel(name, number)
    if not cancelled:
        raise NotFound(f"{target} has nothing left to cancel")
    session.say(f"cancelled {count(cancelled, 'task')}")
    session.document({"cancelled": cancelled})
    return 0


@click.command(epilog=examples("runyard clear walks", "runyard clear walks --yes"))
@click.argument("batch")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@shared
def clear(session: Session, batch: str, yes: bool) -> int:
    """Delete a batch: its record and its files."""
    with session.yard() as yard:
        done = yard.results(batch).stats.done
        outcomes = count(done, "outcome")
        if not yes and not agreed(session, f"this would delete {batch} and {outcomes}"):
            return 1
        yard.clear(batch)
    session.say(f"deleted {batch} and {outcomes}")
    session.document({"cleared": batch, "outcomes": done})
    return 0

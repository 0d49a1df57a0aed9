"""`runyard stop`, `runyard cancel` and `runyard clear`."""

from __future__ import annotations

import click

from runyard.cli.asking import agreed
from runyard.cli.session import Session, examples, shared
from runyard.cli.tasks import task_of
from runyard.errors import NotFound


@click.command(epilog=examples("runyard stop", "runyard stop walks"))
@click.argument("batch", required=False)
@shared
def stop(session: Session, batch: str | None) -> int:
    """Let running engines finish their tasks and stop.

    Without BATCH: all of them. `runyard resume` goes on later.
    """
    with session.yard() as yard:
        asked = yard.stop(batch)
    if not asked:
        raise NotFound("nothing is running" if batch is None else f"{batch} is not running")
    engines = "1 engine" if asked == 1 else f"{asked} engines"
    session.say(f"{engines} asked to stop after what runs now")
    session.document({"asked": asked})
    return 0


@click.command(epilog=examples("runyard cancel walks", "runyard cancel walks/17"))
@click.argument("target", metavar="BATCH|TASK")
@shared
def cancel(session: Session, target: str) -> int:
    """Cancel a batch or a task, running or not."""
    name, number = task_of(target) if "/" in target else (target, None)
    with session.yard() as yard:
        cancelled = yard.cancel(name, number)
    if not cancelled:
        raise NotFound(f"there is nothing of {target} left to cancel")
    session.say("1 task cancelled" if cancelled == 1 else f"{cancelled:,} tasks cancelled")
    session.document({"cancelled": cancelled})
    return 0


@click.command(epilog=examples("runyard clear walks", "runyard clear walks --yes"))
@click.argument("batch")
@click.option("--yes", is_flag=True, help="Don't ask.")
@shared
def clear(session: Session, batch: str, yes: bool) -> int:
    """Forget a batch: its record and its files."""
    with session.yard() as yard:
        done = yard.results(batch).stats.done
        if not yes and not agreed(session, f"clear would forget {batch} with {done:,} outcomes"):
            return 1
        yard.clear(batch)
    session.say(f"{batch} is forgotten, with {done:,} outcomes")
    session.document({"cleared": batch, "outcomes": done})
    return 0

"""`runyard doctor` and `runyard gc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runyard.cli.command import command, option
from runyard.cli.exit_codes import EXIT_ENGINE
from runyard.cli.session import Session, style
from runyard.format import count
from runyard.format import size as byte_size
from runyard.spec import units

if TYPE_CHECKING:
    from runyard.checks.upkeep import YardCheck

SHOWN, LISTED = 20, 1000


@command("runyard doctor", "runyard doctor --json")
def doctor(session: Session) -> int:
    """Check the store and the logs; repair truncated logs.

    Exit code 0: everything is intact or repaired; 3: something is damaged or can't be read. Users
    who may only read the yard are told what is left to repair.
    """
    from runyard.checks.upkeep import check_yard

    with session.yard() as yard:
        found = check_yard(yard)
    document = {
        "yard": session.place,
        "ok": found.is_whole,
        "damaged": len(found.problems),
        "problems": found.problems[:LISTED],
        "unread": found.unread,
        "repaired": found.repaired,
        "left": found.left,
        "logs": found.logs,
    }
    session.answer("\n".join([*_lines(found), _verdict(session, found)]), document)
    return 0 if found.is_whole else EXIT_ENGINE


def _lines(found: YardCheck) -> list[str]:
    more = len(found.problems) - SHOWN
    return [
        *(f"{style('repaired', fg='yellow')}  {line}" for line in found.repaired),
        *(f"{style('left', fg='yellow')}      {line}" for line in found.left),
        *(f"{style('damaged', fg='red')}   {line}" for line in found.problems[:SHOWN]),
        *([f"and {more:,} more"] if more > 0 else []),
        *(f"{style('unread', fg='red')}    {line}" for line in found.unread),
    ]


def _verdict(session: Session, found: YardCheck) -> str:
    if found.store:
        return (
            "damaged data is never reported as results; "
            "restore the yard, or rerun the batch with --fresh"
        )
    if found.damaged_logs:
        return "the store is intact and no outcome is lost; move the damaged log away"
    if found.unread:
        return "the store is intact; check the unread logs as a user who may read them"
    return f"{session.place} is intact: the store and {count(found.logs, 'audit log')}"


def _age(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    if text.strip().replace(".", "", 1).isdigit():
        raise click.BadParameter(f"{text!r} has no unit: write {text}d for days, {text}h for hours")
    return units.seconds(text)


@command("runyard gc --dry-run", "runyard gc --older-than 2d", "runyard gc --json")
@option(
    "--older-than",
    "age",
    metavar="TIME",
    default="7d",
    callback=_age,
    help="Remove only what has not changed for this long: 12h, 7d.",
)
@option("--dry-run", is_flag=True, help="Show what would be removed, without removing it.")
def gc(session: Session, age: float, dry_run: bool) -> None:
    """Remove old workspaces and leftovers; compact the store.

    Leftovers are files of dead engines and folders of deleted batches. Outcomes stay. An SQLite
    store returns free space to the disk, unless an engine is using it.
    """
    from runyard.checks.upkeep import clear_away, compact, rubbish

    removed, freed = [], 0
    with session.yard() as yard:
        for path, size in rubbish(yard, age):
            removed.append(str(path))
            freed += size
            session.say(f"{byte_size(size):>8}  {path}")
            if not dry_run:
                clear_away(yard, path)
        spare, skipped = compact(yard, dry_run=dry_run)
        place = yard.store.location
    if skipped is not None:
        session.note(f"{place} keeps {byte_size(spare)} of free space: {skipped}")
        spare = 0
    elif spare:
        session.say(f"{byte_size(spare):>8}  {place}: free space")
    verb = "would be removed" if dry_run else "removed"
    in_store = f"; {byte_size(spare)} of free space in the store" if spare else ""
    session.answer(
        f"{count(len(removed), 'item')} {verb}, {byte_size(freed)}{in_store}",
        {
            "removed": removed,
            "bytes": freed,
            "store": {"bytes": spare, "skipped": skipped},
            "dry_run": dry_run,
        },
    )

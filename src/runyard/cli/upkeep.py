"""`runyard doctor` and `runyard gc`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.session import Session, examples, shared, style
from runyard.errors import RunyardError, StoreDamaged, StoreError, StoreForbidden, StoreFull
from runyard.format import count
from runyard.format import size as byte_size

if TYPE_CHECKING:
    from runyard.store.base import Transaction
    from runyard.store.rows import EngineRow
    from runyard.yard import Yard

EXIT_DAMAGE = 3
SHOWN, LISTED = 20, 1000


@dataclass(slots=True)
class YardCheck:
    """What a check of the yard found."""

    store: list[str] = field(default_factory=list)  # what is damaged in it
    damaged_logs: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # logs that can't be looked at here
    repaired: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # repairs that this user may not make
    logs: int = 0  # audit logs that were checked

    @property
    def problems(self) -> list[str]:
        """All that is damaged."""
        return self.store + self.damaged_logs

    @property
    def is_whole(self) -> bool:
        """Whether all was read, and nothing is damaged."""
        return not self.problems and not self.unread


@click.command(epilog=examples("runyard doctor", "runyard doctor --json"))
@shared
def doctor(session: Session) -> int:
    """Check the store and the logs; repair torn tails.

    Exit code 0: everything is intact or repaired; 3: something is damaged or can't be read. Users
    who may only read the yard are told what is left to repair.
    """
    found = YardCheck()
    with session.yard() as yard:
        _check_store(yard, found)
        _check_logs(yard.folder, found)
    _tell(session, found)
    session.document(
        {
            "yard": session.place,
            "ok": found.is_whole,
            "damaged": len(found.problems),
            "problems": found.problems[:LISTED],
            "unread": found.unread,
            "repaired": found.repaired,
            "left": found.left,
            "logs": found.logs,
        }
    )
    return 0 if found.is_whole else EXIT_DAMAGE


def _tell(session: Session, found: YardCheck) -> None:
    for line in found.repaired:
        session.say(f"{style('repaired', fg='yellow')}  {line}")
    for line in found.left:
        session.say(f"{style('left', fg='yellow')}      {line}")
    for line in found.problems[:SHOWN]:
        session.say(f"{style('damaged', fg='red')}   {line}")
    if len(found.problems) > SHOWN:
        session.say(f"and {len(found.problems) - SHOWN:,} more")
    for line in found.unread:
        session.say(f"{style('unread', fg='red')}    {line}")
    if found.store:
        session.say("damaged data is never reported as results; rerun the batch with --fresh")
    elif found.damaged_logs:
        session.say("the store is intact: a damaged log costs no outcome; move it away")
    elif found.unread:
        session.say("the store is intact; check the unread logs as a user who may read them")
    else:
        session.say(f"{session.place} is intact: the store and {count(found.logs, 'audit log')}")


@click.command(
    epilog=examples("runyard gc --dry-run", "runyard gc --older-than 2d", "runyard gc --json")
)
@click.option(
    "--older-than",
    metavar="TIME",
    default="7d",
    show_default=True,
    help="Remove what has not changed for this time: 12h, 7d.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, without removing it.")
@shared
def gc(session: Session, older_than: str, dry_run: bool) -> int:
    """Remove old workspaces and leftovers; compact the store.

    Leftovers are files of dead engines and folders of deleted batches. Outcomes stay. An SQLite
    store returns free space to the disk, unless an engine is using it.
    """
    from runyard.spaces import prune_empty, remove_tree
    from runyard.spec import units

    age = units.seconds(older_than)
    removed, freed = [], 0
    with session.yard() as yard:
        for path, size in _rubbish(yard, age):
            removed.append(str(path))
            freed += size
            session.say(f"{byte_size(size):>8}  {path}")
            if not dry_run:
                remove_tree(path)
                prune_empty(path.parent, yard.folder / "batches")
        store = _compact(session, yard, dry_run=dry_run)
    verb = "would be removed" if dry_run else "removed"
    spare = f"; {byte_size(store['bytes'])} of free space in the store" if store["bytes"] else ""
    session.say(f"{count(len(removed), 'item')} {verb}, {byte_size(freed)}{spare}")
    document = {"removed": removed, "bytes": freed, "store": store, "dry_run": dry_run}
    session.document(document)
    return 0


def _compact(session: Session, yard: Yard, *, dry_run: bool) -> dict[str, Any]:
    """Return free space of the store to the disk: the bytes, or why not."""
    store = yard.store
    spare, skipped = store.spare(), None
    if spare:
        with store.snapshot() as view:
            engines = [engine for engine in view.engines() if store.alive(engine.id)]
        if engines:
            skipped = "an engine is using it"
        elif not dry_run:
            try:
                spare = store.compact()
            except StoreError as error:
                skipped = error.message
    if skipped is not None:
        session.note(f"{store.location} keeps {byte_size(spare)} of free space: {skipped}")
        return {"bytes": 0, "skipped": skipped}
    if spare:
        session.say(f"{byte_size(spare):>8}  {store.location}: free space")
    return {"bytes": spare, "skipped": None}


def _check_store(yard: Yard, found: YardCheck) -> None:
    """Read the store and tidy it; one that can't be opened here is no damaged one."""
    from runyard.store.readable import unreadable

    try:
        found.store += yard.store.check()
        if found.store:
            return
        with yard.store.snapshot() as view:
            found.store += unreadable(view)
        _sign_off_dead(yard, found)
    except StoreDamaged as error:
        found.store.append(error.message)


def _sign_off_dead(yard: Yard, found: YardCheck) -> None:
    from runyard.schedule.sweep import sweep_dead_engines

    store = yard.store

    def sweep(tx: Transaction) -> list[EngineRow]:
        dead = [engine for engine in tx.engines() if not store.alive(engine.id)]
        sweep_dead_engines(tx, store, yard.folder)
        return dead

    with store.snapshot() as view:
        dead = [engine for engine in view.engines() if not store.alive(engine.id)]
    try:
        if dead:
            dead = store.write(sweep)
        found.repaired += [f"engine {e.id} (pid {e.pid}) died: signed off" for e in dead]
    except (StoreForbidden, StoreFull) as error:
        why = "you may not sign it off" if isinstance(error, StoreForbidden) else error.message
        found.left += [f"engine {e.id} (pid {e.pid}) died: {why}" for e in dead]
        return
    for path in _left_behind(yard):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            found.left.append(f"{path}: left by a dead engine: {error.strerror}")
        else:
            found.repaired.append(f"{path}: left by a dead engine, removed")


def _check_logs(folder: Path, found: YardCheck) -> None:
    batches = folder / "batches"
    folders = [*batches.glob("*"), *batches.glob("*/tasks/*")]
    for path in sorted(folder / "events.jsonl" for folder in folders):
        try:
            path.lstat()  # a link that leads nowhere is a log that can't be read
            found.logs += 1
            _check_log(path, found)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except StoreDamaged as error:
            found.damaged_logs.append(error.message)
        except RunyardError as error:
            found.unread.append(error.message)
        except OSError as error:
            found.unread.append(f"{path}: {error.strerror or error}")


def _check_log(path: Path, found: YardCheck) -> None:
    from runyard.events import repair, verify

    report = verify(path)
    if report.torn_bytes and report.first_bad_line is None:
        size = count(report.torn_bytes, "byte")
        try:
            repair(path)
        except StoreError as error:
            found.left.append(f"{path}: a torn tail of {size}: {error.message}")
        else:
            found.repaired.append(f"{path}: cut off {size} of a torn tail")
    elif not report.ok:
        found.damaged_logs.append(f"{path}: {report.reason}")


def _rubbish(yard: Yard, age: float) -> Iterator[tuple[Path, int]]:
    """What can be removed, and its size."""
    from runyard import clock
    from runyard.spaces import measure, old

    with yard.store.snapshot() as view:
        names = {row.id: row.name for row in view.batches()}
        busy = {
            names.get(engine.batch or 0) for engine in view.engines() if yard.store.alive(engine.id)
        }
    known = set(names.values())
    folders = [path for path in (yard.folder / "batches").glob("*") if path.is_dir()]
    unknown = [(path, *measure(path)) for path in folders if path.name not in known]
    orphans = [(path, size) for path, size, touched in unknown if clock.now() - touched >= age]
    if orphans:
        _refuse_damaged(yard)
    yield from orphans
    idle = [folder for folder in folders if folder.name in known - busy]
    for space in old(idle, age):
        yield space.path, space.bytes
    for path in _left_behind(yard):
        with contextlib.suppress(FileNotFoundError):
            yield path, path.stat().st_size


def _refuse_damaged(yard: Yard) -> None:
    """A damaged store may have lost the row of a batch whose folder it doesn't know."""
    problem = next(iter(yard.store.check()), None)
    if problem is not None:
        raise StoreDamaged(
            f"the store {yard.store.location} is damaged, and nothing is removed: {problem}",
            hint="run `runyard doctor`",
        )


def _left_behind(yard: Yard) -> list[Path]:
    """Run files whose engine is neither alive nor recorded."""
    with yard.store.snapshot() as view:
        known = {engine.id for engine in view.engines()}
    found = []
    for path in (yard.folder / "run").glob("*"):
        number = path.name.replace("-", ".").partition(".")[0]
        if number.isdigit() and int(number) not in known and not yard.store.alive(int(number)):
            found.append(path)
    return found

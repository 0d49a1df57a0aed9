"""Check a yard's store and logs, and find what can be removed from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runyard import clock
from runyard.errors import RunyardError, StoreDamaged, StoreError, StoreForbidden, StoreFull
from runyard.events import repair, verify
from runyard.format import count
from runyard.schedule.sweep import sweep_dead_engines
from runyard.spaces import measure, old, prune_empty, remove_tree
from runyard.store.base import Transaction
from runyard.store.readable import unreadable
from runyard.store.rows import EngineRow
from runyard.yard import Yard


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


def check_yard(yard: Yard) -> YardCheck:
    """Check the store and the audit logs; sign off dead engines and repair torn tails."""
    found = YardCheck()
    _check_store(yard, found)
    _check_logs(yard.folder, found)
    return found


def _check_store(yard: Yard, found: YardCheck) -> None:
    """Read the store and tidy it; one that can't be opened here is no damaged one."""
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
    report = verify(path)
    if report.torn_bytes and report.first_bad_line is None:
        size = count(report.torn_bytes, "byte")
        try:
            repair(path)
        except StoreError as error:
            found.left.append(f"{path}: {size} of an incomplete last line: {error.message}")
        else:
            found.repaired.append(f"{path}: removed {size} of an incomplete last line")
    elif not report.ok:
        found.damaged_logs.append(f"{path}: {report.reason}")


def compact(yard: Yard, *, dry_run: bool = False) -> tuple[int, str | None]:
    """Return free space of the store to the disk: how many bytes, and why not if not."""
    store = yard.store
    spare = store.spare()
    if spare:
        with store.snapshot() as view:
            if any(store.alive(engine.id) for engine in view.engines()):
                return spare, "an engine is using it"
    if spare and not dry_run:
        try:
            spare = store.compact()
        except StoreError as error:
            return spare, error.message
    return spare, None


def clear_away(yard: Yard, path: Path) -> None:
    """Remove a file or folder of `rubbish`, and folders that are then empty."""
    remove_tree(path)
    prune_empty(path.parent, yard.folder / "batches")


def rubbish(yard: Yard, age: float) -> Iterator[tuple[Path, int]]:
    """Old workspaces, folders of deleted batches and files of dead engines, with their sizes."""
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

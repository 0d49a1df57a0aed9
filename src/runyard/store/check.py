"""Check every row against its checksum, and the counts against the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from runyard.errors import StoreDamaged
from runyard.spec.codec import checksum
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import CANCELLED, COMPLETED, FAILED
from runyard.store import schema
from runyard.store.pieces import IN_PIECES
from runyard.store.reading import Snapshot

_OUTCOMES = f"SELECT batch, {', '.join(OutcomeRow._fields)} FROM outcomes ORDER BY batch, task"
_BATCHES = "SELECT id, name, completed, failed, cancelled FROM batches"
_DESCRIBED = "SELECT id, name, frontier FROM batches WHERE plan IS NOT NULL"
_RANGES = "SELECT low, high FROM claims WHERE batch = :batch"
_COUNT = "SELECT count(*) FROM outcomes WHERE batch = :batch AND task >= :low AND task < :high"


def check_rows(view: Snapshot) -> Iterator[str]:
    """Check every row of every table against its checksum, and the counts against the rows."""
    for table in schema.TABLES:
        if table is schema.outcomes:
            continue
        for *columns, stored in view.stream(table.select):
            if table.checksum(columns) != stored:
                yield f"{table.name}: row {columns[:2]!r} does not match its checksum"
    counts: dict[tuple[int, int], int] = {}
    names = {number: name for number, name, *_ in view.run(_BATCHES).fetchall()}
    for batch, *columns in view.stream(_OUTCOMES):
        row = OutcomeRow._make(columns)
        if row.value == IN_PIECES:
            row = row._replace(value=_joined(view, batch, row.task))
        if checksum(row[:-1], batch) != row.checksum:
            place = f"{names.get(batch, f'batch {batch}')}/{row.task}"
            yield f"outcomes: the row of {place} does not match its checksum"
        counts[batch, row.status] = counts.get((batch, row.status), 0) + 1
    for number, name, *recorded in view.run(_BATCHES).fetchall():
        found = [counts.get((number, code), 0) for code in (COMPLETED, FAILED, CANCELLED)]
        if found != recorded:
            yield (
                f"batch {name}: {_counted(recorded)} outcomes were recorded, "
                f"but {_counted(found)} are in the store"
            )
    yield from _unheld(view)


def _counted(counts: Sequence[int]) -> str:
    completed, failed, cancelled = counts
    return f"{sum(counts):,} ({completed:,} completed, {failed:,} failed, {cancelled:,} cancelled)"


def _joined(view: Snapshot, batch: int, task: int) -> bytes:
    """A value joined from its pieces; empty if one is damaged, which has been reported already."""
    with suppress(StoreDamaged):
        return b"".join(view.pieces(batch, task))
    return b""


def _unheld(view: Snapshot) -> Iterator[str]:
    """Check that every task of a grid below its frontier has an outcome or lies in a claim."""

    def ended(batch: int, low: int, high: int) -> int:
        return int(view.run(_COUNT, batch=batch, low=low, high=high).fetchone()[0])

    for number, name, frontier in view.run(_DESCRIBED).fetchall():
        ranges = view.run(_RANGES, batch=number).fetchall()
        held = sum(high - low - ended(number, low, high) for low, high in ranges)
        if ended(number, 0, frontier) != frontier - held:
            yield f"batch {name}: some tasks have no outcome, and no engine holds them"

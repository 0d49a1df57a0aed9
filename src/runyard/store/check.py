"""Every row against its checksum, and the counts against the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sqlalchemy import Connection, func, select

from runyard.errors import StoreDamaged
from runyard.spec.codec import checksum
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import CANCELLED, COMPLETED, FAILED
from runyard.store import schema
from runyard.store.pieces import IN_PIECES
from runyard.store.reading import SqlSnapshot
from runyard.store.statements import row_checksum

PAGED = {"yield_per": 1000}


def check_rows(connection: Connection) -> Iterator[str]:
    """Every row of every table against its checksum, and the counts against the rows."""
    for table in schema.metadata.sorted_tables:
        if table in (schema.meta, schema.outcomes):
            continue
        options = {"yield_per": 4} if table is schema.pieces else PAGED
        for *columns, stored in connection.execute(select(table), execution_options=options):
            if row_checksum(table, tuple(columns)) != stored:
                yield f"{table.name}: row {columns[:2]!r} does not match its checksum"
    table = schema.outcomes
    query = select(table).order_by(table.c.batch, table.c.task)
    counts: dict[tuple[int, int], int] = {}
    for batch, *columns in connection.execute(query, execution_options=PAGED):
        row = OutcomeRow._make(columns)
        if row.value == IN_PIECES:
            row = row._replace(value=_joined(connection, batch, row.task))
        if checksum(row[:-1], batch) != row.checksum:
            yield f"outcomes: batch {batch} task {row.task} does not match its checksum"
        counts[batch, row.status] = counts.get((batch, row.status), 0) + 1
    b = schema.batches.c
    raw = select(b.id, b.name, b.completed, b.failed, b.cancelled)
    for number, name, *recorded in connection.execute(raw):
        found = [counts.get((number, code), 0) for code in (COMPLETED, FAILED, CANCELLED)]
        if found != recorded:
            yield (
                f"batch {name}: {sum(recorded)} outcomes were recorded "
                f"{tuple(recorded)}, {sum(found)} are there {tuple(found)}"
            )
    yield from _unheld(connection)


def _joined(connection: Connection, batch: int, task: int) -> bytes:
    """A value from its pieces; nothing where one of them is damaged, which has been told."""
    with suppress(StoreDamaged):
        return b"".join(SqlSnapshot(connection).pieces(batch, task))
    return b""


def _unheld(connection: Connection) -> Iterator[str]:
    """Below its frontier, each task of a described batch has an outcome or lies in a claim."""
    batches, outcomes, claims = schema.batches.c, schema.outcomes.c, schema.claims.c
    described = select(batches.id, batches.name, batches.frontier).where(batches.plan.is_not(None))
    for number, name, frontier in connection.execute(described).all():
        ranges = connection.execute(select(claims.low, claims.high).where(claims.batch == number))
        covered = frontier
        for low, high in ranges.all():
            inside = outcomes.batch == number, outcomes.task >= low, outcomes.task < high
            covered -= high - low
            covered += connection.scalar(select(func.count()).where(*inside)) or 0
        below = outcomes.batch == number, outcomes.task < frontier
        if (connection.scalar(select(func.count()).where(*below)) or 0) != covered:
            yield f"batch {name}: some tasks have no outcome, and nobody holds them"

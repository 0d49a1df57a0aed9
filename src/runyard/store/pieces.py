"""Values too large for a row: cut into pieces, which are rows of a table of their own.

outcomes  task 7 │ value: ''             │ checksum of the row with its value in place
pieces    task 7 │ number 0 │ 8 MiB      │ checksum
          task 7 │ number 1 │ the rest   │ checksum

A database limits a row (SQLite to 1 GB, PostgreSQL a field to 1 GB), and reads rows whole. Pieces
are written in the transaction of their outcome, so that neither is ever there without the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from runyard.spec.outcome import OutcomeRow, Rows

IN_ROW = 64 * 1024
"""Bytes of a value that stand in its row: pages of rows are read whole."""

PIECE = 8 * 1024 * 1024
"""Bytes of a value in one row of pieces."""

IN_PIECES = b""
"""What stands in a row in place of its value; no codec gives it for a value."""


def lightened(rows: Rows) -> tuple[Rows, list[OutcomeRow]]:
    """The rows without values that are too large for them, and those rows with theirs."""
    if rows.largest <= IN_ROW:
        return rows, []
    light, heavy = [], []
    for row in rows:
        if row.value is not None and len(row.value) > IN_ROW:
            heavy.append(row)
            row = row._replace(value=IN_PIECES)
        light.append(row)
    return Rows.of(light), heavy


def cut(value: bytes) -> Iterator[tuple[int, bytes]]:
    """The pieces of a value with their numbers."""
    for number, start in enumerate(range(0, len(value), PIECE)):
        yield number, value[start : start + PIECE]

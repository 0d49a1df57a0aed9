"""Values that are too large for one row are cut into pieces, stored in a separate table.

outcomes  task 7 │ value: ''             │ checksum of the row with its value in place
pieces    task 7 │ number 0 │ 8 MiB      │ checksum
          task 7 │ number 1 │ the rest   │ checksum

Databases limit sizes (SQLite a row to 1 GB, PostgreSQL a field to 1 GB) and read rows as a whole.
Pieces are written in the same transaction as their outcome, so neither exists without the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from runyard.spec.outcome import OutcomeRow, Rows

IN_ROW = 64 * 1024
"""The largest value stored in its row, in bytes: pages of rows are read as a whole."""

PIECE = 8 * 1024 * 1024
"""Bytes in one piece."""

IN_PIECES = b""
"""Replaces the value in its row; no codec encodes a value as this."""


def lightened(rows: Rows) -> tuple[Rows, list[OutcomeRow]]:
    """The rows with large values replaced by `IN_PIECES`, and the rows with large values."""
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
    """The numbered pieces of a value."""
    for number, start in enumerate(range(0, len(value), PIECE)):
        yield number, value[start : start + PIECE]

"""CSV that spreadsheets read as data: no cell is a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any, TextIO

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_csv(file: TextIO, rows: Iterable[Iterable[Any]]) -> int:
    """Write rows and count them; text that a spreadsheet would run as a formula gets a `'`."""
    writer = csv.writer(_Lines(file), lineterminator="\r\n")
    count = 0
    for row in rows:
        writer.writerow(map(_guarded, row))
        count += 1
    return count


class _Lines:
    """Ends lines in \\n for a writer that ends them in \\r\\n, or older Pythons quote no \\r."""

    def __init__(self, file: TextIO) -> None:
        self._write = file.write

    def write(self, row: str) -> object:
        return self._write(row.removesuffix("\r\n") + "\n")


def _guarded(cell: Any) -> Any:
    if isinstance(cell, str) and cell.startswith(_FORMULA):
        try:
            float(cell)
        except ValueError:
            return f"'{cell}"
    return cell

"""CSV that spreadsheets read as data: no cell is a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any, TextIO

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_csv(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows; text that a spreadsheet would run as a formula gets a leading `'`."""
    # Older Pythons quote no \r unless it ends their lines, and a row would end in a cell there.
    csv.writer(_Lines(file), lineterminator="\r\n").writerows(map(_guarded, rows))


class _Lines:
    def __init__(self, file: TextIO) -> None:
        self._write = file.write

    def write(self, row: str) -> object:
        return self._write(row.removesuffix("\r\n") + "\n")


def _guarded(row: Iterable[Any]) -> list[Any]:
    return [f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in row]


def _is_formula(text: str) -> bool:
    if not text.startswith(_FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False

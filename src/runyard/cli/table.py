"""Plain tables that fit the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from runyard.cli.session import style

NARROWEST = 8
_GAP = 2


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()
) -> str:
    """Rows under their heads, `numbers` aligned right; the last column gives way to the width."""
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(heads, *cells, strict=True)]
    width = screen_width()
    if width is not None:
        before = sum(widths[:-1]) + _GAP * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(NARROWEST, width - before))
    lines = [style(_line(heads, widths, numbers), bold=True)]
    lines += [_line(row, widths, numbers) for row in cells]
    return "\n".join(lines)


def pairs(facts: Sequence[tuple[str, str]]) -> str:
    """Names and what they stand for, one a line."""
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"  {style(name.ljust(width), dim=True)}  {text}" for name, text in facts)


def screen_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def screen_height() -> int | None:
    """Lines of the terminal that stdout is; None where it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().lines


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[int]) -> str:
    shown = []
    for position, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = cell if len(cell) <= width else cell[: width - 1] + "…"
        shown.append(text.rjust(width) if position in numbers else text.ljust(width))
    return (" " * _GAP).join(shown).rstrip()

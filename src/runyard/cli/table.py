"""Plain tables that fit the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from runyard.cli.session import style


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()
) -> str:
    """Rows under heads, `numbers` aligned right; the last column is cut to fit the terminal."""
    from runyard.reports.text import aligned

    head, *lines = aligned(heads, rows, numbers, screen_width())
    return "\n".join([style(head, bold=True), *lines])


def pairs(facts: Sequence[tuple[str, str]]) -> str:
    """Names and values, one pair a line."""
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"  {style(name.ljust(width), dim=True)}  {text}" for name, text in facts)


def screen_width() -> int | None:
    """The terminal's columns; None if stdout is not a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def screen_height() -> int | None:
    """The terminal's lines; None if stdout is not a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().lines

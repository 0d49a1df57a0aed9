"""Plain tables that fit the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence

from runyard.cli.session import style


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()
) -> str:
    """Rows under heads, `numbers` aligned right; the last column is cut to fit the terminal."""
    from runyard.reports.text import aligned

    size = screen_size()
    head, *lines = aligned(heads, rows, numbers, None if size is None else size.columns)
    return "\n".join([style(head, bold=True), *lines])


def pairs(facts: Mapping[str, str | Sequence[str] | None]) -> str:
    """Names and values, one pair a line; a name may have several values, or none."""
    lines = [
        (name, text)
        for name, values in facts.items()
        for text in ([values] if isinstance(values, str) else values or [])
        if text
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"  {style(name.ljust(width), dim=True)}  {text}" for name, text in lines)


def screen_size() -> os.terminal_size | None:
    """The terminal's size; None if stdout is not a terminal."""
    is_screen = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size() if is_screen else None

"""Modules whose file was edited after this process imported them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

# By module: what it was loaded by, which `importlib.reload` makes anew, and its file's time then.
_first_seen: dict[str, tuple[Any, int]] = {}

_SOURCE_TIME = slice(8, 12)
"""Where a bytecode file has the seconds of its source's time; all flags before it are zero."""


def edited(modules: Iterable[str]) -> list[str]:
    """Files of those of the modules that were edited since they were imported.

    Where Python keeps no bytecode: since they were first asked about.
    """
    found = []
    for name in sorted(modules):
        module = sys.modules.get(name)
        place = getattr(module, "__file__", None)
        if module is None or place is None or name == "__main__":
            continue
        with contextlib.suppress(OSError):
            loaded, changed = module.__spec__, Path(place).stat().st_mtime_ns
            if name not in _first_seen or _first_seen[name][0] is not loaded:
                _first_seen[name] = loaded, _imported_at(loaded, changed)
            if _first_seen[name][1] != changed:
                found.append(place)
    return found


def _imported_at(loaded: Any, changed: int) -> int:
    """The time that a module's file had when it was imported, as its bytecode tells."""
    cached = getattr(loaded, "cached", None)
    # Bytecode that this import did not write, such as pytest's, may be that of an earlier one.
    if type(loaded.loader) is not SourceFileLoader:
        return changed
    if cached is None or sys.dont_write_bytecode or not os.access(cached, os.R_OK | os.W_OK):
        return changed
    with Path(cached).open("rb") as file:
        head = file.read(16)
    seconds = int.from_bytes(head[_SOURCE_TIME], "little")
    is_same = any(head[4:8]) or seconds == changed // 10**9 & 0xFFFFFFFF
    return changed if is_same else seconds * 10**9

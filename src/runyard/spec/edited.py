"""Modules whose file was edited after this process imported them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# By module: its spec, which `importlib.reload` replaces, and the time of its file.
_first_seen: dict[str, tuple[Any, int]] = {}


def edited(modules: Iterable[str]) -> list[str]:
    """The files of modules that were edited since the first call about them."""
    found = []
    for name in sorted(modules):
        module = sys.modules.get(name)
        place = getattr(module, "__file__", None)
        if module is None or place is None or name == "__main__":
            continue
        with contextlib.suppress(OSError):
            loaded, changed = module.__spec__, Path(place).stat().st_mtime_ns
            if name not in _first_seen or _first_seen[name][0] is not loaded:
                _first_seen[name] = loaded, changed
            elif _first_seen[name][1] != changed:
                found.append(place)
    return found

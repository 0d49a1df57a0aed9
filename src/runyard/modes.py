"""Permissions of what Runyard creates in a yard: only its owner may write, others read by umask."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER, FILE = 0o755, 0o644


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless they exist."""
    try:
        path.mkdir(FOLDER, exist_ok=True)
    except FileNotFoundError:
        if path == path.parent:
            raise
        make_folder(path.parent)
        path.mkdir(FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open`: what a new file is created with."""
    return os.open(path, flags, FILE)

"""What a task printed, wherever that is kept: in the store, or in files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from runyard.spaces import task_folder
from runyard.store.base import Snapshot


class Output(NamedTuple):
    """What one attempt printed. None: it is in a file on another machine, which ran the task."""

    stdout: str | None = ""
    stderr: str | None = ""


def printed(view: Snapshot, batch: int, folder: Path, task: int) -> dict[int, Output]:
    """What the attempts of a task printed; `folder` is where this machine has the batch's files."""
    found = {}
    for row in view.printed(batch, task):
        place = task_folder(folder, task, row.attempt)
        texts = (_text(getattr(row, name), place / name) for name in Output._fields)
        found[row.attempt] = Output(*texts)
    return found


def _text(kept: bytes | None, path: Path) -> str | None:
    if kept is None:
        try:
            kept = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    return kept.decode("utf-8", "backslashreplace")

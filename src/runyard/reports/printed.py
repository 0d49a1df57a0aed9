"""The output of tasks, from the store or from files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from runyard.spaces import task_folder
from runyard.store.base import Snapshot


class TaskOutput(NamedTuple):
    """The output of one attempt; None if it is in a file on the machine that ran the task."""

    stdout: str | None = ""
    stderr: str | None = ""


def printed(view: Snapshot, batch: int, folder: Path, task: int) -> dict[int, TaskOutput]:
    """The output of each attempt of a task; `folder` is the batch's folder on this machine."""
    return {
        attempt: TaskOutput(
            *(None if kept is None else kept.decode("utf-8", "backslashreplace") for kept in both)
        )
        for attempt, both in printed_bytes(view, batch, folder, task).items()
    }


def printed_bytes(
    view: Snapshot, batch: int, folder: Path, task: int
) -> dict[int, tuple[bytes | None, ...]]:
    """The output of each attempt as bytes: stdout and stderr."""
    found = {}
    for row in view.printed(batch, task):
        place = task_folder(folder, task, row.attempt)
        both = (_kept(getattr(row, name), place / name) for name in TaskOutput._fields)
        found[row.attempt] = tuple(both)
    return found


def _kept(kept: bytes | None, path: Path) -> bytes | None:
    if kept is None:
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    return kept

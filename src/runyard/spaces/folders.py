"""A private folder for each attempt.

<batch>/tasks/<task>/<attempt>/             stdout, stderr: where they are long
<batch>/tasks/<task>/<attempt>/workspace/   what the task itself sees and writes
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runyard import clock
from runyard.errors import UsageError
from runyard.modes import make_folder
from runyard.spaces.trees import clear_errors, copy_tree, inside, measure, remove_tree
from runyard.spec.options import Keep

_WORKSPACE = "workspace"
_TRIES = 100


def task_folder(batch_dir: Path, task: int, attempt: int) -> Path:
    """Return the folder of one attempt of a task; it need not exist."""
    return batch_dir / "tasks" / str(task) / str(attempt)


class Workspaces:
    """Makes and removes the workspaces of one batch.

    `template` is a folder that each workspace starts as a copy of; `keep` says what stays once
    an attempt is over.
    """

    def __init__(
        self, batch_dir: Path, *, keep: Keep = "always", template: Path | None = None
    ) -> None:
        if template is not None:
            _check_template(template, batch_dir)
        self.batch_dir = batch_dir
        self.keep = keep
        self.template = template

    def create(self, task: int, attempt: int) -> Path:
        """Make the attempt's workspace, without anything an earlier execution of it left."""
        workspace = self._workspace(task, attempt)
        remove_tree(workspace.parent)
        with clear_errors(f"make the workspace {workspace}"):
            _make(workspace)
        if self.template is not None:
            try:
                copy_tree(self.template, workspace)
            except BaseException:
                self._discard(workspace)
                raise
        return workspace

    def settle(self, task: int, attempt: int, ok: bool) -> None:
        """Remove the attempt's workspace if the policy says so; what was captured stays."""
        if self.keep == "never" or (self.keep == "failed" and ok):
            self._discard(self._workspace(task, attempt))

    def _workspace(self, task: int, attempt: int) -> Path:
        """The path, refused if a task put a symlink in its way."""
        path = task_folder(self.batch_dir, task, attempt) / _WORKSPACE
        return inside(self.batch_dir, str(path.parent.relative_to(self.batch_dir))) / _WORKSPACE

    def _discard(self, workspace: Path) -> None:
        remove_tree(workspace)
        prune_empty(workspace.parent, self.batch_dir)


class OldFolder(NamedTuple):
    """A workspace that has not changed for a while."""

    path: Path
    bytes: int
    idle: float
    """Seconds since something in it changed."""


def old(batch_dirs: Iterable[Path], older_than: float) -> Iterator[OldFolder]:
    """Yield the workspaces of these batches in which nothing changed for `older_than` seconds."""
    now = clock.now()
    for batch_dir in batch_dirs:
        root = batch_dir.resolve()
        for workspace in root.glob(f"tasks/*/*/{_WORKSPACE}"):
            if workspace.resolve() != workspace or not workspace.is_dir():
                continue
            size, touched = measure(workspace)
            if now - touched >= older_than:
                yield OldFolder(workspace, size, now - touched)


def prune_empty(folder: Path, below: Path) -> None:
    """Remove `folder` and its parents up to `below`, while they are empty."""
    while folder != below and below in folder.parents:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = folder.parent


def _make(folder: Path) -> None:
    # Another attempt may remove an empty parent at the same moment.
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            make_folder(folder)
            return
    raise FileNotFoundError(errno.ENOENT, "its parents keep being removed", str(folder))


def _check_template(template: Path, batch_dir: Path) -> None:
    if not template.is_dir():
        raise UsageError(f"the template {template} is not a folder")
    if batch_dir.resolve().is_relative_to(template.resolve()):
        raise UsageError(
            f"the template {template} holds the batch's own folder {batch_dir}",
            hint="use a template folder outside the batch",
        )

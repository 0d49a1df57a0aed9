"""Folders as bytes: the project's on its way to a node, those of tasks on their way back."""

from __future__ import annotations

import fnmatch
import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from runyard.errors import BackendError
from runyard.spaces import prune_empty, remove_tree

LEFT_OUT = (".runyard", ".git", ".venv", "__pycache__")
"""Folders that never travel."""

PROJECT_LIMIT = 256 * 1024 * 1024
"""A larger project is refused: it would have to travel to every node."""

FILES_LIMIT = 64 * 1024 * 1024
"""A task's folder that is larger stays on its node."""


def pack_project(root: Path, excludes: Iterable[str], limit: int = PROJECT_LIMIT) -> bytes:
    """The project's folder as a zip archive."""
    patterns = list(excludes)
    archive, size = io.BytesIO(), 0
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for path in _files(root, patterns):
            size += path.stat().st_size
            if size > limit:
                raise BackendError(
                    f"{root} holds more than {limit // 2**20} MB, too much to send to other nodes",
                    hint='leave out what tasks don\'t read: runtime_env={"excludes": ["data/*"]}, '
                    'or name a smaller folder: runtime_env={"working_dir": "src"}',
                )
            target.write(path, path.relative_to(root))
    return archive.getvalue()


def _files(root: Path, patterns: list[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        here = Path(folder).relative_to(root)
        folders[:] = [
            name for name in folders if name not in LEFT_OUT and not _matches(here / name, patterns)
        ]
        for name in files:
            path = Path(folder, name)
            if not _matches(here / name, patterns) and path.is_file():
                yield path


def _matches(path: Path, patterns: list[str]) -> bool:
    text = path.as_posix()
    return any(fnmatch.fnmatch(text, pattern.strip("/")) for pattern in patterns)


def unpack_project(archive: bytes, folder: Path) -> None:
    """Put a packed project into a folder, in place of what is there."""
    remove_tree(folder)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        source.extractall(folder)  # noqa: S202 - made by `pack_project`


def pack_tasks(batch: Path, running: Callable[[], tuple[int, int]]) -> tuple[bytes, list[Path]]:
    """The folders of tasks that have ended, as a tar archive, and removed; and those too large.

    `running` tells the task and attempt that runs: what did before or does after the look at the
    folders may not be finished.
    """
    archive, too_large, packed = io.BytesIO(), [], []
    before, folders, after = running(), list(batch.glob("tasks/*/*")), running()
    with tarfile.open(fileobj=archive, mode="w") as target:
        for folder in folders:
            if (int(folder.parent.name), int(folder.name)) in (before, after):
                continue
            if _size(folder) > FILES_LIMIT:
                too_large.append(folder)
            else:
                target.add(folder, folder.relative_to(batch).as_posix())
                packed.append(folder)
    for folder in packed:
        remove_tree(folder)
        prune_empty(folder.parent, batch)
    return (archive.getvalue() if packed else b""), too_large


def unpack_tasks(archive: bytes, batch: Path) -> None:
    """Put folders of tasks where the yard keeps them."""
    batch.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        for member in source.getmembers():  # an earlier execution of the same attempt
            if len(Path(member.name).parts) == 3:  # tasks/<task>/<attempt>
                remove_tree(batch / member.name)
        source.extractall(batch, filter=_harmless)  # noqa: S202


def _harmless(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
    """A member that stays inside its folder; a link that leads out of it is left behind."""
    try:
        return tarfile.data_filter(member, place)
    except tarfile.FilterError:
        return None


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())

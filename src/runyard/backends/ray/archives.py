"""Folders as archives: the project sent to a node, task folders sent back."""

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
"""Folders that are never sent."""

PROJECT_LIMIT = 256 * 1024 * 1024
"""A larger project is refused: it would be sent to every node."""

FILES_LIMIT = 64 * 1024 * 1024
"""A larger task folder stays on its node."""


def pack_project(root: Path, excludes: Iterable[str], limit: int = PROJECT_LIMIT) -> bytes:
    """Pack the project's folder into a zip archive."""
    patterns = list(excludes)
    archive, size = io.BytesIO(), 0
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for path in _files(root, patterns):
            size += path.stat().st_size
            if size > limit:
                raise BackendError(
                    f"{root} holds more than {limit // 2**20} MB, too much to send to other nodes",
                    hint='exclude what tasks don\'t read: runtime_env={"excludes": ["data/*"]}, '
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
    """Unpack a project into a folder, replacing its content."""
    remove_tree(folder)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        source.extractall(folder)  # noqa: S202 - made by `pack_project`


def pack_tasks(batch: Path, running: Callable[[], tuple[int, int]]) -> tuple[bytes, list[Path]]:
    """Move the folders of ended tasks into a tar archive; returns it, and folders too large for it.

    `running` returns the running task and attempt. Those running just before or just after the
    folders are listed may not have ended.
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
    """Unpack task folders into the batch's folder."""
    batch.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        for member in source.getmembers():  # replaces an earlier run of the same attempt
            if len(Path(member.name).parts) == 3:  # tasks/<task>/<attempt>
                remove_tree(batch / member.name)
        source.extractall(batch, filter=_safe_member)  # noqa: S202


def _safe_member(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
    """Drop members that would leave the folder, such as links out of it."""
    try:
        return tarfile.data_filter(member, place)
    except tarfile.FilterError:
        return None


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())

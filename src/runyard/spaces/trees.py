"""Folders as a whole: copy, measure, remove; and paths that stay inside one."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runyard.errors import DISK_FULL, BadName, EngineError, StoreFull, UsageError
from runyard.spaces.walking import flatten

_FICLONE = 0x40049409  # Linux: share the blocks until one side writes
_LONGEST_PART = 255
_TRIES = 5


def near(path: Path) -> Path:
    """The path relative to the current folder, where it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def inside(root: Path, *parts: str) -> Path:
    """Join the parts to `root` and return the path, which lies below it even through symlinks.

    BadName for anything else: `..`, an absolute or empty part, NUL, a symlink that leads out.
    """
    for part in parts:
        problem = _problem(part)
        if problem:
            raise BadName(f"{part[:100]!a} can't be a path inside {root}: {problem}")
    path = root.joinpath(*parts)
    try:
        leads_out = not _resolved(path).is_relative_to(_resolved(root))
    except (OSError, ValueError) as error:
        raise BadName(f"{str(path)[:200]!a} can't be used as a path: {error}") from error
    if leads_out:
        raise BadName(f"{str(path)[:200]!a} leads out of {root} through a symlink")
    return path


def copy_tree(source: Path, target: Path) -> None:
    """Copy the contents of `source` into the folder `target`, sharing blocks where possible.

    Nothing in the copy leads back: no hard links, and a symlink that points out of `source` (or
    anywhere by an absolute path) is refused, as are devices, sockets and pipes.
    """
    with clear_errors(f"copy {source} to {target}"):
        _copy_folder(source, target, _resolved(source))


@contextmanager
def clear_errors(what: str) -> Iterator[None]:
    """Turn an OSError into an error that says what failed."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise StoreFull(f"no room left on the disk to {what}") from error
        raise EngineError(f"can't {what}: {error}") from error


def measure(path: Path) -> tuple[int, float]:
    """Return the bytes in a folder and the time of the latest change anywhere in it."""
    size, touched, folders = 0, 0.0, [str(path)]
    with suppress(OSError):
        touched = os.lstat(path).st_mtime
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):  # it has vanished
                    status = entry.stat(follow_symlinks=False)
                    touched = max(touched, status.st_mtime)
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(entry.path)
                    else:
                        size += status.st_size
    return size, touched


def remove_tree(path: Path) -> None:
    """Remove a folder with everything in it, read-only parts too, or a file, or nothing.

    Symlinks are removed, not followed.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            else:
                shutil.rmtree(path)
            return
        except FileNotFoundError:
            continue  # another process removes it too
        except (OSError, RecursionError) as error:
            # It is read-only or too deep, or an ending process still writes to it.
            if not tries_left:
                raise EngineError(f"{path} can't be removed: {error}") from error
            _open_up(path)


def _problem(part: str) -> str | None:
    if "\0" in part:
        return "it contains NUL"
    pieces = part.split("/")
    if part.startswith("/"):
        return "it is absolute"
    if ".." in pieces:
        return "it contains '..'"
    if all(piece in ("", ".") for piece in pieces):
        return "it names nothing"
    try:
        longest = max(len(os.fsencode(piece)) for piece in pieces)
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if longest > _LONGEST_PART:
        return f"a name in it is longer than {_LONGEST_PART} bytes"
    return None


def _resolved(path: Path) -> Path:
    # `Path.resolve` raises for symlinks that go round in Python before 3.13; they lead nowhere.
    return Path(os.path.realpath(path))


def _copy_folder(source: Path, target: Path, root: Path) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            origin, copy = Path(entry.path), target / entry.name
            if entry.is_symlink():
                copy.symlink_to(_checked_link(origin, root))
            elif entry.is_dir():
                copy.mkdir()
                _copy_folder(origin, copy, root)
                copy.chmod(stat.S_IMODE(entry.stat().st_mode) | stat.S_IRWXU)
            elif entry.is_file():
                _copy_file(origin, copy)
            else:
                raise UsageError(f"{origin} is a device, socket or pipe and can't be copied")


def _checked_link(link: Path, root: Path) -> Path:
    points_to = link.readlink()
    if points_to.is_absolute():
        raise BadName(f"the symlink {link} is absolute", hint="make it relative")
    end = _resolved(link)
    if not end.is_relative_to(root):
        raise BadName(f"the symlink {link} points out of {root}, to {end}")
    return points_to


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as origin, target.open("xb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, origin.fileno())
        except OSError:
            shutil.copyfileobj(origin, copy, 1 << 20)
    shutil.copystat(source, target)


def _open_up(path: Path) -> None:
    """Make a folder removable."""
    with suppress(OSError):
        if not path.is_symlink():
            path.chmod(stat.S_IRWXU)
        flatten(path)

"""Walk a folder that a hostile program may be changing.

Every step goes from one folder's descriptor to the next, so no link is followed and no path is too
long, even if folders are renamed meanwhile.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from runyard.errors import RunyardError

DEPTH = 64
"""How many folders deep a walk goes: it holds a descriptor for each of them."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = _FILE | os.O_DIRECTORY


class OutOfReach(RunyardError):
    """A folder that can't be read: too deep, or without permission."""


class Found(NamedTuple):
    """An entry of a folder; valid until the walk continues."""

    name: str
    path: str  # from where the walk began
    folder: int  # descriptor of the folder that it is in
    status: os.stat_result  # of the entry itself, even if it is a link

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder (not a link to one)."""
        return stat.S_ISDIR(self.status.st_mode)


class SpaceUsage(NamedTuple):
    """The space that a folder uses."""

    bytes: int  # on the disk, so that holes count for nothing and hard links once
    entries: int


def walk(root: Path, into: Callable[[Found], bool] = lambda _: True) -> Iterator[Found]:
    """Every entry below a folder, parents first; `into` decides which folders to enter.

    Entries that vanish meanwhile are skipped; unreadable folders raise OutOfReach.
    """
    try:
        top = os.open(root, _FOLDER)
    except FileNotFoundError:
        return
    try:
        yield from _walk(top, "", 1, into)
    finally:
        os.close(top)


def usage(root: Path, *, most: SpaceUsage | None = None) -> SpaceUsage:
    """The space that a folder uses; counting stops once it exceeds `most`."""
    size = entries = 0
    linked: set[tuple[int, int]] = set()
    for found in walk(root):
        entries += 1
        status = found.status
        if status.st_nlink > 1 and not found.is_folder:
            key = status.st_dev, status.st_ino
            if key in linked:
                continue
            linked.add(key)
        size += status.st_blocks * 512
        if most is not None and (size > most.bytes or entries > most.entries):
            break
    return SpaceUsage(size, entries)


def read_file(path: str | Path, most: int, *, folder: int | None = None) -> bytes:
    """Read a regular file of at most `most` bytes; OSError for anything else.

    Links, pipes and devices are refused without waiting for them.
    """
    file = os.open(path, _FILE, dir_fd=folder)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with open(file, "rb", closefd=False) as opened:
            data = opened.read(most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return data
    finally:
        os.close(file)


def flatten(root: Path) -> None:
    """Let the owner into every folder, and lift those that lie too deep for a walk to the top."""
    top = os.open(root, _FOLDER)
    try:
        lifted = ["."]
        while lifted:
            for place, folders, _, here in os.fwalk(lifted.pop(), dir_fd=top):
                for name in folders:
                    if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                        os.chmod(name, stat.S_IRWXU, dir_fd=here)
                if place.count("/") + 1 >= DEPTH:
                    names = [f".lifted-{secrets.token_hex(8)}" for _ in folders]
                    for name, new in zip(folders, names, strict=True):
                        os.rename(name, new, src_dir_fd=here, dst_dir_fd=top)
                    lifted += names
                    folders.clear()
    finally:
        os.close(top)


def _walk(folder: int, path: str, depth: int, into: Callable[[Found], bool]) -> Iterator[Found]:
    below: list[Found] = []
    for name in _names(folder):
        with suppress(FileNotFoundError):
            status = _status(name, folder)
            found = Found(name, f"{path}{name}", folder, status)
            if found.is_folder and into(found):
                below.append(found)
            yield found
    for each in below:
        if depth == DEPTH:
            raise OutOfReach(f"folders are more than {DEPTH} deep")
        with _entered(each) as descriptor:
            if descriptor is not None:
                yield from _walk(descriptor, f"{each.path}/", depth + 1, into)


def _status(name: str, folder: int) -> os.stat_result:
    """An entry's status, even if its folder was closed to its owner since it was opened."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except PermissionError:
        os.fchmod(folder, stat.S_IRWXU)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _names(folder: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


@contextmanager
def _entered(found: Found) -> Iterator[int | None]:
    """A descriptor of a folder, even if it is closed to its owner; None if it is gone."""
    descriptor = _opened(found)
    if descriptor is None:
        yield None
        return
    mode = stat.S_IMODE(found.status.st_mode)
    is_closed = os.geteuid() != 0 and mode & stat.S_IRWXU != stat.S_IRWXU
    try:
        if is_closed:  # its entries can be looked at only while it is open
            os.fchmod(descriptor, stat.S_IRWXU)
        yield descriptor
    finally:
        if is_closed:
            os.fchmod(descriptor, mode)
        os.close(descriptor)


def _opened(found: Found) -> int | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            return os.open(found.name, _FOLDER, dir_fd=found.folder)
        except PermissionError:
            return _forced(found)
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link has taken its place
                return None
            raise
    return None


def _forced(found: Found) -> int:
    """Open a folder that is closed to its owner."""
    if sys.platform != "linux":
        raise OutOfReach(f"the folder {found.path[:200]!a} is closed")
    place = os.open(found.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found.folder)
    path = Path(f"/proc/self/fd/{place}")
    try:
        path.chmod(stat.S_IRWXU)
        try:
            return os.open(path, _FOLDER & ~os.O_NOFOLLOW)
        finally:
            path.chmod(stat.S_IMODE(found.status.st_mode))
    except OSError as error:
        raise OutOfReach(f"the folder {found.path[:200]!a} can't be read") from error
    finally:
        os.close(place)

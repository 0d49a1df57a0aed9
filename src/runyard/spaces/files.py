"""Write files atomically, through symbolic links and to pipes and devices."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from runyard.errors import DISK_FULL, StoreFull, UsageError
from runyard.plaintext import plain

MOST_TEXT = 64 << 20
"""The most characters of a text that a person, or a small program, writes."""

_MOST_LINKS = 40


def read_text(source: Path | TextIO) -> str:
    """Read a text of at most `MOST_TEXT` characters; OSError if it is longer, or endless."""
    if isinstance(source, Path):
        with source.open(encoding="utf-8") as file:
            return read_text(file)
    text = source.read(MOST_TEXT + 1)
    if len(text) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"it is longer than {MOST_TEXT:,} characters")
    return text


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to; its content replaces the file `path` when the block ends.

    A symbolic link stays: its target is replaced. Pipes and devices are written to, and so are open
    files of this process under names such as /dev/stdout. What goes to a terminal is escaped.
    """
    try:
        opened = _opened(path)
        with _replacing(path) if opened is None else _pouring(opened) as place:
            yield place
    except OSError as error:
        if error.errno in DISK_FULL:
            raise StoreFull(f"no room left on the disk for {path}") from error
        raise UsageError(
            f"{path} can't be written: {error.strerror or error}", hint="choose another path"
        ) from error


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name[:50]}.{os.urandom(4).hex()}.partial")
    before = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    try:
        partial.touch(exist_ok=False)
        if before is not None:
            partial.chmod(before | stat.S_IWUSR)  # same readers as before
        yield partial
        if before is not None:
            partial.chmod(before)
        partial.replace(target)
    finally:
        with suppress(OSError):  # usually it is gone
            partial.unlink()


@contextmanager
def _pouring(opened: int) -> Iterator[Path]:
    with open(opened, "wb") as end, tempfile.TemporaryDirectory(prefix="runyard-") as scratch:
        partial = Path(scratch, "whole")
        yield partial
        with partial.open("rb") as made:
            if end.isatty():
                end.writelines(map(_shown, made))
            else:
                shutil.copyfileobj(made, end)


def _shown(line: bytes) -> bytes:
    return plain(line.decode("utf-8", "backslashreplace")).encode()


def _opened(path: Path) -> int | None:
    """The open descriptor to write to; None for a regular file."""
    own = _own_descriptor(path)
    if own is not None:
        return os.dup(own)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(mode) else os.open(path, os.O_WRONLY | os.O_NOCTTY)


def _own_descriptor(path: Path) -> int | None:
    """The descriptor of ours that the path names, directly or through links."""
    place = str(path)
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(place)
        folder = os.path.realpath(folder)
        if folder in (f"/proc/{os.getpid()}/fd", "/dev/fd") and name.isdecimal():
            return int(name)
        place = str(Path(folder, name))
        if not Path(place).is_symlink():
            return None
        place = str(Path(folder, Path(place).readlink()))
    return None

"""The tape file: JSON lines, one for each call, sorted by cell and then as the calls were made.

    {"cell":"7","call":0,"request":{…},"answer":{…},"seconds":0.4}

A cell writes its calls when it ends, all at once, under a lock on the file. A small file is
replaced by a sorted one; a large one is appended to, and `tidy` sorts it. In either, a line with
`"call":0` begins a new recording of its cell, which replaces earlier ones.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from runyard.errors import UsageError
from runyard.spaces.files import whole_file

SMALL = 1 << 20
"""A larger tape, in bytes, is appended to instead of being written again for each cell."""

_PARTS = re.compile(r"([^0-9]*)([0-9]+)")


class Entry(msgspec.Struct, frozen=True):
    """One line: a call. With `request` left out: a cell that made no call."""

    cell: str
    call: int
    request: dict[str, Any] | None = None
    answer: dict[str, Any] = {}
    seconds: float = 0.0  # from sending the request to the end of the answer

    def line(self) -> bytes:
        """The line, with its end."""
        fields = {k: v for k, v in msgspec.structs.asdict(self).items() if v is not None}
        try:
            text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # half a surrogate pair
            text = json.dumps(fields, separators=(",", ":")).encode()
        return text + b"\n"


class _Head(msgspec.Struct):
    """What the index needs of a line."""

    cell: str
    call: int


class Span(NamedTuple):
    """Where a line lies in the file."""

    start: int
    size: int


Index = dict[str, list[Span]]


def save(path: Path, cell: str, entries: Sequence[Entry]) -> None:
    """Replace what the tape has of this cell."""
    lines = [each.line() for each in entries or [Entry(cell, 0)]]
    with _locked(path) as descriptor:
        content = _content(descriptor)
        if len(content) < SMALL:
            _write(path, _lines(content) | {cell: lines})
        else:
            # What a killed writer has left of a line is ended, and so ignored.
            _append(descriptor, len(content), [b"" if content.endswith(b"\n") else b"\n", *lines])


def load(path: Path, cell: str) -> list[Entry] | None:
    """The calls of a cell in order; None if the tape doesn't have the cell."""
    spans = _index(path).get(cell)
    if spans is None:
        return None
    with path.open("rb") as file:
        entries = [_entry(file, span) for span in spans]
    return [each for each in entries if each.request is not None]


def cells(path: Path) -> list[str]:
    """The cells of a tape."""
    return list(_index(path))


def tidy(path: str | os.PathLike[str]) -> None:
    """Sort a tape by cell and drop what was recorded again; small tapes are always in order."""
    place = Path(path)
    with _locked(place) as descriptor:
        _write(place, _lines(_content(descriptor)))


def _index(path: Path) -> Index:
    try:
        stat = path.stat()
        return _cached_index(path, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise UsageError(
            f"the tape {path} can't be read: {error.strerror or error}",
            hint='record it first, with the mode "record"',
        ) from error


@lru_cache(maxsize=8)
def _cached_index(path: Path, _inode: int, _changed: int, _size: int) -> Index:
    return _spans(path.read_bytes())


def _spans(content: bytes) -> Index:
    """Where each cell's last recording lies; lines that can't be read are left out."""
    found: Index = {}
    start = 0
    for line in content.splitlines(keepends=True):
        span, start = Span(start, len(line)), start + len(line)
        head = _head(line)
        if head is None or not line.endswith(b"\n"):
            continue
        if head.call == 0:
            found[head.cell] = []
        found.setdefault(head.cell, []).append(span)
    return found


def _head(line: bytes) -> _Head | None:
    """The cell and the number of a call; None if a killed writer left only part of it."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=_Head)
    with suppress(ValueError, LookupError, TypeError):  # half a surrogate pair is not for msgspec
        fields = json.loads(line)
        return _Head(fields["cell"], fields["call"])
    return None


def _lines(content: bytes) -> dict[str, list[bytes]]:
    return {
        cell: [content[start : start + size] for start, size in spans]
        for cell, spans in _spans(content).items()
    }


def _entry(file: BinaryIO, span: Span) -> Entry:
    file.seek(span.start)
    return Entry(**json.loads(file.read(span.size)))


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The open tape, locked; it is created if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):  # else it was replaced
                    yield descriptor
                    return
        finally:
            os.close(descriptor)


def _content(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def _write(path: Path, cells: Mapping[str, Sequence[bytes]]) -> None:
    with whole_file(path) as partial, partial.open("wb") as file:
        for cell in sorted(cells, key=_natural):
            file.writelines(cells[cell])


def _append(descriptor: int, size: int, lines: Sequence[bytes]) -> None:
    try:
        with open(descriptor, "ab", closefd=False) as file:
            file.writelines(lines)
    except OSError:  # a full disk: part of a cell is worse than none
        os.ftruncate(descriptor, size)
        raise


def _natural(cell: str) -> list[tuple[str, int]]:
    """Sorts "2" before "10"."""
    return [(text, int(digits)) for text, digits in _PARTS.findall(cell)] + [(cell, 0)]

"""What is recorded beside a cell's value: visited nodes, times, tokens, retries.

A line of JSON for each attempt, in a file beside the tape of its worker. A line is written before
the cell's outcome is recorded, which names the worker too: a run that was killed may have left a
line about the same thread elsewhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from runyard import modes
from runyard.doors.workbench.tape.file import ALONE, FOLDER

ENDING = ".jsonl"

_open: dict[tuple[int, Path], tuple[int, int]] = {}  # descriptor and inode, by process and file
_opening = threading.Lock()


def beside(tape: Path) -> Path:
    """The file of records that belongs to a tape."""
    return tape.with_suffix(ENDING)


Key = tuple[str, int]
"""A thread and the number of its worker."""


def append(path: Path, key: Key, record: dict[str, Any], *, durable: bool = False) -> None:
    """Add the record of a cell."""
    # The line's end comes first, so that a line that was cut off spoils no other.
    line = b"\n" + msgspec.json.encode({"thread": key[0], "worker": key[1], **record})
    descriptor = _descriptor(path)
    os.write(descriptor, line)
    if durable:
        os.fdatasync(descriptor)


def read(path: Path) -> dict[Key, dict[str, Any]]:
    """The record of each cell in a file."""
    return {(each.pop("thread"), each.pop("worker")): each for each in _lines(path)}


def read_all(batch: Path) -> dict[Key, dict[str, Any]]:
    """The records of all cells of a batch whose files are on this machine."""
    found: dict[Key, dict[str, Any]] = {}
    for path in (batch / FOLDER).glob(f"*{ENDING}"):
        found |= read(path)
    for path in (batch / "tasks").glob(f"*/*/{beside(Path(ALONE))}"):
        found |= read(path)
    return found


def close(folder: Path) -> None:
    """Close what this process has open below a folder."""
    with _opening:
        for key in [key for key in _open if key[1].is_relative_to(folder)]:
            os.close(_open.pop(key)[0])


def _descriptor(path: Path) -> int:
    key = os.getpid(), path
    found = _open.get(key)
    with suppress(FileNotFoundError):
        if found is not None and path.stat().st_ino == found[1]:
            return found[0]
    with _opening:
        if found is not None and _open.get(key) is found:  # the yard was removed and made again
            os.close(_open.pop(key)[0])
        if key not in _open:
            modes.make_folder(path.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(path, flags, modes.FILE)
            _open[key] = descriptor, os.fstat(descriptor).st_ino
        return _open[key][0]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    for line in content.split(b"\n"):
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line)
            if isinstance(found, dict) and {"thread", "worker"} <= found.keys():
                yield found

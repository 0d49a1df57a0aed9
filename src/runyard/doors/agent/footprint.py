"""What a program takes that no limit of the kernel bounds, looked at while it runs.

its workspace         files by the blocks that they have on the disk, and how many there are
files without a name  deleted ones that it keeps open or mapped; in memory (memfd) or on the disk
memory                of all its processes together; a page that several share counts once
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from runyard.doors.agent.settings import Limits
from runyard.spaces import OutOfReach, Usage, usage

_IN_MEMORY = ("/memfd:", "/SYSV")
_DELETED = " (deleted)"


class Unnamed(NamedTuple):
    """A file that has no name any more."""

    inode: int
    bytes: int
    in_memory: bool


def family(process: int) -> Sequence[int]:
    """The processes that one has started, and those that they have."""
    try:
        return [each.pid for each in psutil.Process(process).children(recursive=True)]
    except psutil.Error:
        return []


def excess(family: Sequence[int], workspace: Path, limits: Limits) -> str | None:
    """What processes and their workspace take too much of; None while they keep to the limits.

    Of a process that forbids a look into it, which it can unless this one is root's, nothing but
    the memory that it has in use is seen.
    """
    unnamed = {file.inode: file for each in family for file in _unnamed(each)}
    on_disk = sum(file.bytes for file in unnamed.values() if not file.in_memory)
    try:
        found = usage(workspace, most=Usage(limits.disk - on_disk, limits.files))
    except OutOfReach as error:
        return f"filled its workspace out of sight: {error.message}"
    if found.bytes + on_disk > limits.disk:
        return f"filled its workspace with more than {limits.disk:,} bytes"
    if found.entries > limits.files:
        return f"filled its workspace with more than {limits.files:,} files"
    in_memory = sum(file.bytes for file in unnamed.values() if file.in_memory)
    if _memory(family, limits.memory - in_memory) + in_memory > limits.memory:
        return f"used more than {limits.memory:,} bytes of memory in all"
    return None


def _unnamed(process: int) -> Iterator[Unnamed]:
    """The files without a name that a process has open or mapped."""
    seen = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{process}/fd"):
            with suppress(OSError):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                    seen.add(status.st_ino)
                    place = os.readlink(entry.path)  # noqa: PTH115 - it is no path to somewhere
                    yield Unnamed(status.st_ino, status.st_blocks * 512, _in_memory(place))
    for inode, size, place in _mapped(process):
        # How much of a shared mapping is in use is seen by the process's memory.
        if inode not in seen and not place.startswith("/dev/zero"):
            yield Unnamed(inode, size, _in_memory(place))


def _mapped(process: int) -> Iterator[tuple[int, int, str]]:
    """Inode, length and name of each deleted file that a process has mapped."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines():
            if line.endswith(_DELETED):
                span, _, _, _, inode, place = line.split(maxsplit=5)
                first, _, last = span.partition("-")
                yield int(inode), int(last, 16) - int(first, 16), place


def _in_memory(place: str) -> bool:
    return place.startswith(_IN_MEMORY)


def _memory(family: Sequence[int], most: int) -> int:
    """What processes have in use together; looked at closely only where it could be too much."""
    rough = sum(_resident(each) for each in family)
    return rough if rough <= most else sum(_share(each) for each in family)


def _resident(process: int) -> int:
    with suppress(OSError):
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _share(process: int) -> int:
    """The memory of a process, of shared pages its part."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(process)

"""Resource use that the kernel doesn't limit, measured while a program runs.

workspace      the blocks of its files on disk, and the number of files
unnamed files  deleted files that it keeps open or mapped, in memory (memfd) or on disk
memory         of all its processes together; a page that several share counts once
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from runyard.doors.agent.inputs.settings import CodeLimits
from runyard.spaces import OutOfReach, SpaceUsage, usage

_IN_MEMORY = ("/memfd:", "/SYSV")
_DELETED = " (deleted)"
_IN_FLIGHT = re.compile(r"^scm_fds:\s+(\d+)", re.MULTILINE)
_PART = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


class Unnamed(NamedTuple):
    """A file without a name, such as a deleted one that is still open."""

    inode: int
    bytes: int
    in_memory: bool


def family(process: int) -> Sequence[int]:
    """All descendants of a process."""
    try:
        return [each.pid for each in psutil.Process(process).children(recursive=True)]
    except psutil.Error:
        return []


def excess(
    family: Sequence[int], workspace: Path, limits: CodeLimits, *, parked: int = 0
) -> str | None:
    """Which limit the processes or their workspace exceed; None if none.

    Unless this process is root's, a process can deny access to its files; then only its resident
    memory is seen. Files that are `parked` can't be inspected either.
    """
    threads = [_threads(each) for each in family]
    unnamed = {(f.inode, f.in_memory): f for each in threads for f in _unnamed(each)}
    on_disk = sum(file.bytes for file in unnamed.values() if not file.in_memory)
    try:
        let_in(workspace)
        found = usage(workspace, most=SpaceUsage(limits.disk - on_disk, limits.files))
    except OutOfReach as error:
        return f"filled its workspace out of sight: {error.message}"
    except PermissionError:  # closed again since
        return "filled its workspace out of sight: it keeps closing the folder"
    if found.bytes + on_disk > limits.disk:
        return f"filled its workspace with more than {limits.disk:,} bytes"
    if found.entries > limits.files:
        return f"filled its workspace with more than {limits.files:,} files"
    if parked:
        return (
            f"filled its workspace out of sight: {parked:,} open files were sent and not received"
        )
    in_memory = sum(file.bytes for file in unnamed.values() if file.in_memory)
    if _memory(threads, limits.memory - in_memory) + in_memory > limits.memory:
        return f"used more than {limits.memory:,} bytes of memory in all"
    return None


def let_in(workspace: Path) -> None:
    """Let this user into a workspace that its program closed."""
    if not os.access(workspace, os.R_OK | os.W_OK | os.X_OK):
        with suppress(OSError):  # the workspace is gone
            workspace.chmod(stat.S_IRWXU)


def parked(family: Sequence[int]) -> int:
    """How many open files are in transit in sockets, sent and not yet received."""
    found = 0
    for thread in (each for process in family for each in _threads(process)):
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{thread}/fd"):
                with suppress(OSError):
                    if stat.S_ISSOCK(entry.stat().st_mode):
                        said = Path(f"/proc/{thread}/fdinfo/{entry.name}").read_text()
                        found += sum(map(int, _IN_FLIGHT.findall(said)))
    return found


def _threads(process: int) -> Sequence[int]:
    """The threads of a process: the first may have ended, and each may have files of its own."""
    try:
        return [int(each.name) for each in os.scandir(f"/proc/{process}/task")]
    except OSError:
        return [process]


def _unnamed(threads: Sequence[int]) -> Iterator[Unnamed]:
    """The unnamed files that a process has open or mapped."""
    seen = set()
    for thread in threads:
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{thread}/fd"):
                with suppress(OSError):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        in_memory = _in_memory(os.readlink(entry.path))  # noqa: PTH115 - no path
                        seen.add((status.st_ino, in_memory))
                        yield Unnamed(status.st_ino, status.st_blocks * 512, in_memory)
    for inode, size, place in _mapped(threads):
        # Shared anonymous mappings are counted as memory of the process.
        if (inode, _in_memory(place)) not in seen and not place.startswith("/dev/zero"):
            yield Unnamed(inode, size, _in_memory(place))


def _mapped(threads: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Inode, length and name of each deleted file that a process has mapped."""
    for line in _of_any(threads, "maps").splitlines():
        if line.endswith(_DELETED):
            span, _, _, _, inode, place = line.split(maxsplit=5)
            first, _, last = span.partition("-")
            yield int(inode), int(last, 16) - int(first, 16), place


def _of_any(threads: Sequence[int], name: str) -> str:
    """A /proc file about the memory that threads share; it is empty for an ended thread."""
    for thread in threads:
        with suppress(OSError):
            if said := Path(f"/proc/{thread}/{name}").read_text(errors="replace"):
                return said
    return ""


def _in_memory(place: str) -> bool:
    return place.startswith(_IN_MEMORY)


def _memory(family: Sequence[Sequence[int]], most: int) -> int:
    """The memory of all processes; measured exactly only if the rough sum exceeds the limit."""
    rough = sum(map(_resident, family))
    return rough if rough <= most else sum(map(_share, family))


def _resident(threads: Sequence[int]) -> int:
    """The memory of a process, shared pages included."""
    found = 0
    for thread in threads:
        with suppress(OSError):
            found = max(found, int(Path(f"/proc/{thread}/statm").read_text().split()[1]))
    return found * os.sysconf("SC_PAGE_SIZE")


def _share(threads: Sequence[int]) -> int:
    """The memory of a process, with its proportional share of shared pages."""
    found = _PART.search(_of_any(threads, "smaps_rollup"))
    return int(found[1]) * 1024 if found else _resident(threads)

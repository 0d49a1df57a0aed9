"""Locks that belong to an open file, not to the process.

POSIX record locks are dropped when any code in the process closes any descriptor of the file; a
task that copies the yard does that. These locks last until their own descriptor is closed. A forked
child shares the descriptor, and so the lock: it closes it at once, and programs never inherit it.
Only a process that C code forks without telling Python keeps the lock, until it ends.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import weakref
from contextlib import suppress
from pathlib import Path

_FLOCK = struct.Struct("hhqqi")  # type, whence, start, length, pid: `struct flock`
_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)  # Linux only

_changing = threading.RLock()


class OpenFile:
    """A file descriptor that is not kept by forked children or inherited by programs."""

    def __init__(self, path: Path, flags: int) -> None:
        with _changing:
            # O_NONBLOCK: a pipe at this path must not block.
            self.descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
            _opened.add(self)

    def is_at(self, path: Path) -> bool:
        """Whether this is still the file at that path."""
        try:
            return self.is_open and os.path.samestat(os.fstat(self.descriptor), path.stat())
        except FileNotFoundError:
            return False

    @property
    def is_open(self) -> bool:
        """False after `close`, and in a forked child."""
        return self.descriptor >= 0

    def lock(self, *, shared: bool = False, wait: bool = True) -> bool:
        """Lock the whole file; with `wait=False`, return False if others hold it."""
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self.descriptor, how if wait else how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        """Unlock the whole file, unless it has been closed."""
        if self.is_open:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def share(self, start: int, length: int, *, hold: bool) -> None:
        """Take or release a read lock on some bytes; conflicts with record locks of all processes.

        Has no effect on systems without such locks (macOS).
        """
        if _SET_LOCK is not None and self.is_open:
            kind = fcntl.F_RDLCK if hold else fcntl.F_UNLCK
            fcntl.fcntl(
                self.descriptor, _SET_LOCK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
            )

    def close(self) -> None:
        """Close the file and drop its locks; closing twice is safe."""
        with _changing:
            descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # At interpreter exit, the module may be gone already; the kernel closes the rest.
        if getattr(self, "descriptor", -1) >= 0 and _changing is not None:
            self.close()


_opened: weakref.WeakSet[OpenFile] = weakref.WeakSet()


def _leave_to_parent() -> None:
    global _changing
    _changing = threading.RLock()
    for file in list(_opened):
        with suppress(OSError):
            file.close()
    _opened.clear()


os.register_at_fork(
    before=lambda: _changing.acquire(),  # looked up on each call: a child replaces the lock
    after_in_parent=lambda: _changing.release(),
    after_in_child=_leave_to_parent,
)

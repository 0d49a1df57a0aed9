"""Which engines live: a byte lock each in one file, which the kernel lets go when they die.

Record locks belong to a process and are not inherited by its children, so a worker that outlives
its engine for a moment does not keep it alive. All of them vanish when the process closes any
descriptor of the file: so each process opens it once, and closes it when it holds none.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

_lock = threading.Lock()
_descriptors: dict[tuple[int, str], int] = {}
_held: set[tuple[int, str, int]] = set()


class LifeLocks:
    """The locks of one yard."""

    def __init__(self, path: Path) -> None:
        self._path = str(path.resolve())

    def hold(self, engine: int) -> None:
        """Show this engine as alive for as long as the process lives."""
        with _lock:
            fcntl.lockf(self._descriptor(), fcntl.LOCK_EX, 1, engine)
            _held.add((os.getpid(), self._path, engine))

    def drop(self, engine: int) -> None:
        """Show it no longer."""
        with _lock:
            fcntl.lockf(self._descriptor(), fcntl.LOCK_UN, 1, engine)
            _held.discard((os.getpid(), self._path, engine))
            self._close_if_idle()

    def held(self, engine: int) -> bool:
        """Whether some process holds this engine's lock."""
        with _lock:
            if (os.getpid(), self._path, engine) in _held:
                return True
            descriptor = self._descriptor()
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, engine)
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, engine)
            except OSError:
                return True
            finally:
                self._close_if_idle()
            return False

    def ring(self) -> None:
        """Let engines see that there is news: by the time of the file, which nobody has to open."""
        now = time.time_ns()
        with suppress(FileNotFoundError):  # there is no engine
            os.utime(self._path, ns=(now, now))

    def rung(self) -> int:
        """When somebody last did."""
        try:
            return Path(self._path).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _descriptor(self) -> int:
        key = os.getpid(), self._path
        if key not in _descriptors or not self._is_current(_descriptors[key]):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            _descriptors[key] = os.open(self._path, flags, 0o644)
        return _descriptors[key]

    def _close_if_idle(self) -> None:
        mine = os.getpid(), self._path
        if not any(held[:2] == mine for held in _held):
            os.close(_descriptors.pop(mine))

    def _is_current(self, descriptor: int) -> bool:
        """False when the yard was removed and made anew under this process."""
        try:
            return os.path.samestat(os.fstat(descriptor), Path(self._path).stat())
        except FileNotFoundError:
            return False

"""Protects a SQLite file when SQLite's own locks are dropped.

SQLite's locks are POSIX record locks: a task that reads `yard.db` inside the engine's own process
(by copying the yard, say) drops them when it closes the file. The next process to close the store
would then consider itself the last user and remove the WAL that the engine is writing to, and two
processes could write at once. So Runyard holds locks of its own, which are not dropped:

    yard.lock       locked by the one process that writes
    yard.db         a read lock on SQLite's shared bytes: the WAL is in use
    yard.db-shm     a read lock on the byte that marks the WAL index as in use
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runyard.errors import StoreError, StoreGone
from runyard.store.locks import OpenFile

BUSY_SECONDS = 60.0

_SHARED = (0x40000002, 510)  # both positions are fixed by SQLite's file format
_INDEX_IN_USE = (128, 1)
_MAGIC = b"SQLite format 3\0"
_PAGE_BYTES, _PAGES = (
    slice(16, 18),
    slice(28, 32),
)  # in the file's header, as of its last checkpoint

Identity = tuple[int, int]


class WriteLock:
    """Lets one process write at a time; the modification time of its file signals changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: OpenFile | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; raises if another process does not release it."""
        file = self._locked()
        try:
            yield
        finally:
            file.unlock()

    def touch(self) -> None:
        """Signal a change to other engines by the file's time; they need not open it."""
        now = time.time_ns()
        with suppress(FileNotFoundError):
            os.utime(self._path, ns=(now, now))

    def last_change(self) -> int:
        """The time of the last `touch`, in nanoseconds."""
        try:
            return self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _locked(self) -> OpenFile:
        until, pause = time.monotonic() + BUSY_SECONDS, 0.0005
        while True:
            file = self._opened()
            if file.lock(wait=False):
                if file.is_at(self._path):
                    return file
                file.close()
                continue
            if time.monotonic() > until:
                raise StoreError(
                    f"the store {self._path.parent} can't be written: another process has been "
                    f"writing for {BUSY_SECONDS:g} s",
                    hint="check for a suspended process: runyard status",
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _opened(self) -> OpenFile:
        if self._file is None or not self._file.is_open:
            self._file = OpenFile(self._path, os.O_RDWR | os.O_CREAT)
        return self._file


class Pins:
    """Holds Runyard's locks on the files of an open store, and detects their replacement."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = {each: _identity(each) for each in _files(path)}
        self._database = OpenFile(path, os.O_RDONLY)
        self._index = OpenFile(path.with_name(path.name + "-shm"), os.O_RDONLY)
        self._hold(hold=True)
        self._size, self._least = self._sizes()
        self.users = 0
        self._flushing: threading.Thread | None = None

    @classmethod
    def take(cls, path: Path) -> Pins:
        """The shared pins of this process: closing a second set would drop SQLite's own locks."""
        with _sharing:
            pins = _pins.get(path)
            if pins is None or not pins.is_current:
                pins = _pins[path] = cls(path)
            pins.users += 1
            return pins

    @property
    def is_current(self) -> bool:
        """Whether the paths still lead to the files that were opened."""
        return self._database.is_open and all(
            _identity(path) == found for path, found in self._found.items()
        )

    def check(self) -> None:
        """Raise if the files were removed or replaced."""
        for path, found in self._found.items():
            if _identity(path) != found:
                raise StoreGone(
                    f"{path} was removed or replaced while it was in use: nothing more is "
                    "recorded, and the latest outcomes may be lost",
                    hint="restore the yard, or run the batch again",
                )

    def check_content(self) -> None:
        """Raise if the database was overwritten from its start or cut short.

        Call it while no one else writes: within a checkpoint, the header runs ahead of the file.
        """
        size, least = self._sizes()
        if least is None and self._least is not None:
            change = "overwritten"
        elif size < self._size and size < (least or 0):
            change = "truncated"
        else:
            self._size, self._least = size, least
            return
        raise StoreGone(
            f"{self._path} was {change} while it was in use: nothing more is recorded, and "
            "recorded outcomes may be lost",
            hint="run `runyard doctor`; restore the yard, or run the batch again",
        )

    def _sizes(self) -> tuple[int, int | None]:
        """The size of the database, and the least by its header; None if that is no header."""
        descriptor = self._database.descriptor
        header = os.pread(descriptor, _PAGES.stop, 0)
        size = os.fstat(descriptor).st_size
        if not header.startswith(_MAGIC) or len(header) < _PAGES.stop:
            return size, None
        page = int.from_bytes(header[_PAGE_BYTES])
        return size, int.from_bytes(header[_PAGES]) * (65536 if page == 1 else page)

    def flush(self) -> None:
        """Sync the database file to disk in the background.

        Until that is done, a power cut might leave a new file empty beside a WAL that is not.
        """
        self._flushing = threading.Thread(
            target=_flush, args=[self._database.descriptor], name="runyard-flush"
        )
        self._flushing.start()

    def loosen(self) -> None:
        """Call before closing SQLite's connections: SQLite checks whether they are the last."""
        with _sharing:
            self.users -= 1
            if not self.users:
                self._hold(hold=False)

    def close(self) -> None:
        """Call after closing SQLite's connections."""
        with _sharing:
            if self.users:
                return
            if self._flushing is not None:
                self._flushing.join()
            if _pins.get(self._path) is self:
                del _pins[self._path]
            self._database.close()
            self._index.close()

    def _hold(self, *, hold: bool) -> None:
        self._database.share(*_SHARED, hold=hold)
        self._index.share(*_INDEX_IN_USE, hold=hold)


_sharing = threading.RLock()  # reentrant: garbage collection may release a store at any point
_pins: dict[Path, Pins] = {}


def _flush(descriptor: int) -> None:
    with suppress(OSError):  # SQLite will meet the same error and report it
        os.fsync(descriptor)


def _files(path: Path) -> list[Path]:
    return [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino

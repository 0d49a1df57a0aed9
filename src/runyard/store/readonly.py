"""Reading a SQLite store without permission to write to it, or without room on the disk.

SQLite keeps a WAL and its index beside the store. If they exist, an engine is using the store, or
one has died: they are read as they are. Otherwise SQLite would have to create them, so it is told
that the store is immutable, and each read checks afterwards that the store did not change. An empty
WAL and an index that is too short are what SQLite leaves where it could not create them.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from runyard.errors import StoreError, StoreForbidden

FileState = tuple[int | None, ...] | None

INDEX_BYTES = 32 * 1024
"""The smallest index of a WAL that is in use."""

HINT = "read-only commands still work: status, results, compare, report -o, export -o, logs, verify"


def may_only_read(path: Path) -> bool:
    """Whether a store exists that this process may not write to."""
    if not path.exists():
        return False
    needed = [path.parent, path, path.with_name("yard.lock")]
    return not all(os.access(each, os.W_OK) for each in needed if each.exists())


def connect(path: Path, seconds: float) -> sqlite3.Connection:
    """Open a connection that neither creates nor changes files."""
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if _size(path, "-wal") and (_size(path, "-shm") or 0) < INDEX_BYTES:
        raise StoreForbidden(
            f"the store {path} has a log without an index, which only its owner can rebuild",
            hint="let the owner open it once: runyard status",
        )
    words = "mode=ro" if state(path) is None else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.as_uri()}?{words}",
        uri=True, timeout=seconds, isolation_level=None, check_same_thread=False,
    )  # fmt: skip
    connection.execute("PRAGMA schema_version").fetchone()
    return connection


def state(path: Path) -> FileState:
    """A value that changes whenever an unused store changes; None for a store in use."""
    log, index = _size(path, "-wal"), _size(path, "-shm")
    if log or (index or 0) >= INDEX_BYTES:
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, log, index


def _size(path: Path, end: str) -> int | None:
    try:
        return path.with_name(path.name + end).stat().st_size
    except FileNotFoundError:
        return None


def check_state(path: Path, before: FileState) -> None:
    """Raise if a store that seemed unused changed while it was read."""
    if before is not None and state(path) != before:
        raise StoreError(
            f"the store {path} changed while it was read",
            hint="run the command again",
        )


def refused(location: str) -> StoreForbidden:
    """The error for an attempt to write."""
    return StoreForbidden(f"the store {location} is read-only for you", hint=HINT)

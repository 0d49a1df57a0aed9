"""Reading a SQLite store without the right to write to it.

SQLite keeps a log and its index beside the store. Where they are there, an engine uses the store,
or one died: they are read as they are. Where they are not, SQLite would have to make them; so it is
told that nobody changes the store, and that this was so is checked after each reading.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from sqlalchemy import Connection

from runyard.errors import StoreError, StoreForbidden
from runyard.store.schema import is_current

State = tuple[int, int, int] | None

HINT = "what only reads works: status, results, compare, report -o, export -o, logs, verify"


def may_only_read(path: Path) -> bool:
    """Whether there is a store that this process may not write to."""
    if not path.exists():
        return False
    needed = [path.parent, path, path.with_name("yard.lock")]
    return not all(os.access(each, os.W_OK) for each in needed if each.exists())


def connect(path: Path, seconds: float) -> sqlite3.Connection:
    """A connection that makes no file and changes none."""
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    log, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if log.exists() and not index.exists():
        raise StoreForbidden(
            f"the store {path} has a log without its index, and may not be written",
            hint="let its owner open it once: runyard status",
        )
    words = "mode=ro" if state(path) is None else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.as_uri()}?{words}",
        uri=True, timeout=seconds, isolation_level=None, check_same_thread=False,
    )  # fmt: skip
    connection.execute("PRAGMA schema_version").fetchone()
    return connection


def state(path: Path) -> State:
    """What changes with a store that nobody uses; None for one that somebody does, or did."""
    if any(path.with_name(path.name + end).exists() for end in ("-wal", "-shm")):
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_state(path: Path, before: State) -> None:
    """Raise where a store that was taken for unused has changed while it was read."""
    if before is not None and state(path) != before:
        raise StoreError(
            f"the store {path} has changed while it was read",
            hint="the same once more goes through",
        )


def check_version(connection: Connection, location: str) -> None:
    """Raise where the tables are not those of this version: making them takes the right to."""
    if not is_current(connection):
        raise StoreForbidden(
            f"the store {location} has tables of another version, and may not be written",
            hint="let its owner open it with this version of Runyard: runyard status",
        )


def refused(location: str) -> StoreForbidden:
    """What is said to who wants to write."""
    return StoreForbidden(f"the store {location} may not be written by you", hint=HINT)

"""Connections to SQLite, and its errors as Runyard's."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.errors import RunyardError, StoreDamaged, StoreError, StoreForbidden, StoreFull
from runyard.store.guard import BUSY_SECONDS


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open a connection that writes, in WAL mode."""
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _use_wal(connection)
        connection.execute("PRAGMA schema_version").fetchone()  # opens the WAL if it isn't open yet
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        connection.execute("PRAGMA cache_size=-16000")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; retries, since SQLite fails at once while others open the same new file."""
    until = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)
        if time.monotonic() > until:
            raise sqlite3.OperationalError("the file system can't hold a database in WAL mode")


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Translate errors of the database into Runyard's, with hints."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text or "disk I/O error" in text:
            raise StoreFull(
                f"the disk has no room for {location}: {text}",
                hint="free some space, then run `runyard resume`; nothing recorded is lost",
            ) from error
        if "malformed" in text or "not a database" in text or "corrupt" in text:
            raise StoreDamaged(
                f"the store {location} is damaged: {text}", hint="run `runyard doctor`"
            ) from error
        raise StoreError(f"the store {location} can't be used: {text}") from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(
            f"the store {location} is damaged: {error}", hint="run `runyard doctor`"
        ) from error
    except OSError as error:
        if isinstance(error, RunyardError):
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StoreForbidden(
                f"the store {location} can't be used: {reason}", hint="ask its owner for access"
            ) from error
        raise StoreError(f"the store {location} can't be used: {reason}") from error

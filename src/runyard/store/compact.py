"""Return free space to the disk: SQLite keeps pages of deleted rows for new rows."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from runyard.errors import StoreFull

WORTH = 1 / 20
"""A file is rewritten only if at least this fraction of it is free."""

PATIENCE_MS = 5000
"""How long to wait for another process to finish writing."""


class Pages(NamedTuple):
    """The pages of a database: their size, number, and how many are free."""

    size: int
    total: int
    free: int

    @classmethod
    def of(cls, connection: sqlite3.Connection) -> Pages:
        """Read the current numbers."""
        names = ("page_size", "page_count", "freelist_count")
        return cls(*(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names))

    @property
    def spare(self) -> int:
        """Bytes that would be returned; 0 if it isn't worthwhile."""
        return self.free * self.size if self.free >= self.total * WORTH else 0


def vacuum(connection: sqlite3.Connection, path: Path) -> int:
    """Rewrite a database without its free pages; return the bytes saved."""
    before = Pages.of(connection)
    _check_room(path, (before.total - before.free) * before.size)
    connection.execute(f"PRAGMA busy_timeout={PATIENCE_MS}")
    try:
        connection.execute("VACUUM")
    finally:
        # The rewritten pages are in the WAL, all or none. While others still read the old pages,
        # they stay there; the next checkpoint moves them into the file.
        connection.execute("PRAGMA busy_timeout=0")
        with contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (before.total - Pages.of(connection).total) * before.size


def _check_room(path: Path, needed: int) -> None:
    """Raise if a disk has no room for the copies that SQLite makes."""
    copies = (path.parent, Path(tempfile.gettempdir()))  # the WAL, and a temporary file
    disks = Counter(place.stat().st_dev for place in copies)
    for place in copies:
        wanted = disks[place.stat().st_dev] * needed
        if shutil.disk_usage(place).free < wanted:
            raise StoreFull(
                f"compacting {path} needs {wanted:,} bytes of room in {place}",
                hint="free some disk space",
            )

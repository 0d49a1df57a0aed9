"""The store of `memory:`, deleted together with its object or when the process ends."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from runyard.store.sqlite import SqliteStore


class TemporaryStore(SqliteStore):
    """SQLite in a private folder, never waiting for the disk.

    Each connection reads its own consistent state, as in any store; the connections of an in-memory
    SQLite database would share one. Results can be read after `close`, as from any store.
    """

    synchronous = "OFF"

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="runyard-"))
        weakref.finalize(self, _remove, folder, os.getpid())
        super().__init__(folder / "yard.db")
        self.location = "memory:"


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)

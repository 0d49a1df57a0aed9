"""The store of `memory:`, which is gone with the object, or with the process."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from runyard.store.sqlite import SqliteStore


class TemporaryStore(SqliteStore):
    """SQLite in a private folder, which never waits for the disk.

    Several connections see one state each, as in any store; SQLite's own databases in memory have
    one state for all of them. Results can be read after it was closed, as from any store.
    """

    synchronous = "OFF"

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="runyard-"))
        weakref.finalize(self, _remove, folder, os.getpid())
        super().__init__(folder / "yard.db")
        self.location = "memory:"


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # no child that was forked
        shutil.rmtree(folder, ignore_errors=True)

"""The durable record. `open_store` gives the right one for a place; `MemoryStore` is for tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runyard.store.base import Store


def open_store(location: str | Path, *, durable: bool = False, create: bool = True) -> Store:
    """Open the store of a yard: a folder, `memory:` for one that is gone with the process.

    `durable` makes each commit wait for the disk, so that a power cut loses nothing either.
    """
    from runyard.errors import NotFound, StoreError

    if str(location) == "memory:":
        from runyard.store.memory import MemoryStore

        return MemoryStore()
    if "://" in str(location):
        raise StoreError(
            f"no store for {str(location).split('://')[0]}:// addresses",
            hint="give the path of a folder",
        )
    from runyard.store.sqlite import SqliteStore

    path = Path(location) / "yard.db"
    if not create and not path.exists():
        raise NotFound(f"there is no yard at {location}", hint="name it with --yard PATH")
    return SqliteStore(path, durable=durable)

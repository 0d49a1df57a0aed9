"""The durable record of a yard. `open_store` opens the store at a location."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from runyard import addresses

if TYPE_CHECKING:
    from runyard.store.base import Store

POSTGRES = ("postgresql", "postgres")


def is_shared(location: str | Path) -> bool:
    """Whether this is the address of a store shared by machines rather than a folder."""
    return str(location).partition("://")[0] in POSTGRES and "://" in str(location)


def files_folder(location: str | Path) -> Path:
    """Where this machine keeps a yard's files: its own folder, or one named after its address."""
    addresses.check(location)
    if not is_shared(location):
        return Path(location)
    named = os.environ.get("RUNYARD_FILES")
    if named:
        return Path(named)
    parts = urlsplit(str(location))
    words = [parts.hostname or "local", parts.path.strip("/") or "database"]
    words += parse_qs(parts.query).get("options", [])
    return Path(".runyard") / re.sub(r"[^\w.]+", "-", "-".join(words))


def open_store(location: str | Path, *, durable: bool = False, create: bool = True) -> Store:
    """Open the store of a yard: a folder, or `postgresql://…` for one shared by machines.

    `memory:` opens a store that is deleted when the process ends.

    With `durable`, each commit waits for the disk, so that not even a power cut loses anything.
    """
    from runyard.errors import NotFound, StoreError, UsageError

    if str(location) == "memory:":
        from runyard.store.temporary import TemporaryStore

        return TemporaryStore()
    addresses.check(location)
    if is_shared(location):
        try:
            from runyard.store.postgres import PostgresStore
        except ImportError as error:
            raise StoreError(
                f"PostgreSQL needs a package that is not installed ({error.name})",
                hint="pip install 'runyard[postgres]'",
            ) from error
        return PostgresStore(str(location))
    if "://" in str(location):
        raise UsageError(
            f"no store for {str(location).split('://')[0]}:// addresses",
            hint="give the path of a folder, or postgresql://user@host/database",
        )
    from runyard.store.sqlite import SqliteStore

    path = Path(location) / "yard.db"
    if not create and not path.exists():
        raise NotFound(f"there is no yard at {location}", hint="name it with --yard PATH")
    return SqliteStore(path, durable=durable)

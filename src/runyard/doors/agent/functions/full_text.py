"""Full-text search in SQLite, for knowledge and notes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from runyard.modes import make_folder

BUSY_SECONDS = 30.0
_WORD = re.compile(r"\w+")


@contextmanager
def opened(path: Path, schema: str) -> Iterator[sqlite3.Connection]:
    """A database with this schema, in one exclusive transaction."""
    make_folder(path.parent)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    with closing(connection):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in schema.split(";"):
            connection.execute(statement)
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def matches(query: str) -> list[str]:
    """Queries for FTS5, the stricter one first: all words, then any of them."""
    words = [f'"{word}"' for word in _WORD.findall(query)]
    if not words:
        return []
    return [" ".join(words)] if len(words) == 1 else [" ".join(words), " OR ".join(words)]

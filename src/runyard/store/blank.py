"""New stores as a file that is written at once.

To let SQLite switch a new file to WAL waits for the disk several times: 50 ms and more. A blank
store is made in memory instead, and its bytes are put into place whole.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from runyard.store import schema

_FORMATS = slice(18, 20)  # in the header: how the file is written and read
_WAL = b"\2\2"


def put_blank(path: Path, *, durable: bool) -> bool:
    """Put a store without rows here; False where there is a file, or links can't be made."""
    if path.exists():
        return False
    made = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with made.open("xb") as file:
            file.write(_blank())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.link(made, path)  # another process may be faster
    except OSError:
        return False  # and what SQLite says when it tries is what a user should read
    finally:
        with suppress(OSError):
            made.unlink()
    return True


@cache
def _blank() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        schema.create(connection.execute, sqlite=True)
        connection.commit()
        data = bytearray(connection.serialize())
    data[_FORMATS] = _WAL
    return bytes(data)

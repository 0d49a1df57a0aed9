"""Create a new store as one complete file.

When SQLite switches a new file to WAL, it waits for the disk several times: 50 ms and more.
Instead, a blank store is built in memory, and its bytes are put into place as a whole.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from runyard import modes
from runyard.store import schema

_FORMATS = slice(18, 20)  # in the header: the versions for writing and reading
_WAL = b"\2\2"


def put_blank(path: Path, *, durable: bool) -> bool:
    """Create an empty store here; False if the file exists or can't be created this way."""
    if path.exists():
        return False
    made = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        # SQLite gives the same mode to the files that it creates beside this one.
        with open(made, "xb", opener=modes.opener) as file:
            file.write(_blank())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.link(made, path)  # fails if another process was faster
    except OSError:
        return False  # SQLite tries next, and its error is the one that users should see
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

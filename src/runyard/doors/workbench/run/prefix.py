"""Prefixes that variants share: run once for each case and repetition, then copied.

    first cell ──▶ lock ──▶ run up to the first changed node ──▶ file ──▶ unlock ──▶ go on
    the others ──▶ lock ──────────────────────────────────────▶ read ──▶ unlock ──▶ go on

The files lie in the batch's folder. Ray nodes that can't see the yard share within themselves.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from runyard import modes
from runyard.doors.workbench.tape.file import ThreadRows
from runyard.spec.codec import decode, encode

FOLDER = "prefixes"
PAUSE = 0.01


class Prefix(NamedTuple):
    """What a prefix came to."""

    rows: ThreadRows
    record: dict[str, Any]  # visited nodes, times and tokens


class SharedPrefix:
    """The file of one prefix, and the lock of those who need it."""

    def __init__(self, batch: Path, *key: Any) -> None:
        name = hashlib.sha256(encode(list(key))).hexdigest()[:24]
        self._folder = batch / FOLDER
        self._path = self._folder / name
        self._lock = self._folder / f"{name}.lock"

    def read(self) -> Prefix | None:
        """The prefix, if it was run."""
        with suppress(FileNotFoundError):
            rows, record = decode(self._path.read_bytes())
            return Prefix(ThreadRows.unpack(rows), record)
        return None

    def write(self, prefix: Prefix) -> None:
        """Put a prefix into place, whole."""
        fresh = self._path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(encode([prefix.rows.pack(), prefix.record]))
        fresh.rename(self._path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other cell runs the prefix."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @asynccontextmanager
    async def alocked(self) -> AsyncIterator[None]:
        """The same on an event loop, which may be that of the cell which has the lock."""
        descriptor = self._open()
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(PAUSE)
            yield
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        modes.make_folder(self._folder)
        return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, modes.FILE)

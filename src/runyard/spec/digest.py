"""The digest of a batch: its outcomes, not how they were computed.

SHA-256 over (task, status, hash of the value or of the error's class) in task order. Times, worker
names and attempts are left out, so it is equal on every backend and after any interruption.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from functools import lru_cache

_entry = struct.Struct("<QB").pack


def digest(outcomes: Iterable[tuple[int, bytes]]) -> str:
    """The digest over (status code, value bytes or error class) of each task, in task order."""
    total = hashlib.sha256()
    parts: list[bytes] = []
    for place, (status, content) in enumerate(outcomes):
        parts += (_entry(place, status), _hash(content))
        if len(parts) >= 4096:
            total.update(b"".join(parts))
            parts.clear()
    total.update(b"".join(parts))
    return total.hexdigest()


@lru_cache(maxsize=1024)
def _small_hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _hash(content: bytes) -> bytes:
    return _small_hash(content) if len(content) < 64 else hashlib.sha256(content).digest()

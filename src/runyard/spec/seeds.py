"""Seeds, derived from what a task is.

A task's stream comes from the batch's root seed, a stable hash of the task's own parameter values,
and its replicate number. Position, order, worker, attempt and count have no influence, so a grid
can grow and replicates can be added without changing existing outcomes.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from typing import TYPE_CHECKING, Any

from runyard.errors import BadSpec
from runyard.spec.codec import encode

if TYPE_CHECKING:
    import numpy as np


def choose_root() -> int:
    """A random root seed."""
    return secrets.randbits(63)


def check_root(seed: Any) -> int:
    """The root seed, if it is valid."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadSpec(f"seed: {seed!r} is not valid", hint="use a whole number, at least 0")
    return int(seed)


def key_of(coordinates: Any) -> bytes:
    """The stable 128-bit hash of a task's own parameter values."""
    return hashlib.sha256(encode(coordinates)).digest()[:16]


def sequence(root: int, key: bytes, replicate: int) -> np.random.SeedSequence:
    """The seed sequence of one task."""
    from numpy.random import SeedSequence

    return SeedSequence(entropy=root, spawn_key=(*struct.unpack("<4I", key), replicate))


def number(root: int, key: bytes, replicate: int) -> int:
    """The task's seed as one 64-bit number, for code that needs a number."""
    import numpy as np

    return int(sequence(root, key, replicate).generate_state(1, np.uint64)[0])

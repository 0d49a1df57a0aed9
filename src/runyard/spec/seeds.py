"""Seeds: derived from what a task is, never drawn.

A task's stream comes from the batch's root seed, a stable hash of the task's own parameter values,
and its replicate number. Position, order, worker, attempt and count play no part, so a grid can
grow and replicates can be added without changing what is done.
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
    """A root seed for a batch whose author gave none."""
    return secrets.randbits(63)


def check_root(seed: Any) -> int:
    """The root seed, or an error that says what one is."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadSpec(f"the seed is {seed!r}", hint="use a whole number, 0 or larger")
    return int(seed)


def key_of(coordinates: Any) -> bytes:
    """The stable 128-bit hash of a task's own parameter values."""
    return hashlib.sha256(encode(coordinates)).digest()[:16]


def sequence(root: int, key: bytes, replicate: int) -> np.random.SeedSequence:
    """The seed sequence of one task."""
    from numpy.random import SeedSequence

    return SeedSequence(entropy=root, spawn_key=(*struct.unpack("<4I", key), replicate))


def number(root: int, key: bytes, replicate: int) -> int:
    """The task's seed as one 64-bit number, for code that wants a number."""
    import numpy as np

    return int(sequence(root, key, replicate).generate_state(1, np.uint64)[0])

"""Memory beyond a task's limit, to report its result."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

lifting = threading.RLock()
"""Held while the limit is lifted."""


@contextmanager
def beyond_the_limit() -> Iterator[None]:
    """Lift the memory limit, to report results or that a task ran out of memory."""
    with lifting:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

"""Memory beyond what a task may allocate, to say what came of it."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

lifting = threading.RLock()
"""Held while the limit is not what it is for tasks."""


@contextmanager
def beyond_the_limit() -> Iterator[None]:
    """Use memory that is for no task: to report what tasks brought, or that one has too little."""
    with lifting:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

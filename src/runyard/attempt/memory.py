"""The memory limit of a worker process."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

lifting = threading.RLock()
"""Held while the limit is lifted."""

_usual = resource.getrlimit(resource.RLIMIT_DATA)


def limit_memory(extra: int | None) -> None:
    """Let tasks use this much more than the process does now, or as much as it could at first."""
    soft, hard = _usual
    if extra is not None:
        soft = _data_size() + extra
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
    with lifting:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


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


def resident() -> int:
    """Bytes of memory that this process uses, if the system tells."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _data_size() -> int:
    """Bytes of data that this process has mapped; what RLIMIT_DATA counts."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmData:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        return 64 * 1024 * 1024

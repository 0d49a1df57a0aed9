"""Descriptor numbers that tasks don't use by mistake."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource

HIGH = 1000
"""Higher than a program that closes or tries all its descriptors usually goes."""


def out_of_the_way(descriptor: int) -> int:
    """Move a descriptor to a high number, if the limit allows it; programs don't inherit it."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    number = HIGH if limit == resource.RLIM_INFINITY else min(HIGH, limit - 16)
    with contextlib.suppress(OSError):
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, number)
        os.close(descriptor)
        return moved
    return descriptor

"""Carry tasks to attempts and outcomes back. `open_backend` gives the one of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.backends.base import Backend

NAMES = ("serial", "async", "threads", "processes")


def backend_class(name: str) -> type[Backend]:
    """The backend of this name, imported on first use."""
    if name == "serial":
        from runyard.backends.serial import SerialBackend

        return SerialBackend
    if name == "async":
        from runyard.backends.asynchronous import AsyncBackend

        return AsyncBackend
    if name == "threads":
        from runyard.backends.threads import ThreadsBackend

        return ThreadsBackend
    if name == "processes":
        from runyard.backends.processes import ProcessesBackend

        return ProcessesBackend
    raise UsageError(f"no backend {name!r}", hint=f"use one of: {', '.join(NAMES)}")


def open_backend(name: str, workers: int | None = None) -> Backend:
    """A backend with so many workers, or as many as this machine bears."""
    kind = backend_class(name)
    if workers is not None and (type(workers) is not int or workers < 1):
        raise UsageError(f"workers is {workers!r}", hint="use a whole number from 1 up")
    return kind(workers or kind.default_workers())

"""Carry tasks to attempts and outcomes back. `open_backend` gives the one of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.errors import BackendError, UsageError

if TYPE_CHECKING:
    from runyard.backends.base import Backend

MOST_WORKERS = 100_000
NAMES = ("serial", "async", "threads", "processes", "ray")


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
    if name == "ray":
        from runyard.backends.ray.backend import RayBackend

        return RayBackend
    raise UsageError(f"no backend {name!r}", hint=f"use one of: {', '.join(NAMES)}")


def open_backend(
    name: str,
    workers: int | None = None,
    *,
    ray_address: str | None = None,
    fallback: str | None = None,
) -> Backend:
    """A backend with so many workers, or as many as there is room for.

    `ray_address` is the cluster that `ray` joins; where Ray is not installed or can't start, the
    backend named by `fallback` takes its place.
    """
    kind = backend_class(name)
    if workers is not None and (type(workers) is not int or workers < 1):
        raise UsageError(f"workers is {workers!r}", hint="use a whole number from 1 up")
    if workers is not None and workers > MOST_WORKERS:
        raise UsageError(f"workers is {workers!r}", hint=f"use {MOST_WORKERS:,} at most")
    if fallback not in (None, "serial"):
        raise UsageError(f"fallback is {fallback!r}", hint="the one there is: serial")
    if name != "ray":
        return kind(workers or kind.default_workers())
    from runyard.backends.ray.backend import RayBackend

    try:
        return RayBackend(workers, ray_address)
    except BackendError as error:
        if fallback is None:
            raise
        place = open_backend(fallback)
        place.notices.append(f"{error.message}: running on {fallback} instead")
        return place

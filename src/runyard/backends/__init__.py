"""Backends: where tasks run. `open_backend` opens one by its name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from runyard.errors import BackendError, UsageError
from runyard.spec.names import did_you_mean

if TYPE_CHECKING:
    from runyard.backends.base import Backend

MOST_WORKERS = 100_000
_CLASSES = {
    "serial": ("serial", "SerialBackend"),
    "async": ("asynchronous", "AsyncBackend"),
    "threads": ("threads", "ThreadsBackend"),
    "processes": ("processes", "ProcessesBackend"),
    "ray": ("ray.backend", "RayBackend"),
}
NAMES = tuple(_CLASSES)


def backend_class(name: str) -> type[Backend]:
    """The backend class of this name, imported on first use."""
    if isinstance(name, str) and name in _CLASSES:
        module, kind = _CLASSES[name]
        found: type[Backend] = getattr(import_module(f"{__name__}.{module}"), kind)
        return found
    meant = did_you_mean(name, NAMES) if isinstance(name, str) else ""
    raise UsageError(
        f"unknown backend {name!r}{meant}",
        hint=f"use one of: {', '.join(NAMES)}; or pass a Backend object",
    )


def runs_in_engine(name: str) -> bool:
    """Whether this backend runs tasks inside the engine's own process."""
    return name in NAMES and not backend_class(name).capabilities.survives_crash


class Unopened(NamedTuple):
    """What a backend would be once it is opened."""

    kind: type[Backend]
    lanes: int
    notices: list[str]


def unopened(name: str, workers: int | None = None) -> Unopened:
    """The backend of this name with this number of workers, or with its default number."""
    kind = backend_class(name)
    if workers is not None and (type(workers) is not int or workers < 1):
        raise UsageError(
            f"not a valid number of workers: {workers!r}", hint="use a whole number, at least 1"
        )
    if workers is not None and workers > MOST_WORKERS:
        raise UsageError(f"too many workers: {workers:,}", hint=f"use at most {MOST_WORKERS:,}")
    lanes = kind.default_workers() if workers is None or name == "serial" else workers
    ignored = f"the number of workers has no effect on {name}; use processes"
    return Unopened(kind, lanes, [] if workers in (None, lanes) else [ignored])


def open_backend(
    name: str,
    workers: int | None = None,
    *,
    ray_address: str | None = None,
    fallback: str | None = None,
) -> Backend:
    """A backend with this number of workers, or with its default number.

    `ray_address` is the cluster that `ray` joins. If Ray is not installed or can't start, the
    backend named by `fallback` is used instead.
    """
    found = unopened(name, workers)
    if fallback not in (None, "serial"):
        raise UsageError(f"not a valid fallback: {fallback!r}", hint="use 'serial'")
    if name != "ray":
        place = found.kind(found.lanes)
        place.notices += found.notices
        return place
    from runyard.backends.ray.backend import RayBackend

    try:
        return RayBackend(workers, ray_address)
    except BackendError as error:
        if fallback is None:
            raise
        place = open_backend(fallback)
        place.notices.append(f"{error.message}: running on {fallback} instead")
        return place

"""Running batches in tests: a place to run, somebody who interferes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import runyard as ry
from runyard.backends import backend_class
from runyard.backends.base import Capabilities
from runyard.reports.printed import Output


class Place(NamedTuple):
    """A backend with so many workers."""

    backend: str
    workers: int

    @property
    def can(self) -> Capabilities:
        return backend_class(self.backend).capabilities

    def run(self, yard: ry.Yard, batch: ry.Batch, **options: Any) -> ry.Result:
        return yard.run(batch, backend=self.backend, workers=self.workers, **options)

    def resume(self, yard: ry.Yard, name: str) -> ry.Result:
        return yard.resume(name, backend=self.backend, workers=self.workers)

    def __str__(self) -> str:
        return f"{self.backend}-{self.workers}"


def output(
    yard: ry.Yard, result: ry.Result, task: int, stream: str = "stdout", attempt: int = 0
) -> str:
    """What an attempt of a task printed."""
    found = yard.printed(result.name, task).get(attempt, Output())
    text: str | None = getattr(found, stream)
    assert text is not None
    return text


Test = TypeVar("Test", bound=Callable[..., object])


def unless(is_pointless: Callable[[Place], bool]) -> Callable[[Test], Test]:
    """Leave a test out where its backend can't do what it is about; see the conftest."""

    def mark(test: Test) -> Test:
        test.unless = is_pointless  # type: ignore[attr-defined]
        return test

    return mark


PLACES = [
    Place("serial", 1),
    *(Place(backend, workers) for backend in ("async", "threads") for workers in (1, 5)),
    *(Place(backend, workers) for backend in ("processes", "ray") for workers in (1, 2, 5)),
]

USUAL = {"serial": 1, "async": 5, "threads": 5, "processes": 2, "ray": 2}
"""With how many workers each backend is tested every time; other numbers are for the slow tests."""


@contextmanager
def meanwhile(interfere: Callable[[], object]) -> Iterator[None]:
    """Do something in another thread while the body runs; its errors come out here."""
    errors: list[BaseException] = []

    def act() -> None:
        try:
            interfere()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=act, name="meanwhile")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]

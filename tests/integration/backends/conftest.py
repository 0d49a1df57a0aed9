"""Each backend with one worker and with several, and a folder through which tests hold tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))

from running import PLACES, USUAL, Place


@pytest.fixture(scope="module", params=PLACES, ids=str)
def place(request: pytest.FixtureRequest) -> Place:
    """Every backend in turn, with its usual number of workers and, in slow tests, with others."""
    found: Place = request.param
    return found


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[str]:
    """A folder that tasks and their test talk through; at the end every task is released."""
    folder = tmp_path / "gate"
    folder.mkdir()
    yield str(folder)
    for word in ("release", "heard"):
        (folder / word).touch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Take out tests that are pointless on their backend, rather than skip them."""
    items[:] = [item for item in items if not _is_pointless(item)]
    for item in items:
        if _is_one_of_many(item):
            item.add_marker(pytest.mark.slow)


def _is_one_of_many(item: pytest.Item) -> bool:
    """Whether the test runs on the same backend with its usual number of workers, too."""
    callspec = getattr(item, "callspec", None)
    place = callspec.params.get("place") if callspec else None
    if not isinstance(place, Place) or place.workers == USUAL[place.backend]:
        return False
    unless = getattr(getattr(item, "function", None), "unless", None)
    return not (unless and unless(Place(place.backend, USUAL[place.backend])))


def _is_pointless(item: pytest.Item) -> bool:
    unless = getattr(getattr(item, "function", None), "unless", None)
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    place = params.get("place")
    if place is None and "backend" in params:
        place = Place(params["backend"], 1 if params["backend"] == "serial" else 2)
    return bool(unless and place and unless(place))

"""Each backend with one worker and with several, and a folder through which tests hold tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))

from running import PLACES, Place


@pytest.fixture(scope="module", params=PLACES, ids=str)
def place(request: pytest.FixtureRequest) -> Place:
    """Every backend in turn, with one and five workers; with two where they are processes."""
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


def _is_pointless(item: pytest.Item) -> bool:
    unless = getattr(getattr(item, "function", None), "unless", None)
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    place = params.get("place")
    if place is None and "backend" in params:
        place = Place(params["backend"], 1 if params["backend"] == "serial" else 2)
    return bool(unless and place and unless(place))

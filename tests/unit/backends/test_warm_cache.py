"""Resources kept warm between runs: taken once, closed once, abandoned by forked children."""

from __future__ import annotations

import os

import pytest

from runyard.backends.helper import WarmCache


class Resource:
    """Counts how often it was closed."""

    def __init__(self, name: str, cache: WarmCache[Resource]) -> None:
        self.name = name
        self.closed = self.abandoned = 0
        self._cache = cache
        cache.opened(self)

    def close(self) -> None:
        self.closed += 1
        self._cache.closed(self)

    def abandon(self) -> None:
        self.abandoned += 1


@pytest.fixture
def cache() -> WarmCache[Resource]:
    return WarmCache()


def test_an_idle_resource_that_fits_is_taken_and_the_others_are_closed(
    cache: WarmCache[Resource],
) -> None:
    first, second = Resource("first", cache), Resource("second", cache)
    assert cache.take(lambda each: True) is None, "both are in use"
    cache.keep(first)
    cache.keep(second)
    assert cache.take(lambda each: each.name == "second") is second
    assert (first.closed, second.closed) == (1, 0)
    assert cache.take(lambda each: True) is None


def test_closing_ends_idle_resources_only(cache: WarmCache[Resource]) -> None:
    idle, used = Resource("idle", cache), Resource("used", cache)
    cache.keep(idle)
    cache.close()
    cache.close()
    assert (idle.closed, used.closed) == (1, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_abandons_all_and_closes_none(cache: WarmCache[Resource]) -> None:
    idle, used = Resource("idle", cache), Resource("used", cache)
    cache.keep(idle)
    child = os.fork()
    if child == 0:
        counts = [each.abandoned for each in (idle, used)], [each.closed for each in (idle, used)]
        is_empty = cache.take(lambda each: True) is None
        os._exit(0 if counts == ([1, 1], [0, 0]) and is_empty else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (idle.abandoned, used.abandoned) == (0, 0)

"""Workers that die as soon as they start end the run; workers that others kill don't."""

from __future__ import annotations

import pytest

from runyard.backends.base import EarlyDeaths


def test_workers_that_die_at_their_start_in_a_row_are_given_up() -> None:
    deaths = EarlyDeaths()
    given_up = [deaths.add(lived=0.1) for _ in range(EarlyDeaths.LIMIT + 1)]
    assert given_up == [False] * EarlyDeaths.LIMIT + [True]


@pytest.mark.parametrize("kind", ["lived", "was running", "reported"])
def test_a_worker_that_had_started_well_ends_the_row(kind: str) -> None:
    deaths = EarlyDeaths()
    for _ in range(EarlyDeaths.LIMIT):
        deaths.add()
    if kind == "reported":
        deaths.reset()
    else:
        lived = EarlyDeaths.SECONDS + 1 if kind == "lived" else 0.0
        assert not deaths.add(was_running=kind == "was running", lived=lived)
    assert not deaths.add()

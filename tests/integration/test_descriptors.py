"""A process may run batches for days: nothing of a finished run stays open."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from polling import eventually

import runyard as ry
from runyard.backends.processes import close_crews

SELECT_LIMIT = 1024


def double(x: int) -> int:
    return 2 * x


def descriptors() -> set[str]:
    """What this process has open."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except OSError:  # the one that lists
            continue
    return found


def test_runs_in_many_yards_do_not_pile_up_descriptors(tmp_path: Path) -> None:
    for number in range(12):
        place = tmp_path / str(number)
        result = ry.run(ry.grid(double, x=[1, 2], seed=1), yard=place, backend="serial")
        assert list(result.values()) == [2, 4]
        assert ry.Yard(place).results(result.name).stats.workers == 0
    del result

    def left() -> set[Path]:
        gc.collect()
        return {Path(name).parent for name in descriptors() if name.startswith(str(tmp_path))}

    assert eventually(lambda: not left(), seconds=60), left()


@pytest.fixture
def many_open() -> Iterator[None]:
    """As many open descriptors as a busy server has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * SELECT_LIMIT)), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(SELECT_LIMIT)]
    assert opened[-1] > SELECT_LIMIT
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open")
def test_workers_start_where_a_thousand_files_are_open(yard: ry.Yard) -> None:
    close_crews()
    result = yard.run(ry.grid(double, x=range(20), seed=1), workers=2)
    assert result.stats.completed == 20
    close_crews()

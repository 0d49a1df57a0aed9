"""What a yard refuses before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import runyard as ry
from runyard.errors import BadSpec, UsageError
from runyard.testing import StubBackend


def play(x: int) -> int:
    raise AssertionError("a stub runs no function")


def batch() -> ry.Batch:
    return ry.grid(play, x=[1, 2], seed=1)


@pytest.mark.parametrize("place", [5, 0, True, b"yard", ["yard"]])
def test_a_place_that_is_no_path_and_no_address_is_refused(place: Any) -> None:
    for make in (ry.Yard, ry.Executor):
        with pytest.raises(UsageError, match="can't be opened at") as caught:
            make(place) if make is ry.Yard else make(yard=place)
        assert "folder" in str(caught.value.hint)


def test_a_path_and_text_name_the_same_yard(tmp_path: Path) -> None:
    assert ry.Yard(tmp_path).folder == ry.Yard(str(tmp_path)).folder == tmp_path


def test_a_closed_memory_yard_runs_nothing_and_its_results_stay_readable() -> None:
    with ry.Yard("memory:") as yard:
        result = yard.run(batch(), backend=StubBackend(default=3), progress=False)
    assert list(result.values()) == [3, 3]
    for use in (yard.status, lambda: yard.run(batch(), backend=StubBackend(), progress=False)):
        with pytest.raises(UsageError, match="memory: yard is closed"):
            use()
    yard.close()


def test_a_closed_folder_yard_opens_again(tmp_path: Path) -> None:
    yard = ry.Yard(tmp_path)
    yard.run(batch(), backend=StubBackend(default=3), progress=False)
    yard.close()
    assert [result.stats.completed for result in yard.status()] == [2]
    yard.close()


def test_a_misspelt_error_class_is_refused_and_nothing_is_recorded() -> None:
    with ry.Yard("memory:") as yard:
        for option in ("retry_on", "never_retry"):
            with pytest.raises(BadSpec, match="no error class 'OSEror'; did you mean 'OSError'"):
                yard.run(batch(), backend=StubBackend(), **{option: "OSEror"})
        assert yard.status() == []
        result = yard.run(batch(), backend=StubBackend(), progress=False, retry_on="OSError")
        with pytest.raises(BadSpec, match="no error class 'OSEror'"):
            yard.resume(result.name, retry_on=["OSEror"])


FORKS = """
import os
import runyard as ry

yard = ry.Yard("memory:")
if not os.fork():
    raise SystemExit
os.wait()
print(yard.folder.exists())
yard.close()
print(yard.folder.exists())
"""


def test_a_forked_child_that_ends_leaves_its_parents_memory_yard_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("True\nFalse\n", "")

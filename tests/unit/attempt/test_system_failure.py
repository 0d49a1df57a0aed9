"""System failures are told apart from failures of tasks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runyard.attempt.kept import IN_STORE, filed
from runyard.attempt.system_failure import SystemFailure, is_full
from runyard.errors import EngineError, StoreFull


def test_a_full_disk_stays_a_full_disk_on_its_way_to_the_engine() -> None:
    full = SystemFailure.of(StoreFull("No room left."))._replace(task=3).error()
    closed = SystemFailure.of(EngineError("Permission denied.")).error()
    assert isinstance(full, StoreFull)
    assert "task 3 can't run: No room left." in str(full)
    assert "runyard resume" in str(full)
    assert not isinstance(closed, StoreFull)
    assert "the tasks can't run" in str(closed)


def test_a_disk_with_room_is_not_full(tmp_path: Path) -> None:
    assert not is_full(tmp_path)
    assert not is_full(tmp_path / "missing")


@pytest.mark.parametrize(
    ("number", "raised"), [(errno.ENOSPC, StoreFull), (errno.EIO, EngineError)]
)
def test_output_that_can_not_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: type[Exception]
) -> None:
    def write(path: Path, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", write)
    long = [b"x" * IN_STORE + b"end", b""]
    with pytest.raises(raised, match="write the output"):
        filed(long, tmp_path, 3, 1, strict=True)
    lenient = filed(long, tmp_path, 3, 1, strict=False)  # after the task has ended
    assert lenient is not None
    assert lenient.stdout is not None
    assert lenient.stdout.endswith(b"end")

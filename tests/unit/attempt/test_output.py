"""What goes to the store and what into a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.attempt.kept import IN_STORE, LIMIT
from runyard.attempt.output import StreamOutput, routed, salvage
from runyard.spec.outcome import Printed


def spool(folder: Path, out: bytes, err: bytes = b"") -> Path:
    for name, text in (("stdout", out), ("stderr", err)):
        (folder / f"7-0.{name}").write_bytes(text)
    return folder / "7-0"


def test_what_a_dead_worker_left_is_taken_and_its_spool_removed(tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    found = salvage(spool(tmp_path, b"out\xff", b"err"), batch, 3, 1)
    assert found == Printed(3, 1, b"out\xff", b"err")
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_left_nothing_has_printed_nothing(tmp_path: Path) -> None:
    assert salvage(spool(tmp_path, b""), tmp_path / "batch", 3, 1) is None
    assert salvage(tmp_path / "8-0", tmp_path / "batch", 3, 1) is None
    assert list(tmp_path.iterdir()) == []


def test_a_stream_goes_into_a_file_from_its_limit_on(tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    text = b"x" * IN_STORE
    assert salvage(spool(tmp_path, text), batch, 3, 1) == Printed(3, 1, text, b"")
    assert not batch.exists()
    assert salvage(spool(tmp_path, text + b"y", b"e"), batch, 3, 1) == Printed(3, 1, None, b"e")
    assert (batch / "tasks/3/1/stdout").read_bytes() == text + b"y"
    assert not (batch / "tasks/3/1/stderr").exists()


def test_a_file_keeps_both_ends_of_what_is_too_long_for_it(tmp_path: Path) -> None:
    long = b"begin" + b"x" * LIMIT + b"end"
    salvage(spool(tmp_path, long), tmp_path / "batch", 3, 1)
    kept = (tmp_path / "batch/tasks/3/1/stdout").read_bytes()
    assert kept.startswith(b"begin")
    assert kept.endswith(b"end")
    assert b"8 bytes left out" in kept
    assert len(kept) < LIMIT + 100


def test_where_no_file_can_be_made_the_end_of_a_long_stream_is_kept(tmp_path: Path) -> None:
    (tmp_path / "batch").write_text("no folder")
    found = salvage(spool(tmp_path, b"x" * IN_STORE + b"end"), tmp_path / "batch", 3, 1)
    assert found is not None
    assert found.stdout is not None
    assert found.stdout.endswith(b"x" * (IN_STORE - 3) + b"end")
    assert "3 bytes left out: Not a directory" in found.stdout.decode()


@pytest.mark.parametrize("size", [10, IN_STORE + 1])
def test_streams_of_this_process_go_the_same_way(tmp_path: Path, size: int) -> None:
    output = StreamOutput()
    with routed():
        output.begin()
        print("é" * (size // 2), end="")
        print("x" * (size % 2), end="")
        so_far = output.so_far(tmp_path, 3, 1)
        found = output.end(tmp_path, 3, 1)
    text = ("é" * (size // 2) + "x" * (size % 2)).encode()
    assert found == so_far == Printed(3, 1, text if size < IN_STORE else None, b"")
    if size > IN_STORE:
        assert (tmp_path / "tasks/3/1/stdout").read_bytes() == text

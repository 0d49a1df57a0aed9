"""A walk through a folder in which a program that means harm may be at work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.spaces import OutOfReach, SpaceUsage, usage, walk
from runyard.spaces.walking import DEPTH

BLOCK = 4096


def nest(folder: Path, levels: int, name: str = "d" * 200) -> int:
    """Folders inside each other, beyond the longest path; a descriptor of the innermost."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    return here


def write(folder: int, name: str, size: int) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder)
    os.write(descriptor, os.urandom(size))
    os.close(descriptor)


def test_files_behind_a_path_that_is_too_long_are_counted(tmp_path: Path) -> None:
    innermost = nest(tmp_path, DEPTH - 1)
    write(innermost, "big", 1 << 20)
    os.close(innermost)
    assert usage(tmp_path).bytes >= 1 << 20


def test_folders_that_are_too_deep_are_out_of_reach_and_never_left_out(tmp_path: Path) -> None:
    os.close(nest(tmp_path, DEPTH + 1, "d"))
    with pytest.raises(OutOfReach, match="deep"):
        usage(tmp_path)


def test_hard_links_count_once_and_holes_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(1 << 20))
    for number in range(5):
        os.link(tmp_path / "file", tmp_path / f"link{number}")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    found = usage(tmp_path)
    assert 1 << 20 <= found.bytes < (1 << 20) + 10 * BLOCK
    assert found.entries == 7


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "big").write_bytes(os.urandom(1 << 20))
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "out")
    (inside / "round").symlink_to(inside)
    assert usage(inside).bytes < 1 << 20
    assert sorted(found.path for found in walk(inside)) == ["link", "round"]


def test_counting_ends_once_there_is_too_much(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert usage(tmp_path, most=SpaceUsage(1 << 30, 10)).entries == 11


def test_what_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert usage(tmp_path / "none") == SpaceUsage(0, 0)

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runyard.errors import BadName, EngineError, StoreFull
from runyard.spaces import copy_tree, inside, remove_tree

REMOVE = """
import os, sys
from pathlib import Path
from runyard.spaces import remove_tree
if os.getuid() == 0:  # root may write into read-only folders, which would prove nothing
    os.setgid(65534)
    os.setuid(65534)
root = Path(sys.argv[1]) / "tree"
(root / "a" / "b").mkdir(parents=True)
(root / "a" / "b" / "file").write_text("x")
(root / "a" / "b" / "file").chmod(0o400)
for folder, mode in ((root / "a" / "b", 0o500), (root / "a", 0), (root, 0o500)):
    folder.chmod(mode)
remove_tree(root)
assert not root.exists()

root.mkdir()
here = os.open(root, os.O_RDONLY)
for at in range(1500):
    os.mkdir("d" * 100, dir_fd=here)
    below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
    if at % 100 == 0:
        os.fchmod(here, 0)
    os.close(here)
    here = below
os.close(here)
remove_tree(root)
assert not root.exists()
"""

parts = st.lists(
    st.text(max_size=8)
    | st.sampled_from(["..", ".", "/", "a/../..", "out", "out/x", "in", "loop", "x" * 300, "a//b"]),
    min_size=1,
    max_size=4,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with links: one that stays in, one that leads out, one that goes round."""
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("x")
    (root / "in").symlink_to("folder")
    (root / "out").symlink_to("../outside")
    (root / "loop").symlink_to("loop")
    return root


@pytest.mark.parametrize("names", [("a",), ("a/b", "c"), ("in", "x"), ("...",), ("-rf",), ("é",)])
def test_a_path_inside_is_the_joined_one(root: Path, names: tuple[str, ...]) -> None:
    assert inside(root, *names) == root.joinpath(*names)


def test_no_parts_mean_the_root_itself(root: Path) -> None:
    assert inside(root) == root


@pytest.mark.parametrize(
    "name",
    ["..", "../x", "a/../../x", "a/..", "/etc", "", ".", "./", "a\0", "out", "out/x", "x" * 300],
)
def test_a_path_that_could_lead_out_is_refused(root: Path, name: str) -> None:
    with pytest.raises(BadName):
        inside(root, name)


def test_a_root_reached_through_a_link_is_fine(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert inside(link, "a") == link / "a"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=parts)
def test_no_parts_whatever_lead_out(root: Path, names: list[str]) -> None:
    try:
        path = inside(root, *names)
    except BadName:
        return
    assert Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    assert path != root


def test_removing_takes_links_and_leaves_what_they_point_to(root: Path) -> None:
    remove_tree(root / "out")
    assert not (root / "out").is_symlink()
    (root / "out").symlink_to("../outside")
    remove_tree(root)
    assert not root.exists()
    assert (root.parent / "outside" / "precious").exists()


def test_removing_a_file_or_nothing_works(root: Path) -> None:
    (root / "file").write_text("x")
    remove_tree(root / "file")
    remove_tree(root / "file")
    assert not (root / "file").exists()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that another user may reach; pytest's own may not be."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_read_only_closed_and_deep_folders_are_removed(public_folder: Path) -> None:
    subprocess.run([sys.executable, "-c", REMOVE, str(public_folder)], check=True)
    assert not list(public_folder.iterdir())


def test_a_tree_deeper_than_python_recurses_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(top)
    assert not top.exists()


def test_a_tree_that_two_remove_at_once_is_gone(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for number in range(300):
        (top / str(number)).mkdir(parents=True)
        (top / str(number) / "file").write_text("x")
    errors: list[BaseException] = []

    def remove() -> None:
        try:
            remove_tree(top)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=remove) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    remove_tree(top)
    assert not top.exists()
    assert not errors


def test_what_can_not_be_removed_is_a_clear_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(EngineError, match="can't be removed"):
        remove_tree(root)


def test_a_full_disk_while_copying_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
    (source / "file").write_text("x")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    monkeypatch.setattr("fcntl.ioctl", full)
    with pytest.raises(StoreFull):
        copy_tree(source, target)

"""Files are there whole or not at all, and only regular ones are replaced."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.errors import UsageError
from runyard.spaces import whole_file


def write(path: Path, text: str) -> None:
    with whole_file(path) as place:
        place.write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write(path, "first")
    with whole_file(path) as place:
        place.write_text("second")
        assert path.read_text() == "first"
    assert path.read_text() == "second"
    assert names(path.parent) == ["file"]


def test_a_file_that_is_not_finished_is_not_there(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        with whole_file(path) as place:
            place.write_text("half")
            raise ValueError

    (tmp_path / "old").write_text("old")
    for name in ("old", "new"):
        with pytest.raises(ValueError):
            fail(tmp_path / name)
    assert (tmp_path / "old").read_text() == "old"
    assert names(tmp_path) == ["old"]


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o664])
def test_a_replaced_file_is_for_the_same_readers(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    with whole_file(path) as place:
        place.write_text("text")
        assert stat.S_IMODE(place.stat().st_mode) == mode | 0o200
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    file, link, far = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "far"
    link.symlink_to("there/file")
    far.symlink_to(link)
    for text in ("made", "replaced"):  # at first the link leads nowhere
        write(far, text)
        assert link.is_symlink()
        assert far.is_symlink()
        assert file.read_text() == text
    assert names(tmp_path) == ["far", "link", "there"]
    assert names(tmp_path / "there") == ["file"]


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_written_into(tmp_path: Path, linked: bool) -> None:
    pipe = path = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write(path, "text" * 100_000)
    reader.join()
    assert read == ["text" * 100_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert path.is_symlink() == linked


def test_a_device_is_written_into(tmp_path: Path) -> None:
    parent, terminal = os.openpty()  # a device of the test's own
    link = tmp_path / "link"
    link.symlink_to(os.ttyname(terminal))
    write(link, "text")
    assert os.read(parent, 100) == b"text"
    assert link.is_symlink()
    os.close(parent)
    os.close(terminal)


@pytest.mark.parametrize("name", ["its own name", "/dev/fd/{}", "/proc/self/fd/{}", "a link"])
def test_what_goes_to_a_terminal_can_t_control_it(tmp_path: Path, name: str) -> None:
    parent, terminal = os.openpty()
    path = Path(os.ttyname(terminal) if name == "its own name" else name.format(terminal))
    if name == "a link":
        path = tmp_path / "link"
        path.symlink_to(f"/dev/fd/{terminal}")
    with whole_file(path) as place:
        place.write_bytes(b"a,\xc3\xbc\x1b]0;title\x07\xff\r\nb\n")
    assert os.read(parent, 100) == b"a,\xc3\xbc\\x1b]0;title\\x07\\xff\r\nb\r\n"
    os.close(parent)
    os.close(terminal)


WRITE = """
import sys
from pathlib import Path
from runyard.spaces import whole_file
print("before", flush=True)
with whole_file(Path(sys.argv[1])) as place:
    place.write_text("text\\n")
print("after")
"""


@pytest.mark.parametrize("path", ["/proc/self/fd/1", "/dev/fd/1", "link"])
@pytest.mark.parametrize("end", ["pipe", "file"])
def test_an_open_file_is_written_where_it_stands(tmp_path: Path, path: str, end: str) -> None:
    (tmp_path / "link").symlink_to("/proc/self/fd/1")
    kept = tmp_path / "kept"
    kept.write_text("kept\n")
    with kept.open("a") as file:
        told = subprocess.run(
            [sys.executable, "-c", WRITE, path], cwd=tmp_path, check=True,
            stdout=file if end == "file" else subprocess.PIPE,
        )  # fmt: skip
    expected = b"before\ntext\nafter\n"
    assert (told.stdout or kept.read_bytes().removeprefix(b"kept\n")) == expected
    assert kept.read_text().startswith("kept\n")


@pytest.mark.parametrize(
    "prepare",
    [
        Path.mkdir,
        lambda path: path.symlink_to(path),
        lambda path: path.symlink_to("/proc/self/fd/987"),
        lambda path: path.parent.joinpath("file").touch() or path.symlink_to("file/below"),
    ],
    ids=["folder", "loop", "closed", "below a file"],
)
def test_what_can_t_be_written_is_told(tmp_path: Path, prepare: Callable[[Path], object]) -> None:
    path = tmp_path / "path"
    prepare(path)
    before = names(tmp_path)
    with pytest.raises(UsageError, match=r"path can't be written: "):
        write(path, "text")
    assert names(tmp_path) == before

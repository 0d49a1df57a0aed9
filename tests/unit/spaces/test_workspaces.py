from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runyard import clock
from runyard.errors import BadName, EngineError, UsageError
from runyard.spaces import Workspaces, old, prune_empty, remove_tree, task_folder
from runyard.spec.options import Keep

CREATE_AND_SETTLE = """
import sys
from pathlib import Path
from runyard.spaces import Workspaces
spaces = Workspaces(Path(sys.argv[1]), keep="never")
for attempt in range(200):
    spaces.create(int(sys.argv[2]), attempt).joinpath("file").write_text("x")
    spaces.settle(int(sys.argv[2]), attempt, ok=True)
"""


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    return tmp_path / "batches" / "b"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    template = tmp_path / "template"
    (template / "src").mkdir(parents=True)
    (template / "src" / "main.py").write_text("print()")
    (template / "run.sh").write_text("#!/bin/sh\n")
    (template / "run.sh").chmod(0o755)
    (template / "link").symlink_to("src/main.py")
    return template


def test_an_attempt_has_its_folder_by_number(batch: Path) -> None:
    assert task_folder(batch, 12, 3) == batch / "tasks" / "12" / "3"


def test_a_workspace_is_an_empty_folder_below_its_attempt(batch: Path) -> None:
    workspace = Workspaces(batch).create(12, 3)
    assert workspace == task_folder(batch, 12, 3) / "workspace"
    assert list(workspace.iterdir()) == []


def test_a_workspace_holds_nothing_of_an_earlier_execution_of_its_attempt(batch: Path) -> None:
    spaces = Workspaces(batch)
    (spaces.create(1, 0) / "old").write_text("x")
    (task_folder(batch, 1, 0) / "stdout").write_text("x")
    (spaces.create(1, 1) / "other attempt").write_text("x")
    assert list(spaces.create(1, 0).iterdir()) == []
    assert not (task_folder(batch, 1, 0) / "stdout").exists()
    assert (task_folder(batch, 1, 1) / "workspace" / "other attempt").exists()


@pytest.mark.parametrize(
    ("keep", "ok", "stays"),
    [
        ("always", True, True),
        ("always", False, True),
        ("failed", True, False),
        ("failed", False, True),
        ("never", True, False),
        ("never", False, False),
    ],
)
def test_the_policy_says_what_stays(batch: Path, keep: Keep, ok: bool, stays: bool) -> None:
    spaces = Workspaces(batch, keep=keep)
    workspace = spaces.create(1, 0)
    (workspace / "file").write_text("x")
    spaces.settle(1, 0, ok)
    assert workspace.exists() == stays
    assert (batch / "tasks").exists() == stays


def test_what_was_captured_outlives_the_workspace(batch: Path) -> None:
    spaces = Workspaces(batch, keep="never")
    workspace = spaces.create(1, 0)
    (workspace.parent / "stdout").write_text("hello")
    spaces.create(1, 1)
    spaces.settle(1, 0, True)
    spaces.settle(1, 1, True)
    assert [str(p.relative_to(batch)) for p in batch.rglob("*") if p.is_file()] == [
        "tasks/1/0/stdout"
    ]
    assert not task_folder(batch, 1, 1).exists()


def test_settling_what_is_not_there_does_no_harm(batch: Path) -> None:
    Workspaces(batch, keep="never").settle(1, 0, True)


def test_a_template_is_copied_with_modes_and_inner_links(batch: Path, template: Path) -> None:
    workspace = Workspaces(batch, template=template).create(1, 0)
    assert (workspace / "src" / "main.py").read_text() == "print()"
    assert os.access(workspace / "run.sh", os.X_OK)
    assert (workspace / "link").readlink() == Path("src/main.py")


def test_a_task_can_not_change_the_template(batch: Path, template: Path) -> None:
    workspace = Workspaces(batch, template=template).create(1, 0)
    (workspace / "link").write_text("changed")
    assert (workspace / "src" / "main.py").read_text() == "changed"
    assert (template / "src" / "main.py").read_text() == "print()"
    assert (workspace / "run.sh").stat().st_nlink == 1


def test_a_read_only_template_gives_a_workspace_one_can_write_in(
    batch: Path, template: Path
) -> None:
    (template / "src").chmod(0o555)
    template.chmod(0o555)
    try:
        workspace = Workspaces(batch, template=template).create(1, 0)
    finally:
        template.chmod(0o755)
        (template / "src").chmod(0o755)
    assert (workspace / "src").stat().st_mode & 0o700 == 0o700
    assert workspace.stat().st_mode & 0o700 == 0o700


@pytest.mark.parametrize("target", ["../outside", "/etc/passwd", "src/../../x"])
def test_a_link_out_of_the_template_is_refused_and_nothing_is_left(
    batch: Path, template: Path, target: str
) -> None:
    (template / "out").symlink_to(target)
    with pytest.raises(BadName, match="symlink"):
        Workspaces(batch, template=template).create(1, 0)
    assert not batch.exists() or not list(batch.iterdir())


def test_a_link_out_of_the_template_by_way_of_a_folder_link_is_refused(
    batch: Path, template: Path
) -> None:
    (template / "src" / "up").symlink_to("..")
    (template / "out").symlink_to("src/up/../outside")
    with pytest.raises(BadName):
        Workspaces(batch, template=template).create(1, 0)


def test_a_pipe_in_the_template_is_refused_without_waiting_for_it(
    batch: Path, template: Path
) -> None:
    os.mkfifo(template / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        Workspaces(batch, template=template).create(1, 0)


def test_a_template_that_is_no_folder_or_holds_the_batch_is_refused(
    batch: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        Workspaces(batch, template=tmp_path / "none")
    with pytest.raises(UsageError, match="own folder"):
        Workspaces(batch, template=tmp_path)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_symlink_in_the_way_is_never_followed_out(
    batch: Path, tmp_path: Path, depth: int
) -> None:
    outside = tmp_path / "outside"
    precious = outside.joinpath(*["1", "0", "workspace"][depth:]) / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("x")
    link = batch.joinpath(*["tasks", "1", "0"][: depth + 1])
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    spaces = Workspaces(batch, keep="never")
    with pytest.raises(BadName):
        spaces.create(1, 0)
    with pytest.raises(BadName):
        spaces.settle(1, 0, True)
    assert list(old([batch], 0)) == []
    assert precious.read_text() == "x"


def test_a_file_in_the_way_is_a_clear_error(batch: Path) -> None:
    batch.mkdir(parents=True)
    (batch / "tasks").write_text("x")
    with pytest.raises(EngineError):
        Workspaces(batch).create(1, 0)


def test_neighbours_that_prune_do_not_disturb_each_other(batch: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CREATE_AND_SETTLE, str(batch), str(task)])
        for task in range(4)
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    assert not (batch / "tasks").exists()


def test_old_workspaces_are_those_in_which_nothing_changed(batch: Path) -> None:
    spaces = Workspaces(batch)
    stale, fresh = spaces.create(1, 0), spaces.create(2, 0)
    for workspace in (stale, fresh):
        (workspace / "deep").mkdir()
        (workspace / "deep" / "file").write_text("12345")
    for path in (stale / "deep" / "file", stale / "deep", stale, fresh / "deep", fresh):
        os.utime(path, (1000, 1000))
    os.utime(fresh / "deep" / "file", (1900, 1900))
    (batch / "tasks" / "stray").write_text("x")

    with clock.replaced(wall=lambda: 2000.0):
        (found,) = old([batch, batch.parent / "none"], 500)
        assert found == (stale.resolve(), 5, 1000.0)
        assert {each.path.parts[-3] for each in old([batch], 50)} == {"1", "2"}

    remove_tree(found.path)
    prune_empty(found.path.parent, batch.resolve())
    assert not (batch / "tasks" / "1").exists()
    assert fresh.exists()

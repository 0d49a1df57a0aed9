"""Trouble of Runyard's own, such as no room, ends a run and is no task's outcome."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from chaos_run import Photograph, Scene, assert_sound, engine, finish, photograph
from test_disk_full import fill, small_disk

from runyard.spec.status import COMPLETED

TASKS = 40
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("threads", "async")]
BACKENDS = ["processes", "serial", *OTHERS]


def fill_with_files(disk: Path) -> list[Path]:
    """Take every inode but a few."""
    made = []
    for number in range(os.statvfs(disk).f_favail - 20):
        made.append(disk / f"ballast-{number}")
        made[-1].touch()
    return made


def stops(scene: Scene, **more: Any) -> Photograph:
    """A run that ends with an engine error, with no outcome but those of good tasks."""
    with engine(scene, **more) as stuck:
        assert stuck.wait(60) == 3, stuck.output
        assert "can't be run" in stuck.output
        assert "runyard resume" in stuck.output
        stuck.gone()
    found = photograph(scene.yard)
    assert len(found.outcomes) < scene.tasks
    assert {row[2] for row in found.outcomes.values()} <= {COMPLETED}, "recorded as an outcome"
    return found


def goes_on(scene: Scene, before: Photograph) -> None:
    told = finish(scene)
    assert (told["completed"], told["failed"]) == (scene.tasks, 0)
    before.assert_within(photograph(scene.yard))
    assert_sound(scene)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", ["folders", "template", "files"])
def test_no_room_for_workspaces(tmp_path: Path, backend: str, what: str) -> None:
    options = {}
    if what == "template":
        (tmp_path / "template" / "folder").mkdir(parents=True)
        (tmp_path / "template" / "folder" / "file").write_bytes(bytes(20_000))
        options["template"] = str(tmp_path / "template")
    scene = Scene(tmp_path, "in_a_workspace", tasks=TASKS, backend=backend, options=options)
    disk = scene.yard / "batches" / scene.name / "tasks"
    with small_disk(disk, 4 << 20) as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        ballast = fill_with_files(disk) if what == "folders" else [fill(disk, spare=50_000)]
        before = stops(scene)
        for path in ballast:
            path.unlink()
        goes_on(scene, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_room_for_what_tasks_print(tmp_path: Path, backend: str) -> None:
    scene = Scene(tmp_path, "talkative", tasks=TASKS, backend=backend)
    disk = scene.yard / "batches" / scene.name / "tasks"
    with small_disk(disk, 16 << 20) as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        ballast = fill(disk, spare=800_000)
        before = stops(scene)
        ballast.unlink()
        goes_on(scene, before)


@pytest.mark.parametrize("function", ["talkative", "shell"])
def test_no_room_for_the_files_of_workers(tmp_path: Path, function: str) -> None:
    scene = Scene(tmp_path, function, tasks=TASKS)
    command = None
    if function == "shell":
        command = [
            sys.executable, "-m", "runyard", "run", "--shell", "seq 20000; : {x}",
            "--grid", f"x=1..{TASKS}", "--yard", str(scene.yard), "--name", scene.name,
        ]  # fmt: skip
    with small_disk(scene.yard / "run", 4 << 20) as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        ballast = fill(scene.yard / "run", spare=100_000)
        before = stops(scene, command=command)
        ballast.unlink()
        if command is None:
            goes_on(scene, before)
            return
        with engine(scene, command=command) as last:
            assert last.wait() == 0, last.output
        before.assert_within(photograph(scene.yard))


@pytest.mark.parametrize("backend", ["processes", OTHERS[0]])
def test_a_template_that_may_not_be_copied_whole(tmp_path: Path, backend: str) -> None:
    """A limit on the size of files, which any user may set."""
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "file").write_bytes(bytes(8 << 20))
    options = {"template": str(tmp_path / "template")}
    scene = Scene(tmp_path, "in_a_workspace", tasks=4, backend=backend, options=options)
    goes_on(scene, stops(scene, file_limit=4 << 20))

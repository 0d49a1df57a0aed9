"""A full disk: the run stops and says so, nothing recorded is lost, and it goes on with room."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from chaos_run import (
    Photograph,
    Scene,
    assert_sound,
    engine,
    finish,
    full,
    photograph,
    small,
    unbroken,
)
from polling import eventually

import runyard as ry
from runyard.errors import StoreFull


@pytest.mark.parametrize(("limits", "tasks"), [small([400_000], 3000), full(
    [120_000, 200_000, 300_000, 400_000, 500_000], 10_000
)])  # fmt: skip
def test_a_file_that_may_not_grow_stops_the_run_and_nothing_is_lost(
    tmp_path: Path, limits: list[int], tasks: int
) -> None:
    scene = Scene(tmp_path, tasks=tasks, pace=0.0005)
    before = Photograph({}, [], [], [])
    for limit in limits:
        with engine(scene, file_limit=limit) as stuck:
            assert stuck.wait() == 3, stuck.output
            assert stuck.told["error"] == "StoreFull", stuck.output
            assert "room" in stuck.told["message"]
            stuck.gone()
        after = photograph(scene.yard)
        before.assert_within(after)
        assert len(after.outcomes) < tasks
        before = after
    _goes_on(scene, before)


@contextlib.contextmanager
def small_disk(place: Path, size: int) -> Iterator[bool]:
    """A file system of this size; False where this user may not mount one."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes=1000", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, *, spare: int) -> Path:
    """A file that takes all room but so much."""
    ballast = place / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        with contextlib.suppress(OSError):
            while os.write(descriptor, bytes(4096)):
                pass
        os.ftruncate(descriptor, max(0, os.fstat(descriptor).st_size - spare))
    finally:
        os.close(descriptor)
    return ballast


@pytest.mark.parametrize("tasks", [full(10_000)])
def test_a_full_disk_stops_the_run_and_nothing_is_lost(tmp_path: Path, tasks: int) -> None:
    with small_disk(tmp_path / "disk", 8 << 20) as mounted:
        scene = Scene(tmp_path, tasks=tasks, pace=0.0005, place=tmp_path / "disk" / "yard")
        (tmp_path / "disk" / "yard").mkdir()
        # Without the right to mount, a limit on the size of files stands in for the disk.
        ballast = fill(tmp_path / "disk", spare=600_000) if mounted else None
        with engine(scene, file_limit=None if mounted else 300_000) as stuck:
            assert stuck.wait() == 3, stuck.output
            assert stuck.told["error"] == "StoreFull", stuck.output
            stuck.gone()
        before = photograph(scene.yard)
        assert len(before.outcomes) < tasks
        if ballast is not None:
            ballast.unlink()
        _goes_on(scene, before)


def test_a_run_goes_on_by_itself_when_there_is_room_in_time(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 << 20) as mounted:
        scene = Scene(tmp_path, tasks=3000, pace=0.0005, place=tmp_path / "disk" / "yard")
        (tmp_path / "disk" / "yard").mkdir()
        ballast = fill(tmp_path / "disk", spare=600_000) if mounted else None
        with engine(scene, progress=True) as waiting:
            if ballast is not None:
                assert eventually(lambda: "disk is full" in waiting.output), waiting.output
                ballast.unlink()
            assert waiting.wait() == 0, waiting.output
            assert waiting.told["digest"] == unbroken(scene)
        assert_sound(scene)


@pytest.mark.parametrize("spares", [small([0, 100_000]), full(range(0, 400_000, 16_384))])
def test_a_start_on_a_full_disk_is_an_error_in_words(tmp_path: Path, spares: Sequence[int]) -> None:
    for spare in spares:
        _start(tmp_path / str(spare), spare)


def _start(tmp_path: Path, spare: int) -> None:
    tmp_path.mkdir()
    with small_disk(tmp_path / "disk", 4 << 20) as mounted:
        scene = Scene(tmp_path, tasks=500, place=tmp_path / "disk" / "yard")
        (tmp_path / "disk" / "yard").mkdir()
        ballast = fill(tmp_path / "disk", spare=spare) if mounted else None
        with engine(scene, file_limit=None if mounted else spare + 1) as stuck:
            assert stuck.wait(60) in (0, 3), stuck.output
            assert stuck.told.get("error", "StoreFull") == "StoreFull", stuck.output
            stuck.gone()
        if ballast is not None:
            ballast.unlink()
        assert finish(scene)["digest"] == unbroken(scene)


def test_notes_on_a_full_disk_are_an_error_and_no_crash(tmp_path: Path) -> None:
    make = "import sys, pathlib; from runyard.attempt.lane_status import LaneStatusFile; "
    make += "LaneStatusFile(pathlib.Path(sys.argv[1]), 2, create=True)"
    with small_disk(tmp_path / "disk", 1 << 20) as mounted:
        if mounted:
            fill(tmp_path / "disk", spare=0)
        command = [sys.executable, "-c", make, str(tmp_path / "disk" / "1.slots")]
        made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == (1 if mounted else 0), made
    assert not mounted or "Error" in made.stderr


def _goes_on(scene: Scene, before: Photograph) -> None:
    assert finish(scene)["digest"] == unbroken(scene)
    last = photograph(scene.yard)
    before.assert_within(last)
    again = before.tasks & set(scene.executions()[_executed(scene, before) :])
    assert not again, "ran again although recorded"
    assert_sound(scene)


def _executed(scene: Scene, before: Photograph) -> int:
    """Where in the side file the last run begins: after the last first execution before it."""
    positions = {task: at for at, task in reversed(list(enumerate(scene.executions())))}
    return max((positions[task] for task in before.tasks), default=-1) + 1


def test_a_full_disk_keeps_nothing_from_being_read(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2 << 20) as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        place = tmp_path / "disk" / "yard"
        with ry.Yard(place) as yard:
            digest = yard.run(ry.grid(str, object=range(20), name="b"), backend="serial").digest
        fill(tmp_path / "disk", spare=0)
        with ry.Yard(place) as yard:
            result = yard.results("b")
            assert result.digest == digest
            assert result.columns.total == 20
            with pytest.raises(StoreFull):
                yard.stop()

"""A yard that is copied, moved or removed while an engine uses it."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from chaos_run import Scene, assert_sound, engine, family, finish, photograph, unbroken
from polling import eventually

import runyard as ry
from runyard.store.base import Store


def living(store: Store) -> list[int]:
    """The engines that are on record and alive."""
    with store.snapshot() as view:
        return [row.id for row in view.engines() if store.alive(row.id)]


def test_an_engine_whose_own_process_copies_its_yard_loses_nothing(tmp_path: Path) -> None:
    params = {"yard": str(tmp_path / "yard"), "copies": str(tmp_path / "copies")}
    scene = Scene(tmp_path, "copying", 40, pace=0.02, backend="serial", params=params)
    (tmp_path / "copies").mkdir()
    with engine(scene) as copying:
        copying.until_started(2)
        while scene.started() < 38:
            with ry.Yard(scene.yard) as other:  # each time it closes, it might be the last
                dead = copying.lives and not living(other.store)
                assert not dead or scene.started() >= 38, "taken for dead"
        assert copying.wait() == 0, copying.output
    assert photograph(scene.yard).tasks == set(range(40))
    assert_sound(scene)


@pytest.mark.parametrize("how", ["fork", "spawn", "subprocess"])
def test_an_engine_that_is_killed_is_dead_although_a_child_of_its_task_lives(
    tmp_path: Path, how: str
) -> None:
    scene = Scene(tmp_path, "leaving_a_child", 1, backend="serial", params={"how": how})
    with engine(scene) as parent, ry.Yard(scene.yard) as yard:
        parent.until_started(1)
        assert eventually(lambda: len(family(parent.mark)) == 2)
        assert living(yard.store)
        parent.process.kill()
        parent.process.wait()
        # A child that was just forked has yet to close what it took over.
        assert eventually(lambda: not living(yard.store))
        assert eventually(lambda: len(family(parent.mark)) == 1)  # none is seen during an exec


def test_an_engine_whose_yard_is_removed_and_made_anew_claims_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "steady", 300, pace=0.02)
    with engine(scene) as robbed:
        robbed.until_started(20)
        scene.yard.rename(tmp_path / "away")
        with ry.Yard(scene.yard) as fresh:
            assert fresh.status() == []
        assert robbed.wait() == 3, robbed.output
        assert robbed.told["error"] == "StoreGone", robbed.output
        assert "removed or replaced" in robbed.told["message"]
        robbed.gone()
    assert photograph(scene.yard).tasks == set()
    assert finish(scene)["completed"] == 300


@pytest.mark.parametrize("name", ["yard.db", "yard.db-wal", "run"])
def test_an_engine_whose_files_are_removed_ends_and_the_rest_can_be_resumed(
    tmp_path: Path, name: str
) -> None:
    scene = Scene(tmp_path, "steady", 300, pace=0.02)
    with engine(scene) as robbed:
        robbed.until_started(20)
        (scene.yard / name).rename(tmp_path / "away")
        assert robbed.wait() == 3, robbed.output
        assert robbed.told["error"] == "StoreGone", robbed.output
        robbed.gone()
    assert finish(scene)["digest"] == unbroken(scene)


def test_an_audit_log_that_is_removed_goes_on_in_a_new_file(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "counted", 200, pace=0.02)
    with engine(scene) as robbed:
        robbed.until_started(20)
        shutil.rmtree(scene.yard / "batches")
        assert robbed.wait() == 0, robbed.output
    with ry.Yard(scene.yard) as yard:
        events = [event["event"] for event in yard.events(scene.name)]
    assert events[0] == "AuditRestarted"
    assert events[-1] == "BatchFinished"
    assert_sound(scene)


def test_workers_that_cannot_be_replaced_say_which_file_is_missing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "steady", 300, pace=0.02)
    with engine(scene) as robbed:
        robbed.until_started(20)
        for path in scene.yard.glob("run/*.slots"):
            path.unlink()
        for pid in robbed.workers():
            os.kill(pid, signal.SIGKILL)
        assert robbed.wait() == 3, robbed.output
        assert ".slots was removed" in robbed.told["message"]
        robbed.gone()
    assert finish(scene)["digest"] == unbroken(scene)

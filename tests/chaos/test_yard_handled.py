"""A yard that is copied, moved or removed while an engine uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_run import Scene, assert_sound, engine, family, photograph
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
        assert not living(yard.store)
        assert len(family(parent.mark)) == 1

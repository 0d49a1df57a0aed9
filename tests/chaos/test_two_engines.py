"""Two engines on one yard: no lock in the way, each task once, and one may die."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from chaos_run import (
    Scene,
    assert_sound,
    doubles,
    engine,
    finish,
    full,
    photograph,
    small,
    unbroken,
)
from polling import eventually


@pytest.mark.parametrize(("engines", "tasks", "rounds"), [small(2, 1200, 1), full(4, 10_000, 5)])
def test_engines_share_a_batch_and_run_each_task_once(
    tmp_path: Path, engines: int, tasks: int, rounds: int
) -> None:
    for number in range(rounds):
        scene = Scene(tmp_path / str(number), tasks=tasks, pace=0.002)
        with contextlib.ExitStack() as stack:
            others = [stack.enter_context(engine(scene)) for _ in range(engines)]
            for one in others:
                assert one.wait() == 0, one.output
                assert "locked" not in one.output
                assert one.told["digest"] == unbroken(scene)
                one.gone()
        assert doubles(scene.executions()) == {}
        assert len(scene.executions()) == tasks
        workers = {row[8] >> 16 for row in photograph(scene.yard).outcomes.values()}
        assert len(workers) > 1, "one engine did everything"
        assert_sound(scene)


@pytest.mark.parametrize(("engines", "tasks"), [small(2, 500), full(6, 5000)])
def test_engines_run_different_batches_in_one_yard(
    tmp_path: Path, engines: int, tasks: int
) -> None:
    first = Scene(tmp_path, tasks=tasks, pace=0.001)
    scenes = [replace(first, name=f"chaos-{n}") for n in range(engines)]
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(engine(scene)) for scene in scenes]
        for scene, one in zip(scenes, others, strict=True):
            assert one.wait() == 0, one.output
            assert "locked" not in one.output
            assert one.told["digest"] == unbroken(first)
            assert sorted(scene.executions()) == list(range(tasks))
    for scene in scenes:
        assert_sound(scene)


@pytest.mark.parametrize("rounds", [small(1), full(15)])
def test_an_engine_finishes_what_its_dead_neighbour_left(tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        scene = Scene(tmp_path / str(number), tasks=1200, pace=0.002)
        with engine(scene) as victim, engine(scene) as heir:
            assert eventually(lambda: _both_at_work(scene), 60), heir.output  # noqa: B023
            left = photograph(scene.yard)
            victim.kill()
            assert heir.wait() == 0, heir.output
            assert heir.told["digest"] == unbroken(scene)
            heir.gone()
        left.assert_within(photograph(scene.yard))
        assert not left.tasks.intersection(doubles(scene.executions()))
        finish(replace(scene, name="next", tasks=1))  # clears away what the dead one left
        assert_sound(scene)


def _both_at_work(scene: Scene) -> bool:
    return len({row[8] >> 16 for row in photograph(scene.yard).outcomes.values()}) > 1

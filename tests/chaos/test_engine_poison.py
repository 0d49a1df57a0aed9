"""A task that kills the engine itself, where tasks run inside it, can't do so for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_run import Scene, assert_sound, engine, finish, full, photograph, small

import runyard as ry


@pytest.mark.parametrize("tasks", [small(200), full(3000)])
@pytest.mark.parametrize("backend", ["serial", "threads", "async"])
def test_a_task_that_kills_engines_is_recorded_as_failed_and_the_batch_goes_on(
    tmp_path: Path, backend: str, tasks: int
) -> None:
    scene = Scene(
        tmp_path, function="poison", tasks=tasks, backend=backend, workers=2, pace=0.002,
        params={"bad": tasks // 2},
    )  # fmt: skip
    before = photograph(scene.yard)
    for _ in range(3):
        with engine(scene) as victim:
            assert victim.wait() == -11, victim.output
        after = photograph(scene.yard)
        before.assert_within(after)
        before = after
    finish(scene)
    with ry.Yard(scene.yard) as yard:
        failed = {o.task: o.error.kind for o in yard.results(scene.name).outcomes("failed")}
    assert failed == {tasks // 2: "WorkerDied"}
    assert scene.executions().count(tasks // 2) == 3
    assert_sound(scene)

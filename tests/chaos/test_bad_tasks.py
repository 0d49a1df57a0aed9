"""Tasks that crash, hang or take all memory cost themselves alone, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_run import Scene, assert_sound, engine, family, full, runs, small
from chaos_tasks import BAD, GOOD

import runyard as ry

NAMED = {
    "segfault": "WorkerDied",
    "exit": "WorkerDied",
    "hang": "TaskTimeout",
    "allocate": "TaskOutOfMemory",
    "allocate_shared": "TaskOutOfMemory",
}


@pytest.mark.parametrize("rounds", [small(1), full(10)])
def test_bad_tasks_end_with_their_own_errors_and_a_thousand_others_complete(
    tmp_path: Path, rounds: int
) -> None:
    for number in range(rounds):
        limits = {"timeout": 3, "memory": 300_000_000}
        scene = Scene(
            tmp_path / str(number),
            function="mixed",
            tasks=GOOD + len(BAD),
            options=limits,
            workers=2 + number % 3,
        )
        with engine(scene) as bad:
            assert bad.wait() == 0, bad.output
            assert family(bad.mark) == [], "a process is left"
            assert (bad.told["completed"], bad.told["failed"]) == (GOOD, len(BAD))
        with ry.Yard(scene.yard) as yard:
            failed = {o.task: o.error for o in yard.results(scene.name).outcomes("failed")}
        kinds = {BAD[task - GOOD]: error.kind for task, error in failed.items() if error}
        assert kinds == NAMED
        assert not runs(int(Path(f"{scene.side}.daemon").read_text()))
        executions = scene.executions()
        assert executions.count(GOOD + BAD.index("segfault")) == 3
        assert executions.count(GOOD + BAD.index("hang")) == 1
        assert_sound(scene)

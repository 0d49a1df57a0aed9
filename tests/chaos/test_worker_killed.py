"""kill -9 of a worker: another one takes its place."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_run import (
    PROMPTLY,
    Scene,
    assert_sound,
    describe,
    doubles,
    engine,
    family,
    full,
    photograph,
    small,
    unbroken,
)
from polling import eventually

Note = Callable[[str, object], None]


@pytest.mark.parametrize(("kills", "tasks"), [small(5, 1200), full(50, 12_000)])
def test_a_killed_worker_is_replaced_and_no_task_fails(
    tmp_path: Path, measured: Note, kills: int, tasks: int
) -> None:
    scene = Scene(tmp_path, function="steady", tasks=tasks, pace=0.02, workers=4)
    dice = random.Random(kills)
    every = tasks // (kills + 2)
    slowest = 0.0
    with engine(scene) as busy:
        for count in range(1, kills + 1):
            assert busy.until_started(count * every), f"it was over too soon: {busy.output}"
            assert eventually(lambda: len(busy.workers()) == 4)
            before = busy.workers()
            victim = dice.choice(sorted(before))
            os.kill(victim, signal.SIGKILL)
            begin = time.monotonic()
            assert eventually(lambda: _replaced(busy.workers(), victim), PROMPTLY)  # noqa: B023
            slowest = max(slowest, time.monotonic() - begin)
            assert before - {victim} < busy.workers(), "another worker was replaced as well"
        assert busy.wait() == 0, busy.output
        busy.gone()
        told = busy.told
    assert (told["completed"], told["failed"]) == (tasks, 0)
    assert told["digest"] == unbroken(scene)
    assert set(scene.executions()) == set(range(tasks))
    assert len(photograph(scene.yard).attempts) <= kills, "a neighbour was charged"
    measured("kills", kills)
    measured("slowest replacement (s)", round(slowest, 3))
    measured("ran twice", sum(doubles(scene.executions()).values()))
    assert_sound(scene)


def _replaced(workers: set[int], victim: int) -> bool:
    return victim not in workers and len(workers) == 4


def test_processes_that_tasks_started_end_with_their_worker(tmp_path: Path) -> None:
    scene = Scene(tmp_path, function="with_child", tasks=2, pace=600.0, options={"timeout": 500})
    with engine(scene) as busy:
        assert busy.until_started(2)
        assert eventually(lambda: len(busy.workers()) == 2)
        for worker in busy.workers():
            os.kill(worker, signal.SIGKILL)
        assert busy.until_started(4)
        assert eventually(lambda: _sleeps(busy.mark) <= 2, PROMPTLY)
        busy.kill()


def _sleeps(mark: str) -> int:
    """How many processes that tasks started run."""
    return sum("['sleep'" in describe(pid) for pid in family(mark))

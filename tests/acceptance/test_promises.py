"""The five promises of the README, one test each, in their words. `tests/chaos` goes further."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from chaos_run import (
    Scene,
    assert_sound,
    doubles,
    engine,
    family,
    finish,
    photograph,
    unbroken,
    watch,
)
from chaos_tasks import BAD, GOOD, counted
from chaos_terminal import CTRL_C, terminal

import runyard as ry
from runyard.backends import NAMES


def test_promise_1_an_outcome_is_recorded_exactly_once_and_survives_the_death_of_any_process(
    tmp_path: Path,
) -> None:
    """A task may run more than once; its outcome is recorded exactly once; a recorded outcome
    survives the death of any process."""
    scene = Scene(tmp_path, tasks=500, pace=0.002)
    with engine(scene) as victim:
        assert victim.until_started(300)
        seen = watch(scene.yard)
        victim.kill()
    left = photograph(scene.yard)
    seen.assert_within(left)
    ran = scene.executions()
    assert finish(scene)["digest"] == unbroken(scene)
    last = photograph(scene.yard)
    left.assert_within(last)
    assert len(last.outcomes) == scene.tasks
    assert set(doubles(scene.executions())) <= set(ran) - left.tasks
    assert_sound(scene)


def test_promise_2_the_same_outcomes_on_every_backend_and_with_any_number_of_workers(
    tmp_path: Path,
) -> None:
    """The same batch, seed and code give the same outcomes on every backend and with any number
    of workers."""
    with ry.Yard(tmp_path / "yard") as yard:

        def digest(backend: str, workers: int, seed: int = 11) -> str | None:
            name = f"{backend}-{workers}-{seed}"
            batch = ry.grid(counted, x=range(500), seed=seed, name=name)
            return yard.run(batch, backend=backend, workers=workers).digest

        found = {digest(backend, workers) for backend in NAMES for workers in (1, 2, 5)}
        assert found == {unbroken(Scene(tmp_path, tasks=500))}
        assert digest("processes", 2, seed=12) not in found


def test_promise_3_a_bad_task_costs_that_task_alone(tmp_path: Path) -> None:
    """On `processes` and `ray`, a task that crashes, hangs, runs out of memory or poisons its
    worker costs that task alone."""
    scene = Scene(
        tmp_path,
        function="mixed",
        tasks=GOOD + len(BAD),
        options={"timeout": 2, "memory": "300MB"},
    )
    with engine(scene) as busy:
        assert busy.wait() == 0, busy.output
        busy.gone()
    with ry.Yard(scene.yard) as yard:
        result = yard.results(scene.name)
        failed = {outcome.task for outcome in result.outcomes("failed")}
        assert list(result.values()) == [x * x for x in range(GOOD)]
    assert failed == set(range(GOOD, scene.tasks))


@pytest.mark.parametrize("backend", NAMES)
def test_promise_4_ctrl_c_keeps_everything_finished_and_resume_goes_on(
    tmp_path: Path, backend: str
) -> None:
    """Ctrl-C keeps everything finished, leaves no orphan, exits 130, and `resume` continues from
    there."""
    scene = Scene(tmp_path, tasks=500, pace=0.02, backend=backend)
    with terminal(scene, scene.command()) as shown:
        shown.until_started(20)
        shown.press(CTRL_C)
        assert shown.wait() == 130, shown.end
        shown.assert_gone()
        shown.assert_intact()
    kept = photograph(scene.yard)
    assert kept.tasks == set(scene.executions())
    with ry.Yard(scene.yard) as yard:
        result = yard.resume(scene.name, backend=backend, workers=2)
        assert result.digest == unbroken(scene)
    kept.assert_within(photograph(scene.yard))


def test_promise_5_no_server_is_needed_and_nothing_listens(tmp_path: Path) -> None:
    """No server is needed. Nothing listens beyond loopback unless asked, and never without a
    token."""
    scene = Scene(tmp_path, tasks=400, pace=0.01, workers=3)
    with engine(scene) as busy:
        assert busy.until_started(50)
        members = family(busy.mark)
        assert len(members) >= 5
        sockets = [s for pid in members for s in psutil.Process(pid).net_connections("inet")]
        assert sockets == []
        assert busy.wait() == 0, busy.output

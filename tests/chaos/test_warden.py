"""The processes between an engine and its workers, killed and stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from chaos_run import (
    PROMPTLY,
    Engine,
    Scene,
    assert_sound,
    describe,
    engine,
    family,
    finish,
    full,
    photograph,
    small,
    unbroken,
)
from polling import eventually

BETWEEN = ["warden", "guard"]


@pytest.mark.parametrize("kills", [small(1), full(20)])
@pytest.mark.parametrize("which", BETWEEN)
def test_another_warden_takes_the_place_of_a_killed_one(
    tmp_path: Path, which: str, kills: int
) -> None:
    scene = Scene(tmp_path, tasks=250 * (kills + 1), pace=0.002)
    with engine(scene) as bereft:
        for count in range(1, kills + 1):
            assert bereft.until_started(count * 200)
            before = getattr(bereft, which)()
            os.kill(before, signal.SIGKILL)
            assert eventually(lambda: _has_another(bereft, which, before), 60)  # noqa: B023
        assert bereft.wait() == 0, bereft.output
        assert bereft.told["digest"] == unbroken(scene)
        bereft.gone()
    assert len(photograph(scene.yard).attempts) <= 2 * kills, "more than what ran was charged"
    assert_sound(scene)


def _has_another(bereft: Engine, which: str, before: int) -> bool:
    return not bereft.lives or getattr(bereft, which)() != before


def test_a_task_that_kills_its_warden_costs_that_task_alone(tmp_path: Path) -> None:
    bad = [7, 30]
    options = {"crash_attempts": 2}
    scene = Scene(tmp_path, "parricide", 60, pace=0.01, params={"bad": bad}, options=options)
    with engine(scene) as run:
        assert run.wait() == 0, run.output
        assert (run.told["completed"], run.told["failed"]) == (58, 2), run.output
        run.gone()
    kept = photograph(scene.yard)
    charged = {row[1] for row in kept.attempts}
    assert set(bad) <= charged
    assert len(charged) <= 4, "a neighbour is charged once for each that is not known yet"
    assert_sound(scene)


def test_what_kills_its_warden_runs_alone_even_at_one_attempt(tmp_path: Path) -> None:
    options = {"crash_attempts": 1}
    scene = Scene(tmp_path, "parricide", 20, pace=0.05, params={"bad": [9]}, options=options)
    with engine(scene) as run:
        assert run.wait() == 0, run.output
        assert (run.told["completed"], run.told["failed"]) == (19, 1), run.output


@pytest.mark.parametrize("which", BETWEEN)
def test_processes_that_tasks_started_end_with_the_warden(tmp_path: Path, which: str) -> None:
    scene = Scene(tmp_path, function="with_child", tasks=2, pace=600.0)
    with engine(scene) as bereft:
        assert bereft.until_started(2)
        assert eventually(lambda: len(_sleeps(bereft.mark)) == 2)
        before = _sleeps(bereft.mark)
        os.kill(getattr(bereft, which)(), signal.SIGKILL)
        assert bereft.until_started(3)
        assert eventually(lambda: not before & _sleeps(bereft.mark), PROMPTLY)
        bereft.kill()


def _sleeps(mark: str) -> set[int]:
    """Processes that tasks started and that run."""
    return {pid for pid in family(mark) if "['sleep'" in describe(pid)}


def test_a_stopped_warden_is_continued_so_that_limits_hold(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "steady", tasks=2, pace=600.0, options={"timeout": 0.5})
    with engine(scene) as run:
        assert run.until_started(2)
        os.kill(run.warden(), signal.SIGSTOP)
        assert run.wait(60) == 0, run.output
        assert run.told["failed"] == 2
        run.gone()


@pytest.mark.slow
def test_a_warden_that_does_not_answer_is_replaced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "steady", tasks=2, pace=600.0, options={"timeout": 0.5})
    with engine(scene) as run:
        assert run.until_started(2)
        warden = run.warden()
        os.kill(warden, signal.SIGSTOP)
        begin = time.monotonic()
        while run.lives and time.monotonic() - begin < 60:
            with contextlib.suppress(ProcessLookupError):
                os.kill(warden, signal.SIGSTOP)  # again, as the engine continues it
            time.sleep(0.001)
        assert run.wait(1) == 0, run.output
        assert run.told["failed"] == 2
        run.gone()


@pytest.mark.parametrize("stopped", [["warden"], ["guard"], ["warden", "guard"]])
def test_a_killed_engine_leaves_nothing_though_its_wardens_are_stopped(
    tmp_path: Path, stopped: list[str]
) -> None:
    scene = Scene(tmp_path, function="with_child", tasks=4, pace=600.0)
    with engine(scene) as victim:
        assert victim.until_started(2)
        for pid in [getattr(victim, which)() for which in stopped]:
            os.kill(pid, signal.SIGSTOP)
        victim.kill()
    assert finish(scene.slower(0.0))["completed"] == 4


def test_nobody_waits_for_a_stream_of_a_killed_engine(tmp_path: Path) -> None:
    scene = Scene(tmp_path, function="with_child", tasks=4, pace=600.0)
    command = ["sh", "-c", '"$@" | cat', "sh", *scene.command()]
    with engine(scene, command=command) as shell:
        assert shell.until_started(2)
        pid = next(p.pid for p in psutil.Process(shell.pid).children() if _is_engine(p))
        warden = next(p for p in psutil.Process(pid).children(recursive=False))
        for process in (warden, *warden.children()):
            process.suspend()
        os.kill(pid, signal.SIGKILL)
        shell.process.wait(PROMPTLY)
        shell.gone()


def _is_engine(process: psutil.Process) -> bool:
    return any(word.endswith("chaos_engine.py") for word in process.cmdline())


def test_a_warden_holds_none_of_its_engine_s_streams(tmp_path: Path) -> None:
    scene = Scene(tmp_path, function="steady", tasks=2, pace=600.0)
    with engine(scene) as run:
        assert run.until_started(2)
        streams = {Path(f"/proc/{run.pid}/fd/{number}").readlink() for number in (1, 2)}
        for pid in (run.warden(), run.guard()):
            held = {Path(f"/proc/{pid}/fd/{number}").readlink() for number in (0, 1, 2)}
            assert not held & streams, held
        run.kill()


@pytest.mark.parametrize("also", [[], ["warden"], ["guard"], ["warden", "guard"]])
def test_a_worker_inside_c_code_ends_with_its_engine(tmp_path: Path, also: list[str]) -> None:
    scene = Scene(tmp_path, function="deaf", tasks=2, pace=600.0)
    with engine(scene) as victim:
        assert victim.until_started(2)
        for pid in [getattr(victim, which)() for which in also]:
            os.kill(pid, signal.SIGKILL)
        victim.kill()


def test_one_ctrl_c_and_another_are_enough_though_the_warden_is_stopped(tmp_path: Path) -> None:
    scene = Scene(tmp_path, function="steady", tasks=4, pace=600.0)
    with engine(scene) as run:
        assert run.until_started(2)
        os.kill(run.warden(), signal.SIGSTOP)
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        run.process.send_signal(signal.SIGINT)
        try:
            run.process.wait(PROMPTLY)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {run.output}") from None
        run.gone()


def test_workers_that_end_while_others_are_renewed_are_all_replaced(tmp_path: Path) -> None:
    options = {"recycle": 1, "crash_attempts": 1}
    scene = Scene(tmp_path, "leaves", tasks=45, workers=4, options=options)
    with engine(scene) as run:
        assert run.wait(60) == 0, run.output
        assert (run.told["completed"], run.told["failed"]) == (30, 15)
        run.gone()

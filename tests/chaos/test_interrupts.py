"""Ctrl-C once, twice and SIGTERM, in a real terminal, through a script and the command line."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaos_run import PROMPTLY, Scene, assert_sound, finish, photograph, unbroken
from chaos_terminal import CTRL_C, terminal
from polling import eventually

from runyard.backends import NAMES

slow = pytest.mark.slow


def by_script(scene: Scene) -> list[str]:
    """A script that calls `run` and knows nothing of signals."""
    script = scene.folder / "script.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(
        "import runyard as ry\n"
        f"batch = ry.grid('chaos_tasks:{scene.function}', x=range({scene.tasks}), "
        f"seed={scene.seed}, name={scene.name!r})\n"
        f"print(ry.run(batch, yard={str(scene.yard)!r}, backend={scene.backend!r}, "
        f"workers={scene.workers}).summary())\n"
    )
    return [sys.executable, str(script)]


def by_command_line(scene: Scene) -> list[str]:
    """The same through `runyard run`."""
    return [
        sys.executable, "-m", "runyard", "run", f"chaos_tasks:{scene.function}",
        "--grid", f"x=0..{scene.tasks - 1}", "--seed", str(scene.seed), "--name", scene.name,
        "--yard", str(scene.yard), "--backend", scene.backend, "--workers", str(scene.workers),
    ]  # fmt: skip


WAYS = [by_script, by_command_line]
Way = Callable[[Scene], list[str]]
QUICK = {(by_script, name) for name in NAMES if name != "ray"} | {(by_command_line, "processes")}


def places(quick: set[tuple[Way, str]]) -> list[Any]:
    """Every way on every backend; all but some are for the slow tests."""
    return [
        pytest.param(way, backend, marks=[] if (way, backend) in quick else [slow])
        for way in WAYS
        for backend in NAMES
    ]


ENGINES = ["processes", "serial", *(pytest.param(n, marks=slow) for n in ("threads", "async"))]
"""Workers in processes, tasks in the engine's own thread, and what is between them."""


def goes_on(scene: Scene) -> None:
    """The batch resumes to the digest that it would have had."""
    assert finish(scene.slower(0.0))["digest"] == unbroken(scene)
    assert_sound(scene)


# By script on the other backends, it is the fourth promise's own test.
@pytest.mark.parametrize(("way", "backend"), places({(way, "processes") for way in WAYS}))
def test_ctrl_c_once_finishes_what_runs_and_keeps_it(
    tmp_path: Path, way: Way, backend: str
) -> None:
    scene = Scene(tmp_path, tasks=500, pace=0.02, backend=backend)
    with terminal(scene, way(scene)) as shown:
        shown.until_started(20)
        shown.press(CTRL_C)
        assert shown.wait() == 130, shown.end
        shown.assert_gone()
        shown.assert_intact()
        kept = photograph(scene.yard)
        assert 20 <= len(kept.outcomes) < scene.tasks
        assert set(scene.executions()) == kept.tasks, "something that ran was not kept"
        assert kept.engines == []
        if way is by_command_line:
            assert "resume" in shown.text
    kept.assert_within(photograph(scene.yard))
    goes_on(scene)


@pytest.mark.parametrize(("way", "backend"), places(QUICK))
def test_ctrl_c_twice_ends_at_once(tmp_path: Path, way: Way, backend: str) -> None:
    scene = Scene(tmp_path, tasks=500, backend=backend)
    part = _part(scene)
    slow = scene.slower(600.0)
    with terminal(slow, way(slow)) as shown:
        shown.until_started(part + 1)
        time.sleep(0.5)  # Python hears a signal late that comes just before a blocking call
        shown.press(CTRL_C)
        assert eventually(lambda: "Ctrl-C again" in shown.text), shown.end
        assert shown.process.poll() is None
        begin = time.monotonic()
        shown.press(CTRL_C)
        assert shown.wait() == 130, shown.end
        assert time.monotonic() - begin < PROMPTLY
        shown.assert_gone()
        shown.assert_intact()
    goes_on(scene)


INT, TERM = signal.SIGINT, signal.SIGTERM
DELAYS = [
    [(0.01, INT)],
    [(0.1, INT), (0.03, INT)],
    [(0.03, INT), (0.05, INT), (0.02, TERM)],
    [(0.2, INT)],
    [(0.06, TERM)],
    [(0.15, INT), (0.1, TERM)],
]
"""After a first Ctrl-C: so many seconds later another signal, and so on."""


def is_undisturbed(scene: Scene, delays: list[tuple[float, signal.Signals]], first: int) -> None:
    """Signals that follow the first one change nothing of how the program ends.

    Which of two is the first is only certain where the program has run between them: the kernel
    delivers waiting signals in the order of their numbers.
    """
    with terminal(scene, by_command_line(scene)) as shown:
        shown.until_started(scene.started() + 5)
        before = photograph(scene.yard)
        os.kill(shown.pid, first)
        for seconds, number in delays:
            time.sleep(seconds)  # the moment is what this is about
            if shown.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(shown.pid, number)
        together = {number for seconds, number in delays[:1] if seconds < 0.1}
        assert shown.wait() - 128 in {first} | together, (delays, shown.end)
        assert "Traceback" not in shown.text, (delays, shown.text)
        assert "Exception" not in shown.text, (delays, shown.text)
        assert shown.text.count("runyard resume") == 1, (delays, shown.text)
        shown.assert_gone()
        shown.assert_intact()
    kept = photograph(scene.yard)
    before.assert_within(kept)
    assert kept.engines == []


@pytest.mark.parametrize("backend", ENGINES)
def test_signals_after_the_first_disturb_nothing(tmp_path: Path, backend: str) -> None:
    scene = Scene(tmp_path, tasks=2000, pace=0.02, backend=backend)
    for turn, delays in enumerate(DELAYS):
        is_undisturbed(scene, delays, TERM if turn == 2 else INT)
    goes_on(scene)


@slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", ["processes", "threads", "async", "serial"])
def test_signals_at_any_moment_after_the_first_disturb_nothing(
    tmp_path: Path, backend: str
) -> None:
    scene, lot = Scene(tmp_path, tasks=20_000, pace=0.01, backend=backend), random.Random(7)
    for _ in range(60):
        count = lot.randint(1, 3)
        delays = [(lot.uniform(0.001, 0.3), lot.choice([INT, INT, TERM])) for _ in range(count)]
        is_undisturbed(scene, delays, lot.choice([INT, INT, TERM]))
    goes_on(scene)


@pytest.mark.parametrize("way", WAYS)
def test_sigterm_finishes_what_runs_and_keeps_it(tmp_path: Path, way: Way) -> None:
    scene = Scene(tmp_path, tasks=500, pace=0.02)
    with terminal(scene, way(scene)) as shown:
        shown.until_started(20)
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait() == 143, shown.end
        shown.assert_gone()
        shown.assert_intact()
        assert set(scene.executions()) == photograph(scene.yard).tasks
    goes_on(scene)


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_before_anything_runs_leaves_nothing(tmp_path: Path, way: Way) -> None:
    scene = Scene(tmp_path, tasks=500)
    with terminal(scene, way(scene)) as shown:
        assert eventually(lambda: (scene.yard / "yard.db").exists()), shown.end
        shown.press(CTRL_C)
        assert shown.wait() in (0, 130), shown.end
        shown.assert_gone()
        shown.assert_intact()
    goes_on(scene)


def _part(scene: Scene) -> int:
    """Let some of the batch be done, so that there is something to keep."""
    quick = scene.slower(0.02)
    with terminal(quick, by_script(quick)) as shown:
        shown.until_started(5)
        shown.press(CTRL_C)
        assert shown.wait() == 130, shown.end
    return scene.started()

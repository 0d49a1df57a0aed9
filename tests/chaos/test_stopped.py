"""SIGSTOP of an engine, and of all it started: what passes meanwhile counts for no task."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chaos_run import Scene, engine, family

from runyard import Yard


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """These processes don't run meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_tasks_that_ended_while_their_engine_was_stopped_are_in_time(tmp_path: Path) -> None:
    """Their reports fill the channel, so that the worker waits with the last of them."""
    scene = Scene(tmp_path, function="bulky", tasks=160, pace=0.02, options={"timeout": 1.0})
    with engine(scene) as paused:
        assert paused.until_started(102)
        with stopped(paused.pid):
            time.sleep(2.5)
        assert paused.wait() == 0, paused.output
        assert (paused.told["completed"], paused.told["failed"]) == (scene.tasks, 0)


@pytest.mark.parametrize("backend", ["processes", "threads", "async", "serial"])
def test_a_stop_of_everything_counts_for_no_task(tmp_path: Path, backend: str) -> None:
    options = {"timeout": 1.2}
    scene = Scene(tmp_path, "steady", tasks=4, pace=0.6, backend=backend, options=options)
    with engine(scene) as paused:
        assert paused.until_started(2)
        with stopped(*family(paused.mark)):
            time.sleep(2.0)
        assert paused.wait() == 0, paused.output
        assert (paused.told["completed"], paused.told["failed"]) == (scene.tasks, 0)
    with Yard(scene.yard) as yard:
        seconds = yard.results(scene.name).stats.seconds
    assert seconds < scene.tasks * scene.pace + 2.0, "the stop counts as time of the batch"

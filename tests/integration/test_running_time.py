"""How long a batch took: the time during which at least one engine ran it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from databases import postgres_url
from polling import eventually
from running import meanwhile
from sample_tasks import fails, held, wait_for

import runyard as ry
from runyard import clock

HELPERS = str(Path(__file__).parents[1] / "helpers")


class Jump:
    """Monotonic time that a test can move on."""

    def __init__(self) -> None:
        self.by = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.by


@contextmanager
def jumping() -> Iterator[Jump]:
    jump = Jump()
    with clock.replaced(mono=jump):
        yield jump


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return postgres_url() if request.param == "postgres" else str(tmp_path / "yard")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_FILES", str(tmp_path / "files"))


def seconds(yard: ry.Yard) -> float:
    return yard.recorded("b").row.seconds


def test_the_time_of_engines_that_run_at_once_counts_once(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    folder.mkdir()
    batch = ry.grid(held, params={"folder": str(folder)}, x=range(200), name="b", seed=7)

    def engines(yard: ry.Yard) -> int:
        with yard.store.snapshot() as view:
            return len(view.engines())

    def join() -> None:
        with ry.Yard(location) as other:
            other.run(batch, backend="serial", progress=False)

    def let_both_run() -> None:
        with ry.Yard(location) as third:
            assert wait_for(str(folder), "started-0")
            jump.by += 100
            with meanwhile(join):
                assert eventually(lambda: engines(third) == 2)
                jump.by += 1000
                (folder / "release").touch()

    with jumping() as jump, ry.Yard(location) as yard:
        with meanwhile(let_both_run):
            yard.run(batch, backend="serial", progress=False)
        assert yard.results("b").stats.completed == 200
        assert 1000 < seconds(yard) < 1600  # 2,100 if each counted for itself


def test_the_time_between_two_runs_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "release").touch()
    batch = ry.grid(held, params={"folder": str(tmp_path)}, x=range(20), name="b", seed=7)
    with jumping() as jump, ry.Yard(tmp_path / "yard") as yard:
        yard.run(batch, backend="serial", budget={"tasks": 10})
        jump.by += 1000
        yard.run(batch, backend="serial")
        assert 0 < seconds(yard) < 500


def test_a_budget_of_minutes_counts_what_earlier_runs_took(tmp_path: Path) -> None:
    folder = str(tmp_path)
    batch = ry.grid(held, params={"folder": folder}, x=range(20), name="b", seed=7)

    def take_long() -> None:
        assert wait_for(folder, "started-0")
        jump.by += 90  # well over a minute, even where pauses of a busy machine are left out
        (tmp_path / "release").touch()

    with jumping() as jump, ry.Yard(tmp_path / "yard") as yard:
        with meanwhile(take_long):
            first = yard.run(batch, backend="serial", budget={"minutes": 1})
        done = first.stats.done
        assert (first.end, done < 20) == ("budget", True)
        again = yard.run(batch, backend="serial", budget={"minutes": 1})
        assert (again.end, again.stats.done) == ("budget", done)
        assert yard.run(batch, backend="serial", budget={"minutes": 5}).stats.done == 20


def test_the_time_of_a_task_that_takes_long_is_on_record_while_it_runs(tmp_path: Path) -> None:
    batch = ry.grid(held, params={"folder": str(tmp_path)}, x=[0], name="b", seed=7)

    def look() -> None:
        try:
            assert wait_for(str(tmp_path), "started-0")
            jump.by += 1000
            with ry.Yard(tmp_path / "yard") as other:
                assert eventually(lambda: seconds(other) >= 1000)
        finally:
            (tmp_path / "release").touch()

    with jumping() as jump, ry.Yard(tmp_path / "yard") as yard, meanwhile(look):
        yard.run(batch, backend="threads", workers=1)


def test_the_time_of_an_engine_that_was_killed_counts_up_to_its_last_commit(
    yard: ry.Yard, tmp_path: Path
) -> None:
    script = """
import sys
sys.path.insert(0, sys.argv[3])
from sample_engines import counted_batch
import runyard as ry
ry.run(counted_batch(sys.argv[2]), yard=sys.argv[1], backend="serial", progress=False)
"""
    engine = subprocess.Popen([sys.executable, "-c", script, yard.location, str(tmp_path), HELPERS])

    def done() -> int:
        return sum(result.stats.done for result in yard.status())

    try:
        assert eventually(lambda: done() > 20)
    finally:
        engine.send_signal(signal.SIGKILL)
        engine.wait(timeout=60)
    result = yard.results("shared")
    started = [outcome.started for outcome in result.outcomes()]
    assert 0 < len(started) < 1500
    assert result.stats.seconds > max(started) - min(started)
    assert "in 0.00 s" not in result.headline()


def test_the_time_of_a_batch_counts_up_to_its_cancel_while_nothing_runs(tmp_path: Path) -> None:
    batch = ry.grid(fails, x=[1], name="b", seed=7).with_options(retries=1, backoff=60)

    def cancel() -> None:
        with ry.Yard(tmp_path / "yard") as other:
            assert eventually(lambda: is_waiting(other))
            jump.by += 30
            other.cancel("b")

    def is_waiting(yard: ry.Yard) -> bool:
        with yard.store.snapshot() as view:
            row = view.batch("b")
            return row is not None and len(view.attempts(row.id)) == 1

    with jumping() as jump, ry.Yard(tmp_path / "yard") as yard, meanwhile(cancel):
        assert yard.run(batch, backend="serial", progress=False).stats.cancelled == 1
        assert seconds(yard) > 30

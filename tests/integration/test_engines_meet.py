"""Several engines on one yard: what one leaves behind, another goes on with."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from polling import eventually
from running import meanwhile
from sample_tasks import noted, notes, say, seeded_first_held, wait_for

import runyard as ry
from runyard.attempt.lane_status import LaneStatusFile
from runyard.errors import UsageError
from runyard.schedule.sweep import run_folder
from runyard.spec.outcome import ErrorInfo
from runyard.store.rows import AttemptRow

ENGINE = """
import sys
import runyard as ry
from runyard.events import TaskRetried
sys.path.insert(0, sys.argv[3])
from sample_engines import batch_of

def tell(event):
    if isinstance(event, TaskRetried):
        print("retried", flush=True)

yard = ry.Yard(sys.argv[1])
print("begun", flush=True)
yard.run(batch_of(sys.argv[2]), backend="serial", on_event=tell, retries=3, backoff=600,
         backoff_max=600)
"""


def test_a_living_engine_takes_over_from_one_that_was_killed_with_its_attempts(
    yard: ry.Yard, tmp_path: Path
) -> None:
    from sample_engines import batch_of

    gate = tmp_path / "gate"
    gate.mkdir()
    helpers = str(Path(__file__).parents[1] / "helpers")
    first = subprocess.Popen(
        [sys.executable, "-c", ENGINE, yard.location, str(gate), helpers],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert first.stdout is not None

    def kill_it_when_the_second_one_is_there() -> None:
        def engines() -> int:
            with yard.store.snapshot() as view:
                return len(view.engines())

        assert eventually(lambda: engines() == 2)
        first.send_signal(signal.SIGKILL)
        first.wait()

    try:
        assert first.stdout.readline() == "begun\n"
        assert first.stdout.readline() == "retried\n"
        name = batch_of(str(gate)).name
        assert name is not None
        assert eventually(lambda: attempts_of(yard, name))
        with meanwhile(kill_it_when_the_second_one_is_there):
            result = yard.run(
                batch_of(str(gate)), backend="threads", workers=1, retries=3, backoff=0.001,
                deadline="30s",
            )  # fmt: skip
    finally:
        first.kill()
        first.communicate()
    assert result.end == "finished"
    assert list(result.values()) == [1]
    assert [row.number for row in attempts_of(yard, name)] == [1]


def attempts_of(yard: ry.Yard, name: str) -> list[AttemptRow]:
    with yard.store.snapshot() as view:
        found = view.batch(name)
        return [] if found is None else view.attempts(found.id)


def test_a_listed_task_that_killed_its_engines_takes_its_followers_along(
    yard: ry.Yard, tmp_path: Path
) -> None:
    folder = str(tmp_path)
    batch = ry.tasks(
        [
            ry.Task(noted, {"folder": folder, "x": "poison"}, "poison"),
            ry.Task(noted, {"folder": folder, "x": "after"}, "after", after=("poison",)),
            ry.Task(noted, {"folder": folder, "x": "other"}, "other"),
        ],
        name="b",
        seed=7,
    )
    yard.submit(batch)
    error = ErrorInfo("WorkerDied", "", "", "").encode()
    with yard.store.transaction() as tx:
        found = tx.batch("b")
        assert found is not None
        dead = tx.sign_on("host", 1, "serial", 1)
        assert tx.claim(found.id, dead, 9) is not None
        tx.add_attempts([AttemptRow(found.id, 0, n, 1, error, 1.0, 1.0) for n in (1, 2)])
    lane_status = LaneStatusFile(run_folder(yard.folder) / f"{dead}.slots", 1, create=True)
    lane_status.writer(0)(found.id, 0, 0, 1, perf_counter())
    lane_status.close()
    result = yard.run(batch, backend="serial", deadline="10s")
    assert result.end == "finished"
    assert [str(o.status) for o in result.outcomes()] == ["failed", "cancelled", "completed"]
    assert [o.error.kind for o in result.outcomes() if o.error] == [
        "WorkerDied",
        "DependencyFailed",
    ]
    assert notes(folder) == ["other"]
    assert list(run_folder(yard.folder).iterdir()) == []


def test_an_engine_that_was_only_paused_keeps_its_files(yard: ry.Yard, tmp_path: Path) -> None:
    """Its lease has run out, and its process is still there."""
    folder = run_folder(yard.folder)
    with yard.store.transaction() as tx:
        paused = tx.sign_on(socket.gethostname(), os.getpid(), "processes", 1)
    (folder / f"{paused}.slots").write_bytes(bytes(64))
    yard.run(ry.grid(noted, params={"folder": str(tmp_path)}, x=[1]), backend="serial")
    assert [path.name for path in folder.iterdir()] == [f"{paused}.slots"]
    with yard.store.snapshot() as view:
        assert view.engines() == []


def test_what_a_dead_engine_left_is_swept_and_a_living_ones_is_not(
    yard: ry.Yard, tmp_path: Path
) -> None:
    folder = run_folder(yard.folder)
    with yard.store.transaction() as tx:
        dead, living = (tx.sign_on("host", 1, "processes", 1) for _ in range(2))
    yard.store.acquire_liveness(living)
    for number in (dead, living):
        (folder / f"{number}.slots").write_bytes(bytes(64))
        (folder / f"{number}-0.stdout").write_text("x")
    (folder / f"{dead}{dead}.slots").write_bytes(bytes(64))
    yard.run(ry.grid(noted, params={"folder": str(tmp_path)}, x=[1]), backend="serial")
    left = {path.name for path in folder.iterdir()}
    its = {f"{living}.alive", f"{living}.slots", f"{living}-0.stdout"}
    assert left == its | {f"{dead}{dead}.slots"}
    with yard.store.snapshot() as view:
        assert [row.id for row in view.engines()] == [living]
    yard.store.release_liveness(living)


def test_an_engine_that_joins_does_not_take_back_what_the_others_have_yet_to_hear(
    yard: ry.Yard, tmp_path: Path
) -> None:
    batch = ry.grid(noted, params={"folder": str(tmp_path)}, x=range(1000), name="b")
    yard.submit(batch)
    with yard.store.transaction() as tx:
        found = tx.batch("b")
        assert found is not None
        other = tx.sign_on("host", 1, "serial", 1)
        yard.store.acquire_liveness(other)
        tx.update_engine(other, batch=found.id)
    assert yard.cancel("b") == 1000
    batch = ry.grid(noted, params={"folder": str(tmp_path)}, x=range(1001), name="b")
    assert yard.run(batch, backend="serial").end == "cancelled"
    assert yard.results("b").stats.cancelled == 1001
    yard.store.release_liveness(other)
    yard.retry("b", "cancelled")
    with yard.store.transaction() as tx:
        tx.update_batch(found.id, control="cancel")  # nobody is there to hear it
    assert yard.run(batch, backend="serial").end == "finished"
    assert len(notes(str(tmp_path))) == 1001


@pytest.mark.parametrize("backend", ["serial", "threads", "processes"])
def test_an_engine_whose_batch_grows_beside_it_does_the_new_tasks_as_they_are(
    yard: ry.Yard, tmp_path: Path, backend: str
) -> None:
    folder = str(tmp_path)

    def batch(xs: list[int], replicates: int) -> ry.Batch:
        return ry.grid(
            seeded_first_held, params={"folder": folder}, name="b", seed=7, replicates=replicates,
            x=xs, y=[0, 1],
        )  # fmt: skip

    def grow_it() -> None:
        assert wait_for(folder, "started-0")
        yard.submit(batch([1, 2, 3], 4))
        say(folder, "release")

    with meanwhile(grow_it):
        result = yard.run(batch([1, 2], 3), backend=backend, workers=1)
    assert (result.end, result.stats.completed) == ("finished", 24)
    for outcome in result.outcomes():
        assert outcome.value[:2] == [outcome.params["x"], outcome.params["y"]]
    with ry.Yard("memory:") as other:
        again = other.run(batch([1, 2, 3], 4), backend="serial")
    assert sorted(result.values()) == sorted(again.values())


def test_two_engines_in_two_processes_run_each_task_once(yard: ry.Yard, tmp_path: Path) -> None:
    from sample_engines import counted_batch

    script = """
import sys
import runyard as ry
sys.path.insert(0, sys.argv[3])
from sample_engines import counted_batch
result = ry.run(counted_batch(sys.argv[2]), yard=sys.argv[1], backend="threads", workers=2)
print(result.end, result.stats.done)
"""
    helpers = str(Path(__file__).parents[1] / "helpers")
    other = subprocess.Popen(
        [sys.executable, "-c", script, yard.location, str(tmp_path), helpers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    result = yard.run(counted_batch(str(tmp_path)), backend="threads", workers=2)
    out, err = other.communicate(timeout=60)
    assert (out, err) == ("finished 1500\n", "")
    assert result.end == "finished"
    assert Counter(notes(tmp_path)) == {str(x): 1 for x in range(1500)}


def test_a_running_batch_is_not_forgotten_nor_started_afresh(yard: ry.Yard, tmp_path: Path) -> None:
    from sample_tasks import held

    batch = ry.grid(held, params={"folder": str(tmp_path)}, x=[0, 1], name="b", seed=7)

    def interfere() -> None:
        try:
            assert eventually((tmp_path / "started-0").exists)
            with ry.Yard(yard.location) as other:
                with pytest.raises(UsageError, match="running"):
                    other.clear("b")
                with pytest.raises(UsageError, match="running"):
                    other.run(batch, backend="serial", fresh=True)
        finally:
            (tmp_path / "release").touch()

    with meanwhile(interfere):
        result = yard.run(batch, backend="threads", workers=1)
    assert result.stats.completed == 2


def test_an_engines_row_says_what_it_does(yard: ry.Yard, tmp_path: Path) -> None:
    from sample_tasks import held

    seen: list[Any] = []

    def interfere() -> None:
        def looks_busy() -> bool:
            with ry.Yard(yard.location) as other:
                stats = other.results("b").stats
                seen.append(stats)
                return stats.running == 2

        try:
            assert eventually((tmp_path / "started-0").exists)
            assert eventually(looks_busy)
        finally:
            (tmp_path / "release").touch()

    with meanwhile(interfere):
        yard.run(
            ry.grid(held, params={"folder": str(tmp_path)}, x=range(6), name="b"),
            backend="threads", workers=2,
        )  # fmt: skip
    assert (seen[-1].total, seen[-1].workers, seen[-1].queued) == (6, 2, 4)
    after = yard.results("b").stats
    assert (after.running, after.workers, after.completed) == (0, 0, 6)

"""Deaths on a Ray cluster affect the running tasks only, and nothing that is recorded."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from polling import eventually
from ray_kit import Head, left_of, without_ray
from ray_tasks import heavy, notes, patient
from running import meanwhile

import runyard as ry
from runyard.events import Event, Notice, WorkerLost

TASKS = 40


def batch(folder: Path, tasks: int = TASKS) -> ry.Batch:
    return ry.grid(patient, params={"folder": str(folder)}, x=range(tasks), seed=7, name="patient")


def digest_of(batch: ry.Batch) -> str | None:
    """The digest of an uninterrupted serial run."""
    with ry.Yard("memory:") as yard:
        return yard.run(batch, backend="serial").digest


def hurried(folder: Path, tasks: int = TASKS) -> str | None:
    (folder / "hurry").touch()
    return digest_of(batch(folder, tasks))


def run(yard: ry.Yard, batch: ry.Batch, head: Head, **options: Any) -> ry.Result:
    return yard.run(batch, backend="ray", ray_address=head.address, **options)


def actor_of(pid: int) -> psutil.Process:
    """The actor above a worker."""
    return next(p for p in psutil.Process(pid).parents() if p.name().startswith("ray::"))


def test_a_worker_and_an_actor_that_are_killed_cost_what_they_were_running(
    yard: ry.Yard, tmp_path: Path, ray_head: str
) -> None:
    def interfere() -> None:
        assert eventually(lambda: len(notes(tmp_path)) > 4)
        os.kill(notes(tmp_path)[-1][1], signal.SIGKILL)
        seen = len(notes(tmp_path))
        assert eventually(lambda: len(notes(tmp_path)) > seen + 4)
        actor_of(notes(tmp_path)[-1][1]).kill()
        (tmp_path / "hurry").touch()

    lost: list[WorkerLost] = []
    with meanwhile(interfere):
        result = yard.run(
            batch(tmp_path), backend="ray", workers=2,
            on_event=lambda e: lost.append(e) if isinstance(e, WorkerLost) else None,
        )  # fmt: skip
    assert result.stats.completed == TASKS
    assert len(lost) == 2
    assert "SIGKILL" in lost[0].reason
    assert "its process" in lost[1].reason
    assert result.digest == hurried(tmp_path)


def test_what_a_task_writes_into_its_workers_channel_is_dropped(
    yard: ry.Yard, ray_head: str
) -> None:
    def task(x: int) -> int:
        for descriptor in range(3, 4096) if x == 3 else ():
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"no report")
        return x

    events: list[Event] = []
    result = yard.run(ry.grid(task, x=range(20)), backend="ray", workers=1, on_event=events.append)
    assert list(result.values()) == list(range(20))
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("a file descriptor that it did not open" in text for text in notices)


def test_a_node_that_dies_costs_what_it_ran_and_one_that_joins_is_used(
    yard: ry.Yard, tmp_path: Path
) -> None:
    def on(node: str) -> int:
        return sum(1 for where, _, _ in notes(tmp_path) if where == node)

    with Head(cpus=1) as head:
        head.add(num_cpus=2, env_vars={"TEST_NODE": "first"})

        def interfere() -> None:
            assert eventually(lambda: on("first") > 3)
            head.kill(1)
            head.add(num_cpus=2, env_vars={"TEST_NODE": "second"})
            assert eventually(lambda: on("second") > 3)
            (tmp_path / "hurry").touch()

        with meanwhile(interfere):
            result = run(yard, batch(tmp_path, 400), head, crash_attempts=1)
    assert result.stats.completed == 400  # with crash_attempts=1, a charge would be a failure
    twice = sum(1 for times in Counter(x for *_, x in notes(tmp_path)).values() if times > 1)
    assert twice <= 4  # what two lanes held
    assert result.digest == hurried(tmp_path, 400)


def test_results_of_megabytes_pass_through_a_small_object_store(yard: ry.Yard) -> None:
    large = ry.grid(heavy, x=range(24), seed=7)
    with Head(cpus=4, object_store_memory=80_000_000) as head:
        result = run(yard, large, head)
    assert result.stats.completed == 24
    assert result.digest == digest_of(large)


def command(*words: str, cwd: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runyard", *words], cwd=cwd, text=True, env=without_ray(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def started(folder: Path, *place: str) -> subprocess.Popen[str]:
    """A run from the command line, in a folder with the code of its tasks."""
    source = Path(__file__).parents[2] / "helpers" / "ray_tasks.py"
    (folder / "ray_tasks.py").write_text(source.read_text())
    return command(
        "run", "ray_tasks:patient", "--set", f"folder={folder}", "--grid", f"x=0..{TASKS - 1}",
        "--seed", "7", "--name", "patient", "--backend", "ray", "--no-progress", *place, cwd=folder,
    )  # fmt: skip


def resumed(folder: Path, *place: str) -> dict[str, Any]:
    (folder / "hurry").touch()
    process = command("resume", "patient", "--json", "--no-progress", *place, cwd=folder)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def recorded(folder: Path) -> int:
    with ry.Yard(folder / ".runyard") as yard:
        return yard.results("patient").stats.completed


def test_a_killed_engine_leaves_nothing_running_and_another_cluster_continues(
    tmp_path: Path,
) -> None:
    with Head(cpus=2) as head:
        engine = started(tmp_path, "--ray-address", head.address)
        assert eventually(lambda: len(notes(tmp_path)) > 10)
        actors = {actor_of(pid) for _, pid, _ in notes(tmp_path)[-2:] if psutil.pid_exists(pid)}
        engine.kill()
        engine.communicate()
        assert eventually(lambda: not any(_runs(actor) for actor in actors))
        assert eventually(lambda: not any(psutil.pid_exists(pid) for _, pid, _ in notes(tmp_path)))
    before = recorded(tmp_path)
    assert 0 < before < TASKS
    with Head(cpus=2) as head:
        found = resumed(tmp_path, "--backend", "ray", "--ray-address", head.address)
    assert (found["completed"], found["digest"]) == (TASKS, hurried(tmp_path))


def test_the_loss_of_the_head_ends_the_run_and_a_resume_continues(tmp_path: Path) -> None:
    with Head(cpus=2) as head:
        engine = started(tmp_path, "--ray-address", head.address)
        assert eventually(lambda: len(notes(tmp_path)) > 10)
        head.kill(0)
        _, err = engine.communicate(timeout=60)
    assert engine.returncode == 3, err
    assert "Ray" in err
    assert "resume" in err
    assert "Traceback" not in err
    assert 0 < recorded(tmp_path) < TASKS
    assert eventually(lambda: not left_of(str(tmp_path))), left_of(str(tmp_path))
    found = resumed(tmp_path, "--backend", "processes")
    assert (found["completed"], found["digest"]) == (TASKS, hurried(tmp_path))


def test_a_ray_of_its_own_ends_with_a_killed_engine(tmp_path: Path) -> None:
    engine = started(tmp_path)
    assert eventually(lambda: len(notes(tmp_path)) > 2, seconds=60)
    family = psutil.Process(engine.pid).children(recursive=True)
    assert any(process.name() == "raylet" for process in family)
    engine.kill()
    engine.communicate()
    assert eventually(lambda: not any(_runs(process) for process in family))


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


pytestmark = pytest.mark.timeout(180)

"""Resources of a cluster, where code and files are, and what happens without Ray."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from polling import eventually
from ray_kit import Head, far_node, without_ray
from ray_tasks import notes, patient, sleeps_with_child
from running import meanwhile
from sample_tasks import in_the_order_of_a_set

import runyard as ry
from runyard.errors import BackendError, UsageError
from runyard.events import Event, Notice

SOURCE = Path(__file__).parents[2] / "helpers" / "ray_tasks.py"


def notices(into: list[str]):
    def hear(event: Event) -> None:
        if isinstance(event, Notice):
            into.append(event.text)

    return hear


def double(x: int) -> int:
    return 2 * x


# Resources


def test_resources_that_no_node_has_are_an_error_that_names_them(
    yard: ry.Yard, ray_head: str
) -> None:
    with pytest.raises(BackendError) as caught:
        yard.run(ry.grid(double, x=range(4)), backend="ray", cpus=64, resources={"licence": 1})
    assert "64 CPU, 1 licence" in str(caught.value)
    assert "closest has 6 CPU" in str(caught.value)
    assert yard.status()[0].stats.done == 0


def test_a_run_waits_for_resources_in_use_and_can_be_stopped_meanwhile(
    yard: ry.Yard, ray_head: str, tmp_path: Path
) -> None:
    script = """
import ray, sys
ray.init()
ray.get(ray.util.placement_group([{"CPU": 6}]).ready())
print("taken", flush=True)
sys.stdin.read()
"""
    other = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    said: list[str] = []
    try:
        assert other.stdout is not None
        while other.stdout.readline().strip() != "taken":
            assert other.poll() is None

        def interfere() -> None:
            assert eventually(lambda: any("waiting for" in text for text in said), 120)
            with ry.Yard(yard.location) as beside:
                assert beside.stop() == 1

        with meanwhile(interfere):
            result = yard.run(
                ry.grid(double, x=range(4), name="d"), backend="ray", on_event=notices(said)
            )
        assert result.end == "stopped"
    finally:
        other.communicate("")
    assert yard.resume("d", backend="serial").stats.completed == 4


def test_a_batch_says_what_a_task_needs_and_its_environment(yard: ry.Yard, ray_head: str) -> None:
    def asks(x: int) -> tuple[str, str]:
        return os.environ["MODE"], os.environ.get("OMP_NUM_THREADS", "")

    result = yard.run(
        ry.grid(asks, x=range(4)), backend="ray", workers=2, cpus=2,
        runtime_env={"env_vars": {"MODE": "fast"}},
    )  # fmt: skip
    assert {tuple(value) for value in result.values()} == {("fast", "2")}
    assert result.recorded.options.cpus == 2


def test_on_other_backends_the_resources_of_a_task_are_a_notice(yard: ry.Yard) -> None:
    said: list[str] = []
    yard.run(ry.grid(double, x=[1]), backend="serial", cpus=2, gpus=1, on_event=notices(said))
    assert any("cpus, gpus has no effect on serial" in text for text in said)


# Code and files


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Head, Path]]:
    """A cluster whose only node with `far` has another disk where the project is."""
    project = tmp_path_factory.mktemp("project")
    shutil.copy(SOURCE, project / "far_tasks.py")
    with Head(cpus=0) as head, far_node(head.address, hidden=project, resources={"far": 2}):
        yield head, project


def test_code_is_sent_to_a_node_that_does_not_have_it_and_files_come_back(
    apart: tuple[Head, Path], tmp_path: Path
) -> None:
    head, project = apart
    words = ["run", "far_tasks:writes", "--grid", "x=0..19", "--name", "far", "--json"]
    words += ["--backend", "ray", "--ray-address", head.address, "--resource", "far=1"]
    words += ["--no-progress"]
    ended = subprocess.run(
        [sys.executable, "-m", "runyard", *words], cwd=project, capture_output=True, text=True,
        env=without_ray(), timeout=100, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["completed"] == 20
    with ry.Yard(project / ".runyard") as yard:
        result = yard.results("far")
        for outcome in result.outcomes():
            folder = yard.batch_folder("far") / "tasks" / str(outcome.task) / "0"
            assert not Path(outcome.value).is_relative_to(project)
            assert not Path(outcome.value).exists()
            made = folder / "workspace" / "made.txt"
            assert made.read_text() == f"made by {outcome.params['x']}"
            printed = yard.printed("far", outcome.task)[0].stdout
            assert printed == f"printed by {outcome.params['x']}\n"
            assert not (folder / "stdout").exists()
        words[1], words[5] = "far_tasks:placed", "placed"
    subprocess.run(
        [sys.executable, "-m", "runyard", *words], cwd=project, capture_output=True, check=True,
        env=without_ray(), timeout=100,
    )  # fmt: skip
    with ry.Yard(project / ".runyard") as yard:
        places = set(yard.results("placed").values())
    assert all(Path(place).name == "far_tasks.py" for place in places)
    assert not any(Path(place).is_relative_to(project) for place in places)


def test_the_order_of_a_set_is_that_of_workers_everywhere(
    yard: ry.Yard, ray_head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    batch = ry.grid(in_the_order_of_a_set, x=range(10), seed=1, name="b")
    command = ry.grid(ry.shell("echo ${{PYTHONHASHSEED}}-{x}"), x=[1], name="c")

    def digests(backend: str) -> list[str | None]:
        runs = (yard.run(each, backend=backend, workers=2, fresh=True) for each in (batch, command))
        return [result.digest for result in runs]

    assert digests("ray") == digests("processes")
    monkeypatch.setenv("PYTHONHASHSEED", "12")
    assert digests("ray") == digests("processes")


# Ends


def test_a_task_out_of_time_or_cancelled_ends_with_all_its_processes(
    yard: ry.Yard, tmp_path: Path, ray_head: str
) -> None:
    def pids() -> list[int]:
        path = tmp_path / "pids"
        return [int(word) for word in path.read_text().split()] if path.exists() else []

    hangs = ry.grid(sleeps_with_child, params={"folder": str(tmp_path)}, x=[0], name="hangs")
    result = yard.run(hangs, backend="ray", workers=1, timeout=0.5)
    assert [o.error.kind for o in result.outcomes() if o.error] == ["TaskTimeout"]
    assert eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids()))
    (tmp_path / "pids").unlink()

    def interfere() -> None:
        assert eventually(lambda: len(pids()) == 2)
        with ry.Yard(yard.location) as beside:
            beside.cancel("again")

    again = ry.grid(sleeps_with_child, params={"folder": str(tmp_path)}, x=[0], name="again")
    with meanwhile(interfere):
        result = yard.run(again, backend="ray", workers=1)
    assert result.stats.cancelled == 1
    assert eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids()))


def test_an_interrupt_finishes_what_runs_and_exits_130(tmp_path: Path, ray_head: str) -> None:
    shutil.copy(SOURCE, tmp_path / "ray_tasks.py")
    engine = subprocess.Popen(
        [sys.executable, "-m", "runyard", "run", "ray_tasks:patient", "--set", f"folder={tmp_path}",
         "--grid", "x=0..199", "--name", "p", "--backend", "ray", "--workers", "2"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert eventually(lambda: len(notes(tmp_path)) > 5)
    os.killpg(engine.pid, signal.SIGINT)
    engine.communicate(timeout=60)
    assert engine.returncode == 130
    with ry.Yard(tmp_path / ".runyard") as yard:
        done = yard.results("p").stats.completed
        assert done == len(notes(tmp_path)) < 200


# Where Ray is not


NO_RAY = "import sys; sys.modules['ray'] = None; import runyard as ry\n"


def test_without_ray_an_error_says_how_to_get_it(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NO_RAY + "ry.map(lambda x: x, [1], backend='ray')"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Ray is not installed" in ended.stderr
    assert "pip install 'runyard[ray]'" in ended.stderr


def test_the_fallback_runs_where_ray_is_not_installed_or_does_not_answer(
    yard: ry.Yard, tmp_path: Path
) -> None:
    said: list[str] = []
    result = yard.run(
        ry.grid(double, x=range(5)), backend="ray", ray_address="127.0.0.1:1", fallback="serial",
        on_event=notices(said),
    )  # fmt: skip
    assert result.stats.completed == 5
    assert any("127.0.0.1:1" in text and "serial instead" in text for text in said)
    ended = subprocess.run(
        [sys.executable, "-c", NO_RAY + "print(ry.map(lambda x: x + 1, [1], backend='ray', "
         "fallback='serial', progress=False))"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stdout.strip() == "[2]", ended.stderr


def test_a_cluster_that_does_not_answer_is_named(yard: ry.Yard) -> None:
    with pytest.raises(BackendError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"):
        yard.run(ry.grid(double, x=[1]), backend="ray", ray_address="127.0.0.1:1")
    with pytest.raises(UsageError, match="fallback"):
        yard.run(ry.grid(double, x=[1]), backend="ray", fallback="threads")


def test_a_program_that_has_joined_a_cluster_runs_there(tmp_path: Path, ray_head: str) -> None:
    script = (
        "import os, ray, runyard as ry\n"
        f"ray.init(address={ray_head!r}, log_to_driver=False)\n"
        "os.environ.pop('RAY_ADDRESS', None)\n"
        "def f(x): return x + 1\n"
        "print(ry.map(f, [1, 2], backend='ray', workers=2, progress=False))\n"
        "from runyard.backends.ray.client import DriverClient\n"
        "print(DriverClient.warm._idle[0].is_local)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines() == ["[2, 3]", "False"], ended.stderr


def test_a_second_run_finds_warm_actors(yard: ry.Yard, ray_head: str, tmp_path: Path) -> None:
    (tmp_path / "hurry").touch()
    for name in ("one", "two"):
        yard.run(
            ry.grid(patient, params={"folder": str(tmp_path)}, x=range(20), name=name),
            backend="ray", workers=1,
        )  # fmt: skip
    assert len({pid for _, pid, _ in notes(tmp_path)}) == 1


pytestmark = pytest.mark.timeout(180)

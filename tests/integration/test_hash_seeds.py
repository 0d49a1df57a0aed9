"""The order of a set of strings is the same in every worker, run and backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sample_tasks import in_the_order_of_a_set

import runyard as ry
from runyard.backends.processes import close_pools
from runyard.events import Notice
from runyard.spec.hash_seed import own_seed

LOCAL = ["serial", "async", "threads", "processes"]
MODULE = """
def words(x):
    return " ".join({f"word-{x}-{i}" for i in range(30)})
"""
SCRIPT = """
import sys
import runyard as ry
from mine import words
yard, limit = sys.argv[1], int(sys.argv[2]) or None
batch = ry.grid(words, x=range(20), seed=1, name="b")
print(ry.run(batch, yard=yard, workers=1, limit=limit).digest)
"""


@pytest.fixture(autouse=True)
def no_seed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def said(folder: Path, *command: str, code: int = 0, **variables: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **variables},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def runyard(folder: Path, *words: str, **given: Any) -> str:
    return said(folder, "-m", "runyard", *words, **given)


def batch(tasks: int = 10) -> ry.Batch:
    return ry.grid(in_the_order_of_a_set, x=range(tasks), seed=1, name="b")


def test_workers_started_afresh_come_to_the_same_digest(yard: ry.Yard) -> None:
    digests = set()
    for _ in range(2):
        close_pools()
        digests.add(yard.run(batch(), fresh=True).digest)
    assert len(digests) == 1


def test_another_process_goes_on_to_the_same_digest(project: Path) -> None:
    whole = said(project, "script.py", "whole", "0")
    said(project, "script.py", "parts", "7")
    assert said(project, "script.py", "parts", "0") == whole


def test_the_command_line_comes_to_the_same_on_every_backend(project: Path) -> None:
    same = ["run", "mine.py:words", "--grid", "x=0..19", "--seed", "1", "--name", "b", "--json"]
    runs = {runyard(project, *same, "--yard", b, "--backend", b, "--no-progress") for b in LOCAL}
    digests = {run.partition('"digest": ')[2].split(",")[0] for run in runs}
    assert len(digests) == 1
    assert digests != {""}


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_resume_and_retry_take_the_recorded_seed_unless_one_is_given(
    project: Path, backend: str
) -> None:
    run = ["run", "mine.py:words", "--grid", "x=0..9", "--name", "b", "--no-progress"]
    runyard(project, *run, "--try", "3", PYTHONHASHSEED="12")
    runyard(project, "cancel", "b/5")
    told = runyard(project, "resume", "b", "--backend", backend, code=1)
    told += runyard(project, "retry", "b", "--status", "cancelled", "--backend", backend)
    assert "hash seed" not in told
    assert "PYTHONHASHSEED" not in told
    with ry.Yard(project / ".runyard") as yard:
        events = [event for event in yard.events("b") if event["event"] == "RunDescribed"]
        assert [event["hash_seed"] for event in events] == ["12"] * 3
        yard.run(ry.grid(f"{project}/mine.py:words", x=range(2), name="c"), limit=1)
    told = runyard(project, "resume", "c", "--backend", backend, PYTHONHASHSEED="7")
    assert "new ones with PYTHONHASHSEED=7" in told


@pytest.mark.parametrize("seed", ["", "12"])
def test_verify_and_repro_find_the_same_order(project: Path, seed: str) -> None:
    run = ["run", "mine.py:words", "--grid", "x=0..19", "--name", "b", "--no-progress"]
    runyard(project, *run, **{"PYTHONHASHSEED": seed} if seed else {})
    assert "all the same" in runyard(project, "verify", "b", "--sample", "100%")
    assert '"same": 20' in runyard(project, "verify", "b", "--sample", "100%", "--json")
    assert "same as recorded" in runyard(project, "repro", "b/3")


def test_verify_and_repro_say_so_where_the_order_was_random(project: Path) -> None:
    code = "import runyard as ry; from mine import words; "
    code += "ry.run(ry.grid(words, x=range(20), name='b'), backend='serial')"
    said(project, "-c", code)
    told = runyard(project, "verify", "b", "--sample", "100%", code=1)
    assert "20 of the tasks that differ ran with the random hash seed" in told
    assert "now with PYTHONHASHSEED=0" in told
    assert "recorded with the random hash seed" in runyard(project, "repro", "b/3", code=1)


def heard(yard: ry.Yard, backend: str, **options: Any) -> list[str]:
    """The notices of a run."""
    found: list[str] = []

    def hear(event: Any) -> None:
        if isinstance(event, Notice):
            found.append(event.text)

    yard.run(batch(), backend=backend, on_event=hear, **options)
    return [text for text in found if "hash seed" in text]


@pytest.mark.skipif(own_seed() == "0", reason="the tests themselves run with a fixed hash seed")
def test_going_on_with_another_hash_seed_is_told_once(yard: ry.Yard) -> None:
    assert heard(yard, "serial", limit=3) == []
    assert heard(yard, "threads", limit=3) == []
    (text,) = heard(yard, "processes", limit=3)
    assert f"the random hash seed {own_seed().split()[-1]}" in text
    assert "new ones with PYTHONHASHSEED=0" in text
    assert heard(yard, "processes") == []


def test_the_log_says_by_which_seed_a_run_hashed(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.run(batch(), limit=1)
    yard.run(batch(), limit=1, backend="serial")
    monkeypatch.setenv("PYTHONHASHSEED", "12")
    yard.run(batch())
    events = [event for event in yard.events("b") if event["event"] == "RunDescribed"]
    assert [event["hash_seed"] for event in events] == ["0", own_seed(), "12"]


@pytest.mark.parametrize("backend", LOCAL)
def test_commands_find_the_same_seed_on_every_backend(
    yard: ry.Yard, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = ry.grid(ry.shell("echo ${{PYTHONHASHSEED}}-{x}"), x=[1], name="b")
    (value,) = yard.run(shell, backend=backend, fresh=True).values()
    assert value["stdout"] == "0-1\n"
    monkeypatch.setenv("PYTHONHASHSEED", "12")
    (value,) = yard.run(shell, backend=backend, fresh=True).values()
    assert value["stdout"] == "12-1\n"

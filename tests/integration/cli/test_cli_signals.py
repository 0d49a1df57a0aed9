"""Ctrl-C and its relatives: what is finished stays, and `resume` goes on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest
from cli_project import Project, project_env, until

GATED = ("jobs:gated", "--grid", "x=0..9", "--workers", "2", "--seed", "1")


def start(project: Project, *more: str) -> subprocess.Popen[str]:
    process = project.start("run", *GATED, "--name", "g", "--json", *more)
    until(lambda: project.marks() >= 2)
    return process


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")],
    ids=["INT", "TERM"],
)
def test_one_signal_finishes_what_runs_and_resume_comes_to_the_same_end(
    project: Project, number: signal.Signals, code: int, name: str
) -> None:
    process = start(project)
    workers = children(process.pid)
    process.send_signal(number)
    until(lambda: project.said(f"finishing 2 running tasks; {name} again to stop at once"))
    project.open_gate()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert project.said("2 of 10 tasks recorded; run `runyard resume g` to continue")
    assert '"completed": 2' in out
    until(lambda: not any(worker.is_running() for worker in workers))
    resumed = project("resume", "g", "--json")
    assert resumed.code == 0, resumed.err
    unbroken = project("run", *GATED, "--name", "unbroken", "--json")
    assert resumed.last["digest"] == unbroken.last["digest"]
    assert resumed.last["completed"] == 10


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_that_came_while_the_program_was_started_again_is_heard(
    project: Project, number: signal.Signals, code: int
) -> None:
    """With blocked signals, as the program starts itself again under another hash seed."""
    before = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15]); "
    before += f"os.kill(os.getpid(), {int(number)}); "
    before += "os.execv(sys.executable, [sys.executable, '-m', 'runyard', 'status'])"
    said = subprocess.run(
        [sys.executable, "-c", before],
        cwd=project.folder, env=project_env(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == code, said.stderr
    assert "Traceback" not in said.stderr


def test_a_second_signal_ends_at_once(project: Project) -> None:
    process = start(project)
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    until(lambda: project.said("finishing"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert project.said("0 of 10 tasks recorded; run `runyard resume g` to continue")
    assert not project.said("Traceback")
    until(lambda: not any(worker.is_running() for worker in workers))
    project.open_gate()
    assert project("resume", "g", "--json").last["completed"] == 10


def test_after_kill_9_the_same_command_goes_on(project: Project) -> None:
    process = start(project)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert project("status", "g", "--json").last["state"] == "unfinished"
    project.open_gate()
    answer = project("run", *GATED, "--name", "g", "--json")
    assert answer.code == 0, answer.err
    assert answer.last["completed"] == 10


def test_stop_from_elsewhere_ends_the_run_with_0_and_a_notice(project: Project) -> None:
    process = project.start("run", "jobs:dawdle", "--grid", "x=0..2999", "--name", "g", "--json")
    until(lambda: project.marks() >= 2)
    assert project("stop", "g", "--json").last == {"asked": 1}
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert project.said("stopped on request")
    assert project.said("run `runyard resume g` to continue")


def test_cancel_ends_running_tasks_too(project: Project) -> None:
    process = start(project)
    assert project("cancel", "g/9", "--json").last == {"cancelled": 1}
    until(lambda: project("status", "g", "--json").last["cancelled"] == 1)
    assert project("clear", "g", "--yes").code == 2
    assert project("cancel", "g", "--json").code == 0
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert '"cancelled": 10' in out
    assert project("cancel", "g").code == 5
    project.open_gate()
    again = project("retry", "g", "--status", "cancelled", "--json")
    assert again.code == 0, again.err
    assert again.last["completed"] == 10


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_ends_a_rerun_and_is_no_error_of_its_task(
    project: Project, number: signal.Signals, code: int
) -> None:
    project.open_gate()
    project("run", "jobs:gated", "--set", "x=1", "--name", "g")
    (project.folder / "go").unlink()
    (project.folder / "marks" / "1").unlink()
    process = project.start("repro", "g/0")
    until(project.marks)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert not project.said("Traceback")

"""What Runyard logs: trouble as warnings, the course of a run as info, the details as debug."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import runyard as ry

SCRIPT = """
import os
import runyard as ry

def job(ctx, n):
    if n == 0:
        raise ValueError("no such thing")
    if n == 1 and ctx.attempt == 0:
        raise OSError("try again")
    if n == 2:
        os._exit(3)

batch = ry.grid(job, n=[0, 1, 2, 3], name="b", seed=1)
ry.run(batch, workers=1, retries=1, backoff=0, retry_on=["OSError"], progress=False)
"""


def double(x: int) -> int:
    return 2 * x


def logged(folder: Path, level: str | None) -> list[str]:
    """The messages of the script, without their times."""
    (folder / "job.py").write_text(SCRIPT)
    given = {name: value for name, value in os.environ.items() if name != "RUNYARD_LOG"}
    more = {} if level is None else {"RUNYARD_LOG": level}
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=folder, env=given | more, capture_output=True, text=True,
        timeout=100, check=True,
    )  # fmt: skip
    return [line.split(" ", 2)[2] for line in done.stderr.splitlines()]


def test_nothing_is_logged_unless_asked_for(tmp_path: Path) -> None:
    assert logged(tmp_path, None) == []


def test_warnings_are_what_goes_wrong(tmp_path: Path) -> None:
    failed, crashed = logged(tmp_path, "warning")
    assert failed == "WARNING runyard.reports.logged: b: task 0 failed: ValueError: no such thing"
    assert "b: task 2 failed: WorkerDied" in crashed


def test_info_tells_the_course_of_a_run(tmp_path: Path) -> None:
    text = "\n".join(logged(tmp_path, "info"))
    for part in (
        "INFO runyard.schedule.sign_on: b: engine 1 signed on",
        "INFO runyard.reports.logged: b: 4 tasks on 1 worker (processes), seed 1",
        "b: task 1 will be retried: OSError: try again",
        "b: worker 0 exited with code 3 at task 2; replaced",
        "b: finished after ",
        ": 2 completed, 2 failed",
        "b: engine 1 signed off",
    ):
        assert part in text
    assert "DEBUG" not in text


def test_debug_tells_of_each_claim_chunk_report_and_commit(tmp_path: Path) -> None:
    text = "\n".join(logged(tmp_path, "debug"))
    for part in ("b: claimed 4 tasks", "b: lane 0 gets ", "b: lane 0 reports ", "b: committed "):
        assert part in text


def test_a_program_with_its_own_logging_gets_the_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "runyard"), ry.Yard(tmp_path / "yard") as yard:
        yard.run(ry.grid(double, x=[1, 2], name="own", seed=3), backend="serial")
    assert "own: 2 tasks on 1 worker (serial), seed 3" in caplog.messages

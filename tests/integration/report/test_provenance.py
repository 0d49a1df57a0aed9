"""Where a run comes from is found out on the side, and never in its way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import runyard as ry
from runyard.schedule import provenance
from runyard.schedule.provenance import command_line, git_state


def described(yard: ry.Yard, **options: Any) -> dict[str, Any]:
    """Run a small batch; what its log tells about where it comes from."""
    batch = ry.grid(lambda x: x, x=[1, 2], seed=1, name="b")
    yard.run(batch, backend="serial", progress=False, fresh=True, **options)
    (found,) = [event for event in yard.events("b") if event["event"] == "RunDescribed"]
    return found


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, and the current folder in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "code.py").write_text("x = 1\n")
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q", "-b", "trunk"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True, cwd=folder)
    return folder


def test_commit_branch_and_changes_are_recorded(
    yard: ry.Yard, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "LATELY", 0.0)
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    found = described(yard)
    assert found["git"] == {"commit": head, "branch": "trunk", "changed": 0}
    assert found["project"] == "project"
    assert found["versions"]["python"].startswith("3.")
    assert found["versions"]["runyard"]
    assert found["machine"]["cores"] == os.cpu_count()
    (repository / "code.py").write_text("x = 2\n")
    assert described(yard)["git"]["changed"] == 1


def test_runs_in_quick_succession_ask_git_once(
    yard: ry.Yard, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = described(yard)["git"]
    monkeypatch.setenv("PATH", str(repository))  # where no git is
    assert described(yard)["git"] == first


def test_each_run_of_a_batch_is_described(yard: ry.Yard, repository: Path) -> None:
    for replicates in (1, 2):
        batch = ry.grid(lambda x: x, x=[1], replicates=replicates, seed=1, name="c")
        yard.run(batch, backend="serial", progress=False)
    engines = [e["engine"] for e in yard.events("c") if e["event"] == "RunDescribed"]
    assert len(set(engines)) == 2


def test_without_a_repository_there_is_no_git_state(
    yard: ry.Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert described(yard)["git"] is None


def test_without_git_a_run_is_still_described(
    yard: ry.Yard, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert described(yard)["git"] is None


def test_a_git_that_hangs_keeps_no_run_waiting(
    yard: ry.Yard, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends long before git would; what git says at once is still told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "git"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *status*) echo $$ > "$MARK"; exec sleep 1000 ;; esac\n'
        "echo 0123abc; echo trunk\n"
    )
    program.chmod(0o755)
    mark = tmp_path / "pid"
    monkeypatch.setenv("MARK", str(mark))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(provenance, "GIT_SECONDS", 900.0)  # the end of the run is what ends it
    assert described(yard)["git"] == {"commit": "0123abc", "branch": "trunk", "changed": None}
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_secrets_on_the_command_line_are_not_recorded(
    yard: ry.Yard, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "hunter2hunter2")
    words = ["run.py", "--password", "swordfish", "hunter2hunter2", "postgres://me:pw1234@h/db"]
    monkeypatch.setattr("sys.argv", words)
    found = described(yard)["command"]
    assert found.startswith("run.py --password ")
    for secret in ("swordfish", "hunter2", "pw1234"):
        assert secret not in found


def test_folders_of_the_machine_are_left_out_of_the_command() -> None:
    words = ["/opt/env/bin/runyard", "run", "/home/me/project/a.py:f", "--set", "x=/data/me/y.csv"]
    assert command_line(words) == "runyard run '…/a.py:f' --set 'x=…/y.csv'"
    assert command_line(["/site-packages/runyard/__main__.py", "status"]) == "runyard status"
    assert command_line(["a.py", "--url", "https://host/path/x"]).endswith("https://host/path/x")


def test_git_status_is_read_in_each_state() -> None:
    fresh = "# branch.oid (initial)\n# branch.head main\n"
    assert git_state(fresh) == {"commit": "(initial)", "branch": "main", "changed": 0}
    changed = "# branch.oid 1f\n# branch.head (detached)\n1 .M N... a\n2 R. N... b\n"
    assert git_state(changed) == {"commit": "1f", "branch": "(detached)", "changed": 2}

"""`runyard workbench`: init, run, show, fork."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import call

_BENCH = """
graph = "bench_graph.py:build"
cases = [{ question = "Which river flows through Cairo?" }]
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_runs_and_its_cells_are_shown_and_forked(
    there: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(capfd, "workbench", "init").code == 0
    again = call(capfd, "workbench", "init")
    assert again.code == 2
    assert "exists already" in again.err
    words = ["workbench", "run", "bench.toml", "--backend", "serial", "--json", "--no-progress"]
    ran = call(capfd, *words)
    assert ran.code == 0, ran.err
    told = json.loads(ran.out.splitlines()[-1])
    assert told["completed"] == 8
    assert told["matrix"]["correct"]["by overlap"] == {"capital": 1.0, "river": 1.0}
    assert json.loads(call(capfd, *words).out.splitlines()[-1])["digest"] == told["digest"]

    cell = f"{told['batch']}/0"
    shown = json.loads(call(capfd, "workbench", "show", cell, "--json").out)
    assert shown["trajectory"] == ["retrieve", "answer"]
    assert [each["next"] for each in shown["checkpoints"]] == [
        "__start__", "retrieve", "answer", "end"
    ]  # fmt: skip
    assert "retrieve" in call(capfd, "workbench", "show", cell).out
    listed = call(capfd, "workbench", "show", told["batch"])
    assert len(listed.out.splitlines()) == 1 + 8
    cells = json.loads(call(capfd, "workbench", "show", told["batch"], "--json").out)["cells"]
    assert cells[-1] == {
        "cell": f"{told['batch']}/7", "variant": "by overlap", "case": "river", "repetition": 1,
        "status": "completed", "scores": {"correct": 1.0, "path": 1.0},
    }  # fmt: skip

    fork = ["workbench", "fork", cell, "--at", "2", "--state", '{"found": "Rome."}', "--json"]
    forked = json.loads(call(capfd, *fork).out)
    assert forked["trajectory"] == ["answer"]
    assert forked["state"]["answer"] == "Rome"
    other = ["workbench", "fork", cell, "--at", "1", "--json"]
    other += ["--variant", "retrieve=bench_graph.py:by_overlap"]
    assert json.loads(call(capfd, *other).out)["trajectory"] == ["retrieve", "answer"]
    assert call(capfd, "resume", told["batch"], "--backend", "serial").code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("graph = 'x'", "has no 'cases'"),
        ("grap = 'x'", "did you mean 'graph'"),
        ("graph = ", "is not valid TOML"),
        (_BENCH + "[implementations]\nfound = 'x.py:y'", "the implementations of 'found' are"),
        (_BENCH + "settings = 'off'", "settings is 'off'"),
        (_BENCH + "evaluators = ['exact_match']", "evaluators is ['exact_match']"),
        (_BENCH + "gate = 3", "gate is 3"),
        (_BENCH + "gate = [3]", "a gate is 3"),
        (_BENCH + "variants = [{ nodes = 'x' }]", "the nodes of a variant are 'x'"),
        (_BENCH + "name = 3", "the name of a bench is 3"),
        (_BENCH + "variants = 3", "variants is 3"),
        (_BENCH + "repetitions = '3'", "repetitions is '3'"),
        (_BENCH + "[settings]\ncheckpoint = 'off'", "did you mean 'checkpoints'"),
        ("graph = 'bench_graph.py:build'\ncases = 'c.jsonl'", "there is no file of cases"),
    ],
)
def test_a_bench_file_with_a_mistake_is_refused(
    there: Path, capfd: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    call(capfd, "workbench", "init")
    (there / "b.toml").write_text(content)
    told: Any = call(capfd, "workbench", "run", "b.toml")
    assert told.code == 2
    assert said in told.err


def test_a_run_says_why_scores_are_missing_and_which_cell_to_look_at(
    there: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    call(capfd, "workbench", "init")
    (there / "b.toml").write_text(
        _BENCH + 'name = "b"\n[evaluators]\nbad = { use = "exact_match", field = "anwser" }\n'
    )
    words = ["workbench", "run", "b.toml", "--backend", "serial", "--no-progress"]
    said = call(capfd, *words).out
    assert "1 score of bad missing: " in said
    assert "show b/0" in said

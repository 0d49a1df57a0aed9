"""Evaluators and gates as bench files name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runyard.doors.workbench.bench.benchfile import read_bench
from runyard.doors.workbench.evaluate.gates import check
from runyard.doors.workbench.evaluate.judge import Judge
from runyard.doors.workbench.evaluate.named import READY, named
from runyard.doors.workbench.evaluate.ready import ExactMatch, Latency
from runyard.errors import UsageError

GRADERS = """
def strict(limit=1):
    return lambda outputs: limit

def right(outputs):
    return True
"""


def test_ready_ones_functions_and_factories(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text(GRADERS)
    root = str(tmp_path)
    assert named("exact_match", root) == ExactMatch()
    assert named({"use": "latency", "at_most": 2}, root) == Latency(2)
    assert named("graders.py:right", root)(None) is True
    assert named({"use": "graders.py:strict", "limit": 3}, root)(None) == 3
    assert named(len, root) is len
    assert all(callable(each) for each in READY.values())


def test_files_are_relative_to_the_bench_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "benches"
    folder.mkdir()
    (folder / "bench.toml").write_text(
        'graph = "graph.py:build"\ncases = [{ q = 1 }]\ngate = "judge >= 0.5"\n[evaluators]\n'
        'judge = { use = "judge", rubric = "Good?", tape = "judge.jsonl", llm = "replay" }\n'
        'own = { use = "graders.py:strict", limit = 3 }\n'
    )
    monkeypatch.chdir(tmp_path)
    found = read_bench("benches/bench.toml")
    judge: Any = named(found.evaluators["judge"], "")
    assert isinstance(judge, Judge)
    assert Path(str(judge.tape)).parent.name == "benches"
    assert found.evaluators["own"]["use"].endswith("benches/graders.py:strict")
    assert found.gates == ["judge >= 0.5"]


@pytest.mark.parametrize(
    ("gate", "scores", "fine"),
    [
        ("right >= 0.8", ["right", "other"], True),
        ("latency < 2 and interrupted == 0 and failed < 1%", [], True),
        ("b - a > 0", ["right"], True),
        ("b - a > 0", ["right", "other"], False),
        ("rigth >= 0.8", ["right"], False),
        ("c.right >= 0.8", ["right"], False),
    ],
)
def test_a_gate_is_checked_before_anything_runs(gate: str, scores: list[str], fine: bool) -> None:
    if fine:
        check([gate], ["a", "b"], scores)
        return
    with pytest.raises(UsageError):
        check([gate], ["a", "b"], scores)

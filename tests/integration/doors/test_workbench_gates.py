"""`runyard workbench run` with gates, baselines and JUnit XML, and `compare`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from command_line import call

BENCH = """
graph = "bench_graph.py:build"
repetitions = 2
name = "example"
cases = "cases.jsonl"
gate = "path == 1"

[[variants]]
[[variants]]
name = "by overlap"
nodes = { retrieve = "bench_graph.py:by_overlap" }

[evaluators]
correct = { use = "exact_match", field = "answer" }
path = { use = "trajectory", nodes = ["retrieve", "answer"] }
"""
CASES = [
    {
        "inputs": {"question": "What is the capital of France?"},
        "expected": "Paris",
        "id": "capital",
    },
    {"inputs": {"question": "Which river flows through Cairo?"}, "expected": "Nile", "id": "river"},
]


@pytest.fixture
def there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    call(capfd, "workbench", "init")
    (tmp_path / "bench.toml").write_text(BENCH)
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, CASES)))
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    words = ["workbench", "run", "bench.toml", "--backend", "serial", "--no-progress", *more]
    found = call(capfd, *words, "--json")
    assert "Traceback" not in found.err, found.err
    return found.code, json.loads(found.out.splitlines()[-1])


def test_a_gate_that_fails_gives_exit_code_4(
    there: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, told = run(capfd)
    assert (code, [each["holds"] for each in told["gates"]]) == (0, [True])
    assert [each["mean"] for each in told["scores"] if each["metric"] == "correct"] == [0.5, 1.0]
    code, told = run(capfd, "--gate", "correct >= 0.8")
    assert (code, [each["holds"] for each in told["gates"]]) == (4, [True, False])
    assert run(capfd, "--gate", '"by overlap".correct >= 0.8')[0] == 0
    code, told = run(capfd, "--gate", "corect >= 0.8")
    assert code == 2
    assert "corect" in told["error"]["message"]
    words = ["workbench", "run", "bench.toml", "--backend", "serial", "--gate", "correct >= 0.8"]
    shown = call(capfd, *words, "--no-progress")
    assert shown.code == 4
    assert "gate failed: baseline: correct = 0.5 >= 0.8: no" in shown.out
    assert "pass@2" in shown.out
    cell = json.loads(call(capfd, "workbench", "show", "example/0", "--json").out)
    assert cell["scores"] == {"correct": 1.0, "path": 1.0}
    assert "correct" in call(capfd, "workbench", "show", "example/0").out


def test_a_condition_that_can_not_be_read_is_refused_before_anything_runs(
    there: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(capfd, "--gate", "correct >")[0] == 2
    assert not (there / ".runyard").exists()
    code, told = run(capfd, "--gate", "corect >= 1")
    assert code == 2
    assert "did you mean correct" in told["error"]["hint"]
    assert call(capfd, "results", "example").code == 5


def test_a_baseline_is_written_and_what_got_worse_is_named(
    there: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(capfd, "--baseline", "base.json")[0] == 0
    first = (there / "base.json").read_text()
    code, told = run(capfd, "--baseline", "base.json")
    assert (code, told["baseline"]["holds"]) == (0, True)

    cases = [dict(CASES[0], expected="Lyon"), CASES[1]]
    (there / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
    code, told = run(capfd, "--baseline", "base.json", "--fresh", "--yes")
    assert code == 4
    worse = told["baseline"]["worse"]
    assert [(each["variant"], each["case"], each["metric"]) for each in worse] == [
        ("baseline", "capital", "correct"), ("by overlap", "capital", "correct"),
    ]  # fmt: skip
    assert (there / "base.json").read_text() == first
    assert run(capfd, "--baseline", "base.json", "--update-baseline")[0] == 0
    assert (there / "base.json").read_text() != first
    assert run(capfd, "--baseline", "base.json")[0] == 0
    assert run(capfd, "--update-baseline")[0] == 2


def test_junit_is_written_for_each_cell(there: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, told = run(capfd, "--junit", "out/report.xml", "--gate", "correct >= 0.8")
    assert code == 4
    suite = ET.parse(there / "out" / "report.xml").getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == (str(told["total"]), "2")
    names = [case.attrib["name"] for case in suite.iter("testcase")]
    assert names[:3] == ["capital[0]", "capital[1]", "river[0]"]
    [failed, _] = suite.iter("failure")
    assert "'Paris' instead of 'Nile'" in failed.attrib["message"]


def test_an_interrupted_cell_is_no_pass(there: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (there / "bench.toml").write_text(
        'graph = "bench_graphs:asking"\ncases = [{ start = "x" }]\n[evaluators]\n'
        'path = { use = "trajectory", mode = "superset", nodes = ["before"] }\n'
    )
    code, told = run(capfd, "--gate", "path >= 0.1", "--junit", "x.xml")
    assert (code, told["interrupted"], told["matrix"]["path"]) == (
        4, 1, {"baseline": {"case-0": None}}
    )  # fmt: skip
    assert ET.parse(there / "x.xml").getroot()[0].attrib["skipped"] == "1"
    assert run(capfd, "--gate", "completed >= 100%")[0] == 4


def test_variants_and_benches_are_compared(there: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd)
    words = ["workbench", "compare", "example", "--metric", "correct"]
    found = call(capfd, *words, "--json")
    assert found.code == 0, found.err
    told = json.loads(found.out)
    [comparison] = told["comparisons"]
    assert (comparison["a"], comparison["b"]) == ("baseline", "by overlap")
    assert (comparison["n"], comparison["effect"], comparison["paired"]) == (2, -0.5, True)
    assert comparison["detectable"] > 0
    assert call(capfd, *words, "--gate", "baseline >= 0.8").code == 4
    shown = call(capfd, *words).out
    assert "can detect an effect of" in shown
    assert re.search(r"^river +0 +1$", shown, re.MULTILINE)
    assert told["matrix"]["correct"]["baseline"] == {"capital": 1.0, "river": 0.0}

    cases = [dict(CASES[0], expected="Lyon"), CASES[1]]
    (there / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
    (there / "bench.toml").write_text(BENCH.replace('"example"', '"later"'))
    run(capfd)
    shown = call(capfd, "workbench", "compare", "example", "later", "--metric", "correct").out
    assert "worse: by overlap on capital: correct 1 → 0" in shown
    assert call(capfd, "workbench", "compare", "none").code == 5


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        ('"exact_mach"', "did you mean 'exact_match'"),
        ('{ use = "regex", patern = "x" }', "did you mean 'pattern'"),
        ('{ field = "x" }', "has no `use`"),
        ('{ use = "regex", pattern = "(" }', "is not a regular expression"),
    ],
)
def test_an_evaluator_with_a_mistake_is_refused(
    there: Path, capfd: pytest.CaptureFixture[str], evaluator: str, said: str
) -> None:
    head, _, _ = BENCH.partition("[evaluators]")
    (there / "bench.toml").write_text(f"{head}[evaluators]\nx = {evaluator}\n")
    code, told = run(capfd)
    assert code == 2
    assert said in told["error"]["message"]

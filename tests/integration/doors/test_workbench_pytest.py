"""The pytest plugin: one item a cell."""

from __future__ import annotations

import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
PLUGIN = "runyard.doors.workbench.pytest_plugin"

GRAPH = """
from typing import TypedDict
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

class State(TypedDict, total=False):
    query: str
    answer: str

def plain(state):
    with open("ran.txt", "a") as file:
        file.write(f"{state['query']}\\n")
    if state["query"] == "raise":
        raise ValueError("as asked")
    if state["query"] == "ask":
        interrupt("go on?")
    return {"answer": state["query"]}

def shout(state):
    return {"answer": state["query"].upper()}

def build():
    builder = StateGraph(State)
    builder.add_node("node", plain)
    builder.add_edge(START, "node")
    return builder
"""

MARK = """
import pytest

bench = pytest.mark.workbench(
    "graph.py:build",
    variants=[{}, {"node": "graph.py:shout"}],
    cases=[{"inputs": {"query": query}, "expected": query, "id": query} for query in CASES],
    evaluators={"correct": {"use": "exact_match", "field": "answer"}},
)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a graph; the plugin is loaded as if Runyard were installed with it."""
    pytester.makepyfile(graph=GRAPH)
    if not any(each.value == PLUGIN for each in entry_points(group="pytest11")):
        pytester.plugins.append(PLUGIN)
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    return pytester


def test_the_plugin_is_registered_by_entry_point() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [module] = found["project"]["entry-points"]["pytest11"].values()
    assert hasattr(import_module(module), "pytest_generate_tests")


def test_there_is_one_item_for_each_cell_and_the_bench_runs_once(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        f"CASES = ['a', 'b']\n{MARK}\n"
        "@bench\ndef test_score(cell):\n    assert cell.scores['correct'] == 1\n"
        "@bench\ndef test_path(cell, tmp_path):\n    assert cell.trajectory == ['node']\n"
    )
    found = project.runpytest_subprocess("-v")
    found.assert_outcomes(passed=6, failed=2)
    found.stdout.fnmatch_lines(
        [
            "*test_score[[]baseline-a-0[]] PASSED*",
            "*test_score[[]node=graph.py:shout-b-0[]] FAILED*",
            "*correct: 0 ('B' instead of 'b')*",
        ]
    )
    assert (project.path / "ran.txt").read_text().split() == ["a", "b"]


def test_a_failed_cell_fails_and_an_interrupted_one_is_neither_passed_nor_failed(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        f"CASES = ['fine', 'raise', 'ask']\n{MARK}\n@bench\ndef test_it(cell):\n    pass\n"
    )
    found = project.runpytest_subprocess("-k", "baseline")
    found.assert_outcomes(passed=1, failed=1, errors=1, deselected=3)
    found.stdout.fnmatch_lines(["*was interrupted; it asks: go on?*"])
    found.stdout.fnmatch_lines(["*failed: ValueError: as asked*"])


def test_any_status_leaves_it_to_the_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        "import pytest\n"
        "@pytest.mark.workbench('graph.py:build', any_status=True, cases=[{'query': 'ask'}, "
        "{'query': 'raise'}])\n"
        "def test_it(cell):\n    assert cell.status in ('interrupted', 'failed')\n"
    )
    project.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_bench_file_and_its_whole_result(project: pytest.Pytester) -> None:
    project.maketxtfile(bench="")
    (project.path / "bench.toml").write_text(
        'graph = "graph.py:build"\nrepetitions = 2\n'
        'cases = [{ inputs = { query = "a" }, expected = "a" }]\n'
        '[evaluators]\ncorrect = { use = "exact_match", field = "answer" }\n'
    )
    project.makepyfile(
        "import pytest\n"
        "@pytest.mark.workbench('bench.toml')\n"
        "def test_gate(bench_result):\n"
        "    assert bench_result.gate('correct >= 0.8')[0].holds\n"
        "@pytest.mark.workbench('bench.toml')\n"
        "def test_cell(cell):\n    assert cell.scores['correct']\n"
    )
    project.runpytest_subprocess().assert_outcomes(passed=3)
    kept = ["--workbench-yard", "kept"]
    before = len((project.path / "ran.txt").read_text().split())
    for _ in "twice":
        project.runpytest_subprocess(*kept).assert_outcomes(passed=3)
    assert len((project.path / "ran.txt").read_text().split()) == before + 2


def test_workers_of_xdist_run_a_bench_once(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"CASES = ['a', 'b', 'c']\n{MARK}\n"
        "@bench\ndef test_it(cell):\n    assert cell.status == 'completed'\n"
    )
    project.runpytest_subprocess("-n", "2").assert_outcomes(passed=6)
    assert sorted((project.path / "ran.txt").read_text().split()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("@pytest.mark.workbench('none.toml')\ndef test_it(cell): pass", "no bench file none.toml"),
        ("@pytest.mark.workbench('graph.py:build', cases=[{'query': 'a'}])\ndef test_it(): pass",
         "has a parameter `cell`"),
        ("@pytest.mark.workbench('graph.py:build', cases=[{'qery': 'a'}])\n"
         "def test_it(cell): pass", "did you mean 'query'"),
        ("@pytest.mark.workbench('graph.py:build', cases=[{'query': 'a'}], varants=[])\n"
         "def test_it(cell): pass", "no argument 'varants'"),
        ("def test_it(cell): pass", "`cell` needs @pytest.mark.workbench"),
    ],
)  # fmt: skip
def test_a_mistake_is_told(project: pytest.Pytester, test: str, said: str) -> None:
    project.makepyfile(f"import pytest\n{test}\n")
    found = project.runpytest_subprocess()
    assert found.ret != 0
    assert said in found.stdout.str() + found.stderr.str()

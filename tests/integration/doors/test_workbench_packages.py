"""LangGraph applications that others wrote run on the workbench unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from llm_server import ModelServer

from runyard.doors.workbench import Workbench
from runyard.doors.workbench.bench.result import BenchResult

for package in ("langchain", "langgraph_supervisor", "langgraph_swarm"):
    pytest.importorskip(package)

APPLICATIONS = {
    "agent": ["model", "tools", "model"],
    "supervisor_with_tools": [
        "supervisor", "supervisor:agent", "supervisor:tools", "meteorologist",
        "meteorologist:model", "supervisor", "supervisor:agent",
    ],
    "swarm": ["alice", "alice:model", "alice:tools", "bob", "bob:model"],
}  # fmt: skip
"""Applications, and the nodes they visit."""


# The supervisor builds its agent with a function that LangGraph has moved.
pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One for all tests, since graphs that are found by name are built once in a process."""
    with ModelServer() as found:
        yield found


@pytest.fixture
def folder(server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("BENCH_TAPE", str(tmp_path / "tape.jsonl"))
    monkeypatch.setenv("BENCH_MODE", "replay")
    return tmp_path


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_is_recorded_and_replays_alike_on_other_backends(
    name: str, folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = _recorded(name, "serial", folder, monkeypatch)
    for cell in recorded:
        assert cell.trajectory == APPLICATIONS[name]
        assert cell.tokens
    asked = len(server.requests)
    for backend in ("serial", "threads", "processes"):
        replayed = _run(name, backend, folder / backend)
        assert replayed.digest == recorded.digest
        assert [cell.trajectory for cell in replayed] == [cell.trajectory for cell in recorded]
    assert len(server.requests) == asked


def test_a_supervisor_as_it_comes_replays_where_sets_have_the_same_order(
    folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = _recorded("supervisor", "processes", folder, monkeypatch)
    asked = len(server.requests)
    assert _run("supervisor", "processes", folder / "replayed").digest == recorded.digest
    assert len(server.requests) == asked


def test_an_agent_forks_at_its_tools(
    folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = _recorded("agent", "serial", folder, monkeypatch)
    asked, cell = len(server.requests), recorded[0]
    at = next(n for n, each in enumerate(cell.checkpoints()) if each.next == ("tools",))
    fork = Workbench("serial", yard=folder / "recorded").fork(cell, at)
    assert fork.trajectory == ["tools", "model"]
    assert fork.output == cell.output
    assert len(server.requests) == asked


def _run(name: str, backend: str, folder: Path) -> BenchResult:
    cases = [{"messages": [{"role": "user", "content": f"How is it in {city}?"}]} for city in "AB"]
    bench = Workbench(backend, yard=folder)
    found = bench.run_batch(f"bench_packages:{name}", test_cases=cases)
    assert [cell.status for cell in found] == ["completed"] * 2, found[0].failure
    return found


def _recorded(
    name: str, backend: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> BenchResult:
    with monkeypatch.context() as patch:
        patch.setenv("BENCH_MODE", "record")
        return _run(name, backend, folder / "recorded")

"""Graphs with all kinds of states, and cells whose values can't be recorded."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any, TypedDict

import bench_graphs as graphs
import pytest
from bench_kit import bench
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from runyard.doors.workbench import Workbench
from runyard.errors import BadSpec, UsageError

__all__ = ["bench"]


class Model(BaseModel):
    q: str
    n: int = 0


@dataclass
class Data:
    q: str = ""
    n: int = 0


def one_more(state: Any) -> dict[str, Any]:
    return {"n": state.n + 1}


def single(schema: Any, node: Any, **schemas: Any) -> Any:
    """A graph of one node."""
    builder = StateGraph(schema, **schemas)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder


def test_a_state_that_is_a_single_value(bench: Workbench) -> None:
    cell = bench.run(single(int, lambda state: state + 1), 3)
    assert (cell.output, cell.state) == (4, 4)
    assert [each.values for each in cell.checkpoints()] == [None, 3, 4]


@pytest.mark.parametrize("schema", [Model, Data])
def test_states_of_models_and_dataclasses(bench: Workbench, schema: Any) -> None:
    cell = bench.run(single(schema, one_more), {"q": "a"})
    assert cell.output == {"q": "a", "n": 1}
    assert bench.fork(cell, 1).state == {"q": "a", "n": 1}
    assert bench.run(single(schema, one_more), schema(q="b")).output["q"] == "b"


def test_an_output_can_be_a_part_of_the_state(bench: Workbench) -> None:
    class Inputs(TypedDict):
        q: str

    class Outputs(TypedDict):
        a: str

    class State(TypedDict):
        q: str
        a: str
        secret: str

    graph = single(
        State, lambda state: {"a": state["q"], "secret": "s"},
        input_schema=Inputs, output_schema=Outputs,
    )  # fmt: skip
    cell = bench.run(graph, {"q": "x"})
    assert cell.output == {"a": "x"}
    assert cell.state == {"q": "x", "a": "x", "secret": "s"}
    with pytest.raises(BadSpec, match="no input 'a'"):
        bench.run(graph, {"a": "x"})


@pytest.mark.parametrize("node", [graphs.answer_a, graphs.awaited])
def test_a_bench_runs_inside_a_running_loop(bench: Workbench, node: Any) -> None:
    async def notebook() -> Any:
        return bench.run(graphs.qa(), {"query": "q"}, variant={"node": node})

    assert asyncio.run(notebook()).status == "completed"


@pytest.mark.parametrize("checkpoints", ["tape", "off"])
def test_a_state_that_can_not_be_recorded_fails_its_cell(
    bench: Workbench, checkpoints: str
) -> None:
    class Opaque:
        pass

    def node(state: graphs.QA) -> dict[str, Any]:
        return {"answer": Opaque()}

    cell = bench.run(graphs.qa(), {"query": "q"}, variant={"node": node}, checkpoints=checkpoints)
    assert cell.status == "failed"
    assert "Opaque" in str(cell.error)


def test_an_engines_retry_marks_its_cell(bench: Workbench) -> None:
    tried: list[int] = []

    def flaky(state: graphs.QA) -> dict[str, Any]:
        tried.append(1)
        if len(tried) < 2:
            raise ValueError("once")
        return {"answer": "twice"}

    result = bench.run_batch(graphs.qa, [{"node": flaky}], [{"query": "q"}], retries=1)
    assert result[0].retries == 1
    assert result[0].thread_id.endswith("/0/1")
    assert len(result[0].checkpoints()) == 4


def test_what_can_not_travel_runs_here_and_is_named_elsewhere(bench: Workbench) -> None:
    lock = threading.Lock()

    def node(state: graphs.QA) -> dict[str, Any]:
        with lock:
            return {"answer": "locked"}

    def run(backend: str) -> Any:
        return bench.run_batch(graphs.qa, [{"node": node}], [{"query": "q"}], backend=backend)

    assert run("threads")[0].output["answer"] == "locked"
    bench.yard.clear(bench.yard.status()[0].name)
    with pytest.raises(UsageError, match="with the graph and its nodes"):
        run("processes")


def test_the_audit_log_has_what_happened_in_a_cell(bench: Workbench) -> None:
    cell = bench.run(graphs.join(), {"start": "x"})
    fork = bench.fork(cell, 4)
    events = [each for each in bench.yard.events(fork.id.partition("/")[0], task=0)
              if each["event"] == "TaskEmitted"]  # fmt: skip
    assert [each["kind"] for each in events] == ["cell"]
    assert [each.split()[0] for each in events[0]["data"]["nodes"]] == ["last"]
    assert events[0]["data"]["thread"] == cell.thread_id
    assert events[0]["data"]["checkpoint"] == cell.checkpoints()[4].id

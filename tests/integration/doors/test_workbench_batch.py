"""Variants × cases × repetitions as one batch, on every backend."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from bench_kit import answers, bench

from runyard import Event, Yard
from runyard.doors.workbench import Case, Workbench
from runyard.events import Notice

__all__ = ["bench"]

FOUR = [{}, {"node": "A"}, {"node": "B"}, {"node": "C"}]
CASES = [{"query": f"Q{n}"} for n in range(25)]


def registered(bench: Workbench) -> Workbench:
    for name, function in (("A", graphs.answer_a), ("B", graphs.answer_b), ("C", graphs.answer_c)):
        bench.variant("node", name, function)
    return bench


def test_the_two_calls_of_the_document(bench: Workbench) -> None:
    graph = graphs.qa().compile()
    registered(bench)

    result = bench.run(graph, initial_state={"query": "test"})
    results = bench.run_batch(
        graph,
        variants=[{"node": "A"}, {"node": "B"}],
        test_cases=[{"query": "Q1"}, {"query": "Q2"}],
    )

    assert result.status == "completed"
    assert result.output == {
        "query": "test", "docs": ["about test"], "answer": "baseline: about test"
    }  # fmt: skip
    assert [(c.variant, c.case) for c in results] == [
        ("node=A", "case-0"), ("node=A", "case-1"), ("node=B", "case-0"), ("node=B", "case-1"),
    ]  # fmt: skip
    assert answers(results) == ["A: about Q1", "A: about Q2", "B: about Q1", "B: about Q2"]
    assert len(results) == 4
    assert results.digest is not None


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Yard(tmp_path_factory.mktemp("reference") / "yard") as yard:
        bench = registered(Workbench("serial", yard=yard))
        result = bench.run_batch(graphs.qa, FOUR, CASES)
        return result.digest, answers(result)


def test_a_hundred_cells_are_the_same_on_every_backend(
    tmp_path: Path, backend: str, expected: Any
) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = registered(Workbench(backend, workers=2, yard=yard))
        result = bench.run_batch(graphs.qa, FOUR, CASES)
        assert (result.digest, answers(result)) == expected
        assert expected[1] == [
            f"{variant}: about Q{n}" for variant in ("baseline", "A", "B", "C") for n in range(25)
        ]
        cell = result.cell(variant="node=B", case="case-7")
        assert cell.trajectory == ["retrieve", "node"]
        assert [each.next for each in cell.checkpoints()] == [
            ("__start__",), ("retrieve",), ("node",), ()
        ]  # fmt: skip


def test_objects_that_no_process_can_import_travel(tmp_path: Path, backend: str) -> None:
    prefix = "local"

    def local(state: graphs.QA) -> dict[str, Any]:
        return {"answer": f"{prefix}: {state['docs'][0]}"}

    with Yard(tmp_path / "yard") as yard:
        bench = Workbench(backend, workers=2, yard=yard)
        graph = graphs.qa().compile()
        result = bench.run_batch(graph, [{"node": local}], [{"query": "Q"}])
        assert answers(result) == ["local: about Q"]


def test_a_compiled_subgraph_travels(tmp_path: Path, backend: str) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench(backend, workers=2, yard=yard)
        [cell] = bench.run_batch(
            graphs.asking().compile(), None, [Case({"start": "x"}, answers=["yes"])]
        )
        assert cell.status == "completed"
        assert cell.state["steps"] == ["before", "before", "prepare", "answer yes", "after"]
        assert cell.trajectory == [
            "before", "sub", "sub:prepare", "sub:ask", "sub", "sub:ask", "after"
        ]  # fmt: skip


def test_a_graph_that_has_to_be_awaited(tmp_path: Path, backend: str) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench(backend, workers=2, yard=yard)
        result = bench.run_batch(graphs.qa, [{"node": graphs.awaited}], [{"query": "Q"}])
        assert answers(result) == ["awaited: about Q"]


def test_run_stays_in_the_calling_thread(bench: Workbench) -> None:
    seen = []

    def here(state: graphs.QA) -> dict[str, Any]:
        seen.append(threading.get_ident())
        return {"answer": "here"}

    cell = bench.run(graphs.qa(), {"query": "q"}, variant={"node": here})
    assert cell.output["answer"] == "here"
    assert seen == [threading.get_ident()]


def test_running_twice_runs_twice(bench: Workbench) -> None:
    ran = []

    def count(state: graphs.QA) -> dict[str, Any]:
        ran.append(1)
        return {"answer": "x"}

    first, second = (bench.run(graphs.qa(), {"query": "q"}, variant={"node": count}) for _ in "ab")
    assert len(ran) == 2
    assert first.thread_id != second.thread_id


def test_a_batch_that_is_complete_runs_nothing_again(bench: Workbench, tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def count(state: graphs.QA) -> dict[str, Any]:
        with notes.open("a") as file:
            file.write("x")
        return {"answer": "x"}

    def again() -> Any:
        return bench.run_batch(graphs.qa, [{"node": count}], CASES[:3], repetitions=2)

    first, second = again(), again()
    assert len(notes.read_text()) == 6
    assert first.digest == second.digest
    assert [cell.trajectory for cell in second] == [["retrieve", "node"]] * 6


def test_a_named_batch_grows(bench: Workbench) -> None:
    registered(bench)
    bench.run_batch(graphs.qa, [{"node": "A"}], CASES[:2], name="grows")
    grown = bench.run_batch(
        graphs.qa, [{"node": "A"}, {"node": "B"}], CASES[:3], repetitions=2, name="grows"
    )
    assert len(grown) == 12
    assert [(c.variant, c.case, c.repetition) for c in grown][:4] == [
        ("node=A", "case-0", 0), ("node=A", "case-0", 1),
        ("node=A", "case-1", 0), ("node=A", "case-1", 1),
    ]  # fmt: skip


def test_a_handler_that_publishes_does_not_deadlock(bench: Workbench) -> None:
    heard: list[Event] = []

    def handler(event: Event) -> None:
        heard.append(event)
        if not isinstance(event, Notice):
            bench.bus.publish(Notice(batch="", text="again"))

    def broken(event: Event) -> None:
        raise RuntimeError("hurts nobody else")

    bench.bus.subscribe(Event, broken)
    bench.bus.subscribe(Event, handler)
    bench.run(graphs.qa(), {"query": "q"})
    assert bench.bus.flush()
    assert any(isinstance(event, Notice) for event in heard)


def test_what_the_engine_offers_works_for_a_bench(bench: Workbench) -> None:
    registered(bench)
    result = bench.run_batch(graphs.qa, FOUR, CASES[:2], name="whole")
    yard = bench.yard
    assert yard.results("whole").stats.completed == 8
    assert {o.labels["variant"] for o in yard.results("whole").outcomes()} == {
        "baseline", "node=A", "node=B", "node=C"
    }  # fmt: skip
    assert result.report().is_file()
    assert result.result.to_polars().height == 8

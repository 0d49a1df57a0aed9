"""Forks, rollbacks and resumes: exactly what is expected runs again, and the source stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from bench_kit import bench

from runyard import Yard
from runyard.doors.workbench import Case, Cell, Workbench
from runyard.errors import BadSpec, NotFound, UsageError
from runyard.events import Notice

__all__ = ["bench"]


def fork_everywhere(bench: Workbench, cell: Cell) -> list[list[str]]:
    """The trajectory of a fork from each checkpoint; ends and source are checked."""
    before = cell.rows
    forks = [bench.fork(cell, each) for each in cell.checkpoints()]
    assert cell.rows == before
    assert {fork.thread_id for fork in forks}.isdisjoint({cell.thread_id})
    for fork in forks:
        assert fork.status == cell.status
        assert fork.state == cell.state
    return [fork.trajectory for fork in forks]


def test_forks_of_a_join(bench: Workbench) -> None:
    cell = bench.run(graphs.join(), {"start": "x"})
    assert cell.state["steps"] == ["first", "left", "right", "joined", "last"]
    everything = ["first", "left", "right", "joined", "last"]
    assert fork_everywhere(bench, cell) == [
        everything, everything, everything[1:], everything[3:], everything[4:], []
    ]  # fmt: skip


def test_forks_of_a_fan_out(bench: Workbench) -> None:
    cell = bench.run(graphs.fan_out(), {"start": "x"})
    everything = ["plan", "work", "work", "work", "collect"]
    assert cell.trajectory == everything
    assert fork_everywhere(bench, cell) == [
        everything, everything, everything[1:], everything[4:], []
    ]  # fmt: skip


def test_forks_of_a_state_that_is_kept_in_pieces(bench: Workbench) -> None:
    cell = bench.run(graphs.delta(), {"start": "x", "steps": ["given"]})
    assert cell.state["steps"] == ["given", "one", "two", "three"]
    assert fork_everywhere(bench, cell) == [
        ["one", "two", "three"], ["one", "two", "three"], ["two", "three"], ["three"], []
    ]  # fmt: skip


def test_forks_of_a_subgraph_that_asks(bench: Workbench) -> None:
    case = Case({"start": "x"}, answers=["yes"])
    [cell] = bench.run_batch(graphs.asking, None, [case])
    assert [each.next for each in cell.checkpoints()] == [
        ("__start__",), ("before",), ("sub",), ("after",), ()
    ]  # fmt: skip
    before = cell.rows
    fork = bench.fork(cell, cell.checkpoints()[2])
    assert fork.status == "interrupted"
    assert fork.interrupts == ["go on?"]
    assert fork.trajectory == ["sub", "sub:prepare", "sub:ask"]
    answered = bench.fork(cell, cell.checkpoints()[2], answers=["no"])
    assert answered.status == "completed"
    assert answered.state["steps"] == ["before", "before", "prepare", "answer no", "after"]
    assert bench.fork(cell, 3).trajectory == ["after"]
    assert cell.rows == before


def test_a_fork_with_another_implementation(bench: Workbench) -> None:
    bench.variant("node", "B", graphs.answer_b)
    cell = bench.run(graphs.qa(), {"query": "q"})
    [at] = [each for each in cell.checkpoints() if each.next == ("node",)]
    fork = bench.fork(cell, at, variant={"node": "B"})
    assert fork.trajectory == ["node"]
    assert fork.output["answer"] == "B: about q"
    assert cell.output["answer"] == "baseline: about q"
    assert fork.variant == "node=B"


def test_a_fork_of_a_fork(bench: Workbench) -> None:
    cell = bench.run(graphs.join(), {"start": "x"})
    fork = bench.fork(bench.fork(cell, 2), 3, variant={"last": graphs.other})
    assert fork.trajectory == ["joined", "other"] or fork.trajectory == ["joined", "last"]
    assert fork.state["steps"] == ["first", "left", "right", "joined", "other"]


@pytest.mark.parametrize("graph", [graphs.qa, graphs.delta])
def test_a_fork_with_another_state(bench: Workbench, graph: Any) -> None:
    start = {"query": "q"} if graph is graphs.qa else {"start": "x"}
    cell = bench.run(graph(), start)
    changes = {"docs": ["changed"]} if graph is graphs.qa else {"steps": ["changed"]}
    fork = bench.fork(cell, -2, state=changes)
    if graph is graphs.qa:
        assert fork.output["answer"] == "baseline: changed"
    else:
        assert fork.state["steps"] == ["changed", "three"]
    with pytest.raises(BadSpec, match="no 'dox'"):
        bench.fork(cell, -2, state={"dox": 1})


def test_after_a_join_a_fork_with_another_state_goes_on(bench: Workbench) -> None:
    """`update_state` would give an empty `next` here, and do nothing."""
    cell = bench.run(graphs.join(), {"start": "x"})
    fork = bench.fork(cell, 3, state={"steps": ["changed"]})
    assert fork.trajectory == ["joined", "last"]
    assert fork.state["steps"] == ["changed", "joined", "last"]


def test_a_failed_step_is_forked_without_its_finished_tasks(bench: Workbench) -> None:
    def broken(state: Any) -> dict[str, Any]:
        raise ValueError("broken")

    [cell] = bench.run_batch(graphs.join(), [{"right": broken}], [{"start": "x"}])
    assert cell.status == "failed"
    assert cell.checkpoints()[-1].next == ("right",)
    fork = bench.fork(cell, -1, variant={"right": graphs.other})
    assert fork.trajectory == ["right", "joined", "last"]
    assert sorted(fork.state["steps"]) == sorted(["first", "left", "other", "joined", "last"])


def test_rollback_stands_at_a_checkpoint(bench: Workbench) -> None:
    cell = bench.run(graphs.join(), {"start": "x"})
    back = bench.rollback(cell, 3)
    assert back.status == "interrupted"
    assert back.state["steps"] == ["first", "left", "right"]
    assert back.trajectory == []
    assert [each.id for each in back.checkpoints()] == [
        each.id for each in cell.checkpoints()[:4]
    ]  # fmt: skip
    on = bench.resume(back)
    assert on.status == "completed"
    assert on.trajectory == ["joined", "last"]


def test_resume_answers(bench: Workbench) -> None:
    cell = bench.run(graphs.asking(), {"start": "x"})
    assert cell.status == "interrupted"
    assert cell.interrupts == ["go on?"]
    before = cell.rows
    done = bench.resume(cell, "sure")
    assert done.status == "completed"
    assert done.state["steps"] == ["before", "before", "prepare", "answer sure", "after"]
    assert cell.rows == before
    with pytest.raises(UsageError, match="nothing to resume"):
        bench.resume(done, "again")


def test_a_checkpoint_of_a_subgraph_rounds_to_its_parent(bench: Workbench) -> None:
    [cell] = bench.run_batch(graphs.asking, None, [Case({"start": "x"}, answers=["yes"])])
    inner = next(row.id for row in cell.rows.checkpoints if row.ns)
    fork = bench.fork(cell, inner)
    assert fork.trajectory[0] == "sub"
    [notice] = bench.bus.history(Notice)
    assert "checkpoint of a subgraph" in notice.text


def test_a_cell_of_another_process_is_forked(tmp_path: Path) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench("processes", workers=2, yard=yard)
        [cell] = bench.run_batch(graphs.join, None, [{"start": "x"}])
        assert fork_everywhere(bench, cell)[3] == ["joined", "last"]
    with Yard(tmp_path / "yard") as again:
        bench = Workbench("serial", yard=again)
        [cell] = bench.run_batch(graphs.join, None, [{"start": "x"}])
        assert bench.fork(cell, 3).trajectory == ["joined", "last"]


def test_what_can_not_be_forked_says_why(bench: Workbench) -> None:
    cell = bench.run(graphs.qa(), {"query": "q"})
    bare = bench.run(graphs.qa(), {"query": "q"}, checkpoints="off")
    assert bare.checkpoints() == []
    with pytest.raises(NotFound, match="no checkpoints"):
        bench.fork(bare, 0)
    with pytest.raises(NotFound, match="no checkpoint number 9"):
        bench.fork(cell, 9)
    with pytest.raises(NotFound, match="no checkpoint 'unheard'"):
        bench.fork(cell, "unheard")


def test_a_graph_that_can_not_go_on_from_there_is_an_error(bench: Workbench) -> None:
    from runyard.doors.workbench import Variant

    cell = bench.run(graphs.qa(), {"query": "q"})
    fork = bench.fork(cell, 2, variant=Variant(graph=graphs.qa("another")))
    assert fork.status == "failed"
    assert "can't go on" in str(fork.error)

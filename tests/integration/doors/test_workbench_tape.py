"""The tape: LangGraph's own saver opens it, and it is written in time."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from bench_kit import bench
from langgraph.checkpoint.sqlite import SqliteSaver

from runyard import Yard
from runyard.doors.workbench import Case, Workbench
from runyard.doors.workbench.tape.file import ThreadRows, close_files, open_file, read_rows
from runyard.doors.workbench.tape.saver import TapeSaver

__all__ = ["bench"]


@pytest.mark.parametrize("make", [graphs.join, graphs.fan_out, graphs.asking, graphs.delta])
def test_langgraphs_own_saver_opens_a_tape(bench: Workbench, make: Any) -> None:
    [cell] = bench.run_batch(make, None, [Case({"start": "x"}, answers=["yes"])])
    [path] = (cell.source.folder / "tapes").glob("*.sqlite")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        graph = make().compile(checkpointer=SqliteSaver(connection))
        config = {"configurable": {"thread_id": cell.thread_id}}
        found = list(graph.get_state_history(config))[::-1]
        assert [each.values for each in found] == [each.values for each in cell.checkpoints()]
        assert found[-1].values == cell.state
        assert graph.invoke(None, found[-2].config) == graph.invoke(None, found[-2].config)


def test_a_tape_reads_as_a_sqlite_saver_does(tmp_path: Path) -> None:
    tape = TapeSaver("t")
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        config: Any = {"configurable": {"thread_id": "t"}}
        graphs.asking().compile(checkpointer=tape).invoke({"start": "x"}, config)
        for each in reversed(list(tape.list(config))):
            inside = each.config["configurable"]
            parent = {} if each.parent_config is None else each.parent_config["configurable"]
            place: Any = {"configurable": {**inside, "checkpoint_id": parent.get("checkpoint_id")}}
            saver.put(place, each.checkpoint, each.metadata, each.checkpoint["channel_versions"])
            for task, channel, value in each.pending_writes or []:
                saver.put_writes(each.config, [(channel, value)], task)
        ours, theirs = list(tape.list(config)), list(saver.list(config))
        assert [each.config for each in ours] == [each.config for each in theirs]
        assert [each.checkpoint for each in ours] == [each.checkpoint for each in theirs]
        assert [each.metadata for each in ours] == [each.metadata for each in theirs]
        assert [e.parent_config for e in ours] == [e.parent_config for e in theirs]
        limited = [each.config for each in tape.list(config, limit=2)]
        assert limited == [each.config for each in saver.list(config, limit=2)]
        before: Any = ours[1].config
        assert len(list(tape.list(config, before=before))) == len(
            list(saver.list(config, before=before))
        )
        steps = [e.config for e in tape.list(config, filter={"source": "loop"})]
        assert steps == [e.config for e in saver.list(config, filter={"source": "loop"})]
        assert tape.get_tuple(config).checkpoint == saver.get_tuple(config).checkpoint  # type: ignore[union-attr]


def test_a_second_attempt_replaces_the_first_ones_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    for _ in range(2):
        tape = TapeSaver("t", open_file(path))
        graph = graphs.qa().compile(checkpointer=tape)
        graph.invoke({"query": "q"}, {"configurable": {"thread_id": "t"}})
        tape.flush()
    close_files(tmp_path)
    assert read_rows(path, "t") == ThreadRows(
        sorted(tape.rows.checkpoints, key=lambda row: row.id),
        sorted(tape.rows.writes, key=lambda row: (row.id, row.task, row.idx)),
    )


def test_a_cell_that_is_killed_leaves_its_checkpoints(tmp_path: Path) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench("processes", workers=1, yard=yard)
        begun = time.monotonic()
        [cell] = bench.run_batch(
            graphs.qa, [{"node": graphs.trouble}], [{"query": "hang"}], timeout=4
        )
        assert time.monotonic() - begun < 60
        assert cell.status == "failed"
        assert "TaskTimeout" in str(cell.error)
        assert cell.state == {"query": "hang", "docs": ["about hang"]}
        fork = bench.fork(cell, -1, variant={"node": graphs.answer_a})
        assert fork.output["answer"] == "A: about hang"


@pytest.mark.parametrize("mode", ["off", "tape", "durable"])
def test_checkpoints_are_kept_as_asked(bench: Workbench, mode: str) -> None:
    cells = bench.run_batch(graphs.qa, None, [{"query": "q"}], checkpoints=mode)
    assert cells[0].trajectory == ["retrieve", "node"]
    assert len(cells[0].checkpoints()) == (0 if mode == "off" else 4)
    assert cells[0].latency > 0


def test_a_cell_without_checkpoints_still_takes_its_answers(bench: Workbench) -> None:
    case = Case({"start": "x"}, answers=["yes"])
    [cell] = bench.run_batch(graphs.asking, None, [case], checkpoints="off")
    assert cell.status == "completed"
    assert cell.checkpoints() == []
    [paused] = bench.run_batch(graphs.asking, None, [{"start": "x"}], checkpoints="off")
    assert paused.status == "interrupted"
    assert paused.interrupts == ["go on?"]

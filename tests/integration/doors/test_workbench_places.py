"""Where checkpoints end up: PostgreSQL yards, Ray nodes that don't see the yard, workspaces."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from bench_kit import bench
from databases import postgres_url
from ray_kit import Head, far_node, without_ray

from runyard import Yard, context
from runyard.doors.workbench import Workbench
from runyard.doors.workbench.bench.recorded import recorded_cell

__all__ = ["bench"]


def test_a_postgresql_yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_FILES", str(tmp_path / "files"))
    with Yard(postgres_url()) as yard:
        bench = Workbench("processes", workers=2, yard=yard)
        cases = [{"start": str(n)} for n in range(4)]
        result = bench.run_batch(graphs.join, [{}, {"last": graphs.other}], cases)
        assert [cell.status for cell in result] == ["completed"] * 8
        fork = bench.fork(result[5], 3, variant={"last": graphs.other})
        assert fork.trajectory == ["joined", "last"]


def test_checkpoints_come_back_from_a_node_that_does_not_see_the_yard(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(graphs.__file__, project / "bench_graphs.py")
    with Head(cpus=0) as head, far_node(head.address, hidden=project, resources={"far": 2}):
        (project / "far.py").write_text(
            "BENCH = {'graph': 'bench_graphs:join', 'cases': [{'start': 'a'}, {'start': 'b'}],\n"
            "         'name': 'far', 'options': {'resources': {'far': 1}}}\n"
        )
        words = ["workbench", "run", "far:BENCH", "--backend", "ray", "--no-progress", "--json"]
        ended = subprocess.run(
            [sys.executable, "-m", "runyard", *words, "--ray-address", head.address],
            cwd=project, capture_output=True, text=True, env=without_ray(), timeout=110,
            check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout.splitlines()[-1])["completed"] == 2
    with Yard(project / ".runyard") as yard:
        cell = recorded_cell(yard, "far/1")
        assert cell.trajectory == ["first", "left", "right", "joined", "last"]
        assert len(cell.checkpoints()) == 6
        assert not (yard.batch_folder("far") / "tapes").exists()
        assert Workbench(yard=yard).fork(cell, 4).trajectory == ["last"]


def writing(state: Any) -> dict[str, Any]:
    place = context().workspace
    (place / "made.txt").write_text(state["query"])
    assert (place / "given.txt").read_text() == "given"
    (place / "given.txt").write_text("changed")
    return {"answer": str(place)}


def test_each_cell_has_a_workspace_with_copies(bench: Workbench, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    (inputs / "given.txt").write_text("given")
    result = bench.run_batch(
        graphs.qa, [{"node": writing}], [{"query": "a"}, {"query": "b"}], files=inputs
    )
    places = [Path(cell.output["answer"]) for cell in result]
    assert [(place / "made.txt").read_text() for place in places] == ["a", "b"]
    assert (inputs / "given.txt").read_text() == "given"
    gone = bench.run_batch(
        graphs.qa, [{"node": writing}], [{"query": "c"}], files=inputs, keep="never"
    )
    assert not Path(gone[0].output["answer"]).exists()


def in_the_workspace(state: Any) -> dict[str, Any]:
    import tempfile

    here = Path.cwd()
    with tempfile.NamedTemporaryFile() as file:
        inside = Path(file.name).is_relative_to(here)
    return {"answer": f"{Path('given.txt').read_text()} {inside}"}


def test_processes_run_each_cell_inside_its_workspace(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    (inputs / "given.txt").write_text("given")
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench("processes", workers=2, yard=yard)
        result = bench.run_batch(
            graphs.qa, [{"node": in_the_workspace}], [{"query": "a"}, {"query": "b"}], files=inputs
        )
        assert [cell.output["answer"] for cell in result] == ["given True", "given True"]

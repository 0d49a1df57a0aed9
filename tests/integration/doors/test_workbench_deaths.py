"""Limits, crashes and kills: a cell costs itself alone, and what is recorded never runs again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from bench_kit import answers, bench
from polling import eventually

from runyard import Yard
from runyard.doors.workbench import Workbench

__all__ = ["bench"]

HARD = ["processes", "ray"]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which nodes note each execution."""
    place = tmp_path / "notes"
    place.touch()
    monkeypatch.setenv("BENCH_NOTES", str(place))
    return place


@pytest.mark.parametrize("backend", HARD)
def test_a_two_second_limit_ends_an_eight_second_node(tmp_path: Path, backend: str) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench(backend, workers=2, yard=yard)
        bench.run_batch(graphs.qa, [{"node": graphs.trouble}], [{"query": "warm"}])
        cases = [{"query": "hang"}, {"query": "fine"}]
        hung, fine = bench.run_batch(graphs.qa, [{"node": graphs.trouble}], cases, timeout=2)
        assert (hung.status, fine.status) == ("failed", "completed")
        assert "TaskTimeout" in str(hung.error)
        assert 2 <= hung.seconds < 3


@pytest.mark.parametrize("backend", HARD)
def test_a_raising_hanging_or_crashing_cell_costs_itself_only(tmp_path: Path, backend: str) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench(backend, workers=2, yard=yard)
        queries = ["a", "raise", "b", "crash", "c", "hang", "d"]
        cases = [{"query": query} for query in queries]
        result = bench.run_batch(
            graphs.qa, [{"node": graphs.trouble}], cases, timeout=4, crash_attempts=1
        )
        bad = {"raise", "crash", "hang"}
        assert [cell.status for cell in result] == [
            "failed" if query in bad else "completed" for query in queries
        ]  # fmt: skip
        assert "ValueError: as asked" in str(result[1].error)
        assert "WorkerDied" in str(result[3].error)
        assert result.digest is not None


@pytest.mark.parametrize("backend", HARD)
def test_a_cancelled_cell_ends_at_once(tmp_path: Path, backend: str) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench(backend, workers=2, yard=yard)
        bench.run_batch(graphs.qa, [{"node": graphs.trouble}], [{"query": "warm"}])
        found: list[Any] = []

        def run() -> None:
            cases = [{"query": "hang"}]
            found.append(bench.run_batch(graphs.qa, [{"node": graphs.trouble}], cases, name="x"))

        thread = threading.Thread(target=run)
        thread.start()
        running = eventually(
            lambda: any(r.name == "x" and r.stats.running for r in yard.status()), seconds=30
        )
        assert running
        begun = time.monotonic()
        yard.cancel("x", 0)
        thread.join(30)
        assert time.monotonic() - begun < 5
        assert found[0][0].status == "cancelled"


@pytest.mark.parametrize("backend", HARD)
def test_a_killed_worker_changes_nothing(tmp_path: Path, backend: str, bench: Workbench) -> None:
    mark = tmp_path / "mark"
    cases = [{"query": f"{n} {mark}"} for n in range(25)]
    with Yard(tmp_path / "killed") as yard:
        place = Workbench(backend, workers=2, yard=yard)
        result = place.run_batch(graphs.qa, [{"node": graphs.killed_once}], cases)
        assert mark.exists()
        reference = bench.run_batch(graphs.qa, [{"node": graphs.killed_once}], cases)
        assert result.digest == reference.digest
        assert answers(result) == [f"noted: about {n} {mark}" for n in range(25)]


@pytest.mark.parametrize(
    "backend",
    ["serial", *(pytest.param(name, marks=pytest.mark.slow) for name in ("async", "threads")),
     "processes", "ray"],
)  # fmt: skip
def test_after_a_killed_engine_no_recorded_cell_runs_again(
    tmp_path: Path, backend: str, notes: Path, bench: Workbench
) -> None:
    words = ["workbench", "run", "bench_graphs:four_variants", "--backend", backend]
    words += ["--yard", str(tmp_path / "killed"), "--no-progress"]
    words += [] if backend == "serial" else ["--workers", "2"]
    helpers = str(Path(graphs.__file__).parent)
    engine = subprocess.Popen(
        [sys.executable, "-m", "runyard", *words], cwd=helpers, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert eventually(lambda: len(notes.read_text().split()) >= 8, seconds=90)
    finally:
        os.kill(engine.pid, signal.SIGKILL)
        engine.wait()
    with Yard(tmp_path / "killed") as yard:
        recorded = {o.params["case"] for o in yard.results("four").outcomes()
                    if o.params["variant"] == "node=bench_graphs:noted"}  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-m", "runyard", *words], cwd=helpers, capture_output=True, text=True,
        check=False, timeout=100,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    times = Counter(notes.read_text().split())
    again = [case for case, count in times.items() if count > 1]
    assert not {f"case-{case}" for case in again} & recorded
    with Yard(tmp_path / "killed") as yard:
        digest = yard.results("four").digest
        spec = graphs.four_variants()
        result = Workbench("serial", yard=yard).run_batch(
            spec["graph"], spec["variants"], spec["cases"], name="four"
        )
        assert [cell.trajectory for cell in result] == [["retrieve", "node"]] * 100
    del spec["name"]
    reference = bench.run_batch(spec["graph"], spec["variants"], spec["cases"])
    assert digest == reference.digest

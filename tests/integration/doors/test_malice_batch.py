"""Batches of runs: the same bytes everywhere, and nothing half-written whatever dies."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from runyard import Yard
from runyard.backends import NAMES as BACKENDS
from runyard.doors.malice import MaliceBatch, replay, run_batch
from runyard.doors.malice.audit import run_of
from runyard.doors.malice.state import NAMES
from runyard.doors.malice.task import logs_folder
from runyard.errors import BadSpec, BadTarget
from runyard.events import Event, TaskEmitted

RUNS, TICKETS = 6, 40


def logs(found: MaliceBatch) -> dict[str, bytes]:
    """What each run logged, by a name without times and process numbers."""
    return {
        f"{run_of(path)}{'/debug' if path.parent.name == 'debug' else ''}": path.read_bytes()
        for path in found.folder.rglob("malice_*.jsonl")
    }


def results(found: MaliceBatch) -> dict[str, Any]:
    return json.loads((found.folder / "batch_parallel_results.json").read_text())


def batch(place: Path, **given: Any) -> MaliceBatch:
    with Yard(place) as yard:
        return run_batch(RUNS, TICKETS, seed=5, yard=yard, progress=False, **given)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> MaliceBatch:
    """A batch by one worker, to compare others with."""
    return batch(tmp_path_factory.mktemp("whole"), workers=1)


@pytest.fixture(scope="module")
def expected(whole: MaliceBatch) -> dict[str, bytes]:
    return logs(whole)


@pytest.mark.parametrize("workers", [2, 5])
def test_any_number_of_workers_writes_the_same_bytes(
    tmp_path: Path, expected: dict[str, bytes], workers: int
) -> None:
    assert len(expected) == 2 * RUNS
    assert logs(batch(tmp_path, workers=workers)) == expected


@pytest.mark.parametrize("name", [name for name in BACKENDS if name not in ("processes", "ray")])
def test_every_backend_writes_the_same_bytes(
    tmp_path: Path, expected: dict[str, bytes], name: str
) -> None:
    assert logs(batch(tmp_path, backend=name, workers=2)) == expected


@pytest.mark.usefixtures("ray_head")
def test_ray_writes_the_same_bytes(tmp_path: Path, expected: dict[str, bytes]) -> None:
    assert logs(batch(tmp_path, backend="ray", workers=2)) == expected


def test_a_batch_is_replayed_by_its_own_logs(whole: MaliceBatch) -> None:
    found = replay(whole.folder)
    assert found.runs_equal == len(found.records) == RUNS
    assert found.scores == (RUNS, RUNS)
    assert found.contradictions == []


def test_results_summary_and_table_tell_the_same(whole: MaliceBatch) -> None:
    found = results(whole)
    listed = found["detailed_results"]
    assert [each["run_id"] for each in listed] == list(range(1, RUNS + 1))
    assert sum(found["social_dynamics"]["winner_distribution"].values()) == RUNS
    assert found["immune_system"]["reliability"]["successes"] == RUNS
    rows = list(csv.DictReader((whole.folder / "runs.csv").read_text().splitlines()))
    assert [float(row["mallory_final_score"]) for row in rows] == [
        each["mallory_final_score"] for each in listed
    ]
    summary = (whole.folder / "batch_summary.txt").read_text()
    assert f"{RUNS} of {RUNS} runs completed" in summary


def test_more_runs_leave_those_that_are_done_as_they_are(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with Yard(tmp_path) as yard:
        for runs in (3, RUNS):
            given = {"tag": "grows", "yard": yard, "progress": False}
            found = run_batch(runs, TICKETS, seed=5, workers=2, **given)
    assert found.result.name == "malice-grows"
    assert logs(found) == expected


def test_a_worker_killed_in_the_middle_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, bytes]
) -> None:
    marker = tmp_path / "died"
    monkeypatch.setenv("MALICE_MARKER", str(marker))
    found = batch(tmp_path / "yard", workers=2, parts="malice_parts:dies_once")
    assert marker.exists()
    assert found.result.stats.completed == RUNS
    assert logs(found) == expected
    assert not list(found.folder.rglob("*.partial"))


def test_failed_runs_are_listed_and_never_contained(tmp_path: Path) -> None:
    found = batch(tmp_path, workers=2, parts="malice_parts:fails_late")
    stats = found.result.stats
    assert stats.failed > 0
    assert stats.completed > 0
    told = results(found)
    failed = [each for each in told["detailed_results"] if each["status"] == "failed"]
    assert len(failed) == stats.failed == told["experiment_metadata"]["failed_runs"]
    assert {each["mallory_outcome"] for each in failed} == {None}
    assert {each["error"] for each in failed} == {"ValueError"}
    assert told["threat_analysis"]["mallory_binder"]["final"]["runs"]["total"] == stats.completed
    assert len(logs(found)) == 2 * stats.completed


def test_a_run_out_of_time_is_failed_too(tmp_path: Path) -> None:
    with Yard(tmp_path) as yard:
        given = {"parts": "malice_parts:lingers", "timeout": 0.1, "yard": yard, "progress": False}
        found = run_batch(2, 60, seed=5, workers=2, **given)
    told = results(found)
    assert [each["error"] for each in told["detailed_results"]] == ["TaskTimeout"] * 2
    assert told["threat_analysis"]["mallory_success_rate_percent"] is None
    assert logs(found) == {}


def test_an_interrupt_keeps_what_is_finished_and_writes_its_summary(tmp_path: Path) -> None:
    told: list[str] = []

    def stop_at_once(event: Event) -> None:
        if isinstance(event, TaskEmitted) and event.kind == "tickets" and not told:
            told.append("stop")
            signal.raise_signal(signal.SIGINT)

    with Yard(tmp_path) as yard:
        given = {"parts": "malice_parts:lingers", "tag": "cut", "yard": yard, "progress": False}
        with pytest.raises(KeyboardInterrupt):
            run_batch(60, 60, seed=5, workers=2, on_event=stop_at_once, **given)
        folder = yard.batch_folder("malice-cut") / "malice"
        finished = yard.results("malice-cut").stats.completed
    found = json.loads((folder / "batch_parallel_results.json").read_text())
    about = found["experiment_metadata"]
    assert about["successful_runs"] == finished
    assert about["unfinished_runs"] == 60 - finished
    assert len(list(folder.rglob("malice_*.jsonl"))) == 2 * finished
    assert not list(folder.rglob("*.partial"))


def test_alerts_arrive_from_inside_the_workers(tmp_path: Path) -> None:
    seen: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, TaskEmitted) and event.kind == "alert":
            seen.append(event.data["message"])

    with Yard(tmp_path) as yard:
        found = run_batch(12, 60, seed=5, workers=2, yard=yard, on_event=listen, progress=False)
    told = [
        f"run {record['run_id']}: {name} → BINDER at ticket {ticket}"
        for record in found.records
        for ticket, name in record["rises"]
    ]
    assert told
    assert sorted(seen) == sorted(told)


def test_progress_counts_tickets(tmp_path: Path) -> None:
    seen = []
    with Yard(tmp_path) as yard:
        run_batch(RUNS, TICKETS, seed=5, workers=2, yard=yard, progress=seen.append)
    assert {event.total for event in seen} == {RUNS * TICKETS}
    assert all(event.completed <= event.total for event in seen)


def test_variants_are_compared_in_pairs_on_the_same_random_numbers(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    found = batch(tmp_path, workers=2, without=["civil", "immune"], grid={"promote_at": [4.0]})
    names = [runs.name for runs in found.variants]
    assert names == ["published", "without civil", "without immune", "promote_at=4"]
    assert all(comparison.paired for comparison in found.comparisons)
    assert {c.b for c in found.comparisons} == {"published"}
    by_name = {runs.name: runs.records for runs in found.variants}
    seeds = [[record["seed"] for record in records] for records in by_name.values()]
    assert all(each == seeds[0] for each in seeds)
    inert = [r["votes_counted"] for r in by_name["without immune"]]
    assert inert == [r["votes_counted"] for r in by_name["published"]]
    assert not any(r["civil_gate_blocks"] for r in by_name["without civil"])
    tickets = [int(run) for run in {key.removesuffix("/debug") for key in logs(found)}]
    assert sorted(tickets) == list(range(1, 4 * RUNS + 1))
    for name in ("published", "without-civil", "promote_at-4"):
        assert replay(found.folder / name).differences == []


def test_the_report_has_a_section_with_pictures(whole: MaliceBatch, tmp_path: Path) -> None:
    folder = whole.folder.parent
    with Yard(folder.parent.parent) as yard:
        from runyard.doors.malice.batch import collect

        page = collect(yard, folder.name).report(tmp_path / "report.html").read_text()
    for title in ("Who gets promoted", "Promotions", "Reputation", "Votes that counted", "Winners"):
        assert title in page


def test_a_batch_in_which_many_rise_again_and_again_is_replayed_too(tmp_path: Path) -> None:
    grid = {"promote_at": [1.0], "demote_at": [-1.0]}
    found = run_batch(8, 60, seed=3, grid=grid, yard=tmp_path, progress=False)
    risen = found.variants[1]
    assert max(record["promotions"] for record in risen.records) > len(NAMES)
    assert replay(logs_folder(found.folder.parent, risen.name)).differences == []


def test_a_batch_with_users_of_ones_own_is_replayed_too(tmp_path: Path) -> None:
    found = batch(tmp_path, workers=2, parts="malice_parts:three")
    assert set(found.records[0]["user_final_states"]) == {"ann", "ben", "mallory"}
    assert replay(found.folder).differences == []


def test_parts_that_can_not_be_had_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BadTarget, match="malice_parts has no function 'nobody'"):
        batch(tmp_path, parts="malice_parts:nobody")
    with pytest.raises(BadTarget, match="makes list"):
        batch(tmp_path, parts="malice_parts:nothing")
    with pytest.raises(BadSpec, match="no rule 'promotion'"):
        batch(tmp_path, grid={"promotion": [4]})

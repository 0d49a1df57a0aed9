"""Batches of runs: the same bytes everywhere, and nothing half-written whatever dies."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import pytest

from runyard import Yard
from runyard.backends import NAMES as BACKENDS
from runyard.doors.malice import MaliceBatch, Parts, replay, run_batch
from runyard.doors.malice.logs.audit import run_of
from runyard.doors.malice.run.task import logs_folder
from runyard.doors.malice.society.state import NAMES
from runyard.errors import BadSpec, BadTarget, CodeChangedWarning
from runyard.events import Event, Notice, TaskEmitted
from runyard.reports.progress import ALERT_KIND

RUNS, TICKETS = 6, 40


def logs(found: MaliceBatch, variant: str = "") -> dict[str, bytes]:
    """What each run logged, by a name without times and process numbers."""
    return {
        f"{run_of(path)}{'/debug' if path.parent.name == 'debug' else ''}": path.read_bytes()
        for path in (found.folder / variant).rglob("malice_*.jsonl")
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
    assert f"{RUNS} of {RUNS} completed" in summary


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
    assert names == ["whole", "without civil", "without immune", "promote_at=4"]
    assert all(comparison.paired for comparison in found.comparisons)
    assert {c.b for c in found.comparisons} == {"whole"}
    rates = {c.metric for c in found.comparisons if c.method == "McNemar's exact test"}
    assert rates == {"mallory_became_binder", "mallory_ever_binder"}
    by_name = {runs.name: runs.records for runs in found.variants}
    seeds = [[record["seed"] for record in records] for records in by_name.values()]
    assert all(each == seeds[0] for each in seeds)
    inert = [r["votes_counted"] for r in by_name["without immune"]]
    assert inert == [r["votes_counted"] for r in by_name["whole"]]
    assert not any(r["civil_gate_blocks"] for r in by_name["without civil"])
    assert logs(found, "whole") == expected
    for name in ("whole", "without-civil", "promote_at=4"):
        assert logs(found, name).keys() == expected.keys()
        assert replay(found.folder / name).differences == []


def test_variants_that_are_nearly_alike_have_files_of_their_own(tmp_path: Path) -> None:
    grid = {"demote_at": [-3.0, 3.0], "penalty": [0.6000001, 0.6000002]}
    found = batch(tmp_path, workers=2, grid=grid)
    names = [runs.name for runs in found.variants]
    assert names[1:3] == ["demote_at=-3 penalty=0.6000001", "demote_at=-3 penalty=0.6000002"]
    homes = [path for path in found.folder.iterdir() if path.is_dir()]
    assert len(homes) == len(set(names)) == 5
    assert [len(logs(found, home.name)) for home in homes] == [2 * RUNS] * 5


def test_alerts_of_variants_say_which_it_is(tmp_path: Path) -> None:
    heard: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, TaskEmitted) and event.kind == ALERT_KIND:
            heard.append(event.data["message"])

    batch(tmp_path, workers=1, grid={"promote_at": [1.0]}, on_event=hear)
    assert any(text.startswith("promote_at=1, run 1: ") for text in heard)


def test_logs_that_are_gone_are_told(tmp_path: Path, whole: MaliceBatch) -> None:
    assert whole.lost == []
    found = batch(tmp_path, workers=2)
    next(found.folder.glob("debug/*_r03_*")).unlink()
    assert batch(tmp_path, workers=2).lost == ["run 3"]


def test_changed_parts_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    heard: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Notice):
            heard.append(event.text)

    parts = "from runyard.doors.malice import Parts\n\ndef mine():\n    return Parts()\n"
    for words in (
        parts,
        parts,
        f"{parts}    # a comment\n",
        parts.replace("    return", "    assert Parts\n    return"),
    ):
        Path("mine.py").write_text(words)
        with (
            Yard(tmp_path / "yard") as yard,
            catch_warnings(record=True, action="always") as warned,
        ):
            yard.bus.subscribe(Event, hear)
            run_batch(2, 5, seed=5, tag="mine", yard=yard, progress=False, parts="mine.py:mine")
    assert [each.category for each in warned] == [CodeChangedWarning]
    assert [text[:41] for text in heard] == ["the code of mine.py:mine has changed since"[:41]]


def test_the_report_has_a_section_with_pictures(whole: MaliceBatch, tmp_path: Path) -> None:
    folder = whole.folder.parent
    with Yard(folder.parent.parent) as yard:
        from runyard.doors.malice.batch.runs import collect

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
    with pytest.raises(BadTarget, match="returns list"):
        batch(tmp_path, parts="malice_parts:nothing")
    with pytest.raises(BadTarget, match=r"broken failed at .*malice_parts.py:\d+: KeyError"):
        batch(tmp_path, parts="malice_parts:broken")
    with pytest.raises(BadSpec, match="two agents have the same name"):
        batch(tmp_path, parts="malice_parts:twins")
    with pytest.raises(BadSpec, match="'bob' is not an agent"):
        batch(tmp_path, parts="malice_parts:words")
    with pytest.raises(BadSpec, match="parts is Parts"):
        batch(tmp_path, parts=Parts())
    for wrong in (4, "4,5", [], [4, 4]):
        with pytest.raises(BadSpec, match="the grid's promote_at is"):
            batch(tmp_path, grid={"promote_at": wrong})
    with pytest.raises(BadSpec, match="unknown rule 'promotion'"):
        batch(tmp_path, grid={"promotion": [4]})

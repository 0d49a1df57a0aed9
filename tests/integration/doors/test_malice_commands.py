"""`runyard malice …` as people and scripts call it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from command_line import Said, call
from malice_batch import EVENTS, NAME, write_batch
from polling import eventually

HELPERS = Path(__file__).parents[2] / "helpers"
Runyard = Callable[..., Said]


@pytest.fixture
def runyard(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runyard:
    """The command line, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return partial(call, capfd)


RUN = ("malice", "run", "--runs", "4", "--tickets", "30", "--seed", "7", "--workers", "2")


def test_a_batch_runs_and_the_same_command_again_finds_it_done(runyard: Runyard) -> None:
    first = runyard(*RUN, "--tag", "try", "--json", "--no-progress")
    assert first.code == 0
    assert first.last["batch"] == "malice-try"
    assert first.last["completed"] == 4
    assert runyard(*RUN, "--tag", "try", "--json", "--no-progress").last == first.last
    (path,) = first.last["results"]
    assert json.loads(Path(path).read_text())["experiment_metadata"]["seed"] == 7


def test_people_get_the_summary_and_what_to_type_next(runyard: Runyard) -> None:
    said = runyard(*RUN, "--tag", "try")
    assert "mallory, of runs" in said.out
    assert "runyard report malice-try" in said.out
    assert "malice-try: 4 of 4 completed in" in said.out
    assert "malice-try: already complete, 4 of 4 completed\n" in runyard(*RUN, "--tag", "try").out
    assert runyard("report", "malice-try").code == 0
    page = Path(".runyard/batches/malice-try/report.html").read_text()
    assert "Who gets promoted" in page


def test_runs_by_several_versions_of_the_parts_are_told(runyard: Runyard) -> None:
    parts = "from runyard.doors.malice import Parts\n\ndef mine():\n    return Parts()\n"
    words = ["malice", "run", "--tickets", "5", "--seed", "7", "--tag", "mine", "--no-progress"]
    words += ["--parts", "mine.py:mine", "--backend", "serial"]
    Path("mine.py").write_text(parts)
    assert "mixed code" not in runyard(*words, "--runs", "2").out
    Path("mine.py").write_text(parts.replace("    return", "    assert Parts\n    return"))
    assert "mixed code: 2 versions of mine.py:mine" in runyard(*words, "--runs", "3").out


def test_ablations_are_one_command_and_one_table(runyard: Runyard) -> None:
    said = runyard(*RUN, "--without", "civil", "--grid", "promote_at=3,4", "--no-progress")
    assert said.code == 0
    assert "without civil" in said.out
    assert "promote_at=3" in said.out
    document = runyard(*RUN, "--without", "immune", "--json", "--no-progress").last
    compared = [c for c in document["comparisons"] if c["metric"] == "votes_counted"]
    assert [c["effect"] for c in compared] == [0.0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--grid", "promote_at=many"), "not a list of numbers"),
        (("--grid", "promotion=4"), "unknown rule 'promotion'"),
        (("--without", "votes"), "votes"),
        (("--parts", "nowhere:parts"), "no module named 'nowhere'"),
        (("--tag", "../up"), "../up"),
        (("--tag", ""), "the tag is empty"),
        (("--grid", "promote_at=4,4"), "each once"),
        (("--grid", "bind_cooldown=1.5"), "whole numbers"),
    ],
)
def test_what_can_not_be_is_told_before_anything_runs(
    runyard: Runyard, words: tuple[str, str], told: str
) -> None:
    said = runyard(*RUN, *words)
    assert said.code == 2
    assert told in said.err
    assert not Path(".runyard/yard.db").exists()


def test_a_replay_counts_what_is_equal(runyard: Runyard, tmp_path: Path) -> None:
    folder = write_batch(tmp_path / "batch")
    said = runyard("malice", "replay", str(folder), "--json")
    assert said.code == 0
    document = said.last
    assert (document["runs"], document["runs_equal"]) == (1, 1)
    assert document["events_compared"] == document["events_equal"] == len(EVENTS)
    assert document["differences"] == []
    assert len(document["summary_contradictions"]) == 2
    assert "all equal" in runyard("malice", "replay", str(folder)).out


def test_a_replay_of_a_changed_log_fails_and_names_the_place(
    runyard: Runyard, tmp_path: Path
) -> None:
    folder = write_batch(tmp_path / "batch", at_root=True)
    path = folder / f"{NAME}.jsonl"
    path.write_text(path.read_text().replace('"new_count": 1.968', '"new_count": 1.969'))
    said = runyard("malice", "replay", str(folder), "--json")
    assert said.code == 1
    (difference,) = said.last["differences"]
    assert (difference["run"], difference["ticket"]) == (1, 1005)
    assert (difference["field"], difference["logged"]) == ("new_count", 1.969)
    assert "ticket #1005" in runyard("malice", "replay", str(folder)).out


def test_a_replay_of_nothing_is_not_found(runyard: Runyard, tmp_path: Path) -> None:
    said = runyard("malice", "replay", str(tmp_path), "--json")
    assert said.code == 5
    assert "has no runs" in said.last["error"]["message"]


def test_a_batch_calibrates_against_itself(runyard: Runyard) -> None:
    made = runyard(*RUN, "--tag", "try", "--json", "--no-progress").last
    words = ("malice", "calibrate", "--against", made["folder"], "--batches", "30", "--no-progress")
    said = runyard(*words, "--json")
    figures = said.last["figures"]
    assert len(figures) == 12
    assert all(f["low"] <= f["median"] <= f["high"] for f in figures)
    assert said.code == (4 if said.last["outside"] else 0)
    assert "30 simulated batches of 4 runs, 120 tickets" in runyard(*words).out


def test_a_resumed_batch_has_its_files_too(runyard: Runyard) -> None:
    folder = Path(runyard(*RUN, "--tag", "cut", "--json", "--no-progress").last["folder"])
    (folder / "batch_summary.txt").unlink()
    said = runyard("resume", "malice-cut", "--no-progress")
    assert said.code == 0
    assert str(folder) in said.out
    assert "4 of 4 completed" in (folder / "batch_summary.txt").read_text()


def test_ctrl_c_ends_with_130_and_a_summary_of_what_there_is(tmp_path: Path) -> None:
    words = ["malice", "run", "--runs", "200", "--tickets", "60", "--seed", "7", "--workers", "2",
             "--tag", "cut", "--parts", f"{HELPERS}/malice_parts.py:lingers", "--json"]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "runyard", *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "RUNYARD_YARD": str(tmp_path / "yard")},
    )  # fmt: skip
    folder = tmp_path / "yard" / "batches" / "malice-cut" / "malice"
    assert eventually(lambda: len(list(folder.glob("malice_*.jsonl"))) >= 2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    finished = json.loads(out.splitlines()[-1])["completed"]
    assert 0 < finished < 200
    assert f"{finished} of 200 completed" in (folder / "batch_summary.txt").read_text()
    assert len(list(folder.rglob("malice_*.jsonl"))) == 2 * finished
    assert not list(folder.rglob("*.partial"))

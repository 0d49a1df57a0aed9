"""`runyard repro`, `verify`, `doctor`, `gc` and `clear`."""

from __future__ import annotations

import os
import signal
import sqlite3

import pytest
from cli_project import Project, until


def change(project: Project, before: str, after: str) -> None:
    jobs = project.folder / "jobs.py"
    assert before in jobs.read_text()
    jobs.write_text(jobs.read_text().replace(before, after))


def test_repro_runs_one_task_here_and_finds_it_the_same(project: Project) -> None:
    project("run", "jobs:toss", "--grid", "coins=10,100", "--replicates", "3", "--name", "t")
    answer = project("repro", "t/4", "--json")
    assert answer.code == 0, answer.err
    assert answer.last["same"] is True
    assert answer.last["now"] == answer.last["recorded"]
    assert "same as recorded" in project("repro", "t/4").out


def test_repro_of_a_failure_shows_its_trace_and_counts_as_the_same(project: Project) -> None:
    project("run", "jobs:picky", "--grid", "x=0..3", "--name", "p")
    answer = project("repro", "p/3")
    assert answer.code == 0
    assert "is no good" in answer.out
    assert "same as recorded: failed ValueError" in answer.out


def test_repro_shows_both_where_they_differ(project: Project) -> None:
    project("run", "jobs:square", "--grid", "x=3,4", "--name", "s")
    change(project, "x * x", "x * x + 1")
    answer = project("repro", "s/1", "--json")
    assert answer.code == 1
    assert (answer.last["recorded"]["value"], answer.last["now"]["value"]) == (16, 17)
    assert "recorded: completed 16" in project("repro", "s/1").out


def test_repro_runs_the_recorded_attempt_and_records_nothing(project: Project) -> None:
    project("run", "jobs:flaky", "--set", "x=1", "--retries", "1", "--name", "f")
    before = project("results", "f", "--json").out
    assert project("repro", "f/0").code == 0
    assert project("results", "f", "--json").out == before


def test_repro_opens_the_debugger_where_a_task_fails(project: Project) -> None:
    project("run", "jobs:picky", "--grid", "x=3,7", "--name", "p")
    answer = project("repro", "p/1", "--pdb", stdin="p 'x is', x\nq\n")
    assert "('x is', 7)" in answer.out
    assert answer.code == 0
    project("run", "jobs:later", "--set", "x=5", "--name", "l")
    assert "('x is', 5)" in project("repro", "l/0", "--pdb", stdin="p 'x is', x\nq\n").out


def test_repro_works_from_another_folder(project: Project) -> None:
    (project.folder / "answer.txt").write_text("42")
    project("run", "jobs:from_file", "--name", "a")
    (project.folder / "below").mkdir()
    project.folder = project.folder / "below"
    assert project("repro", "a/0", "--yard", "../.runyard", "--json").last["now"]["value"] == 42


def test_verify_finds_a_sample_the_same_on_another_backend(project: Project) -> None:
    project("run", "jobs:toss", "--grid", "coins=1..10", "--replicates", "5", "--name", "t")
    answer = project("verify", "t", "--json")
    assert answer.code == 0, answer.err
    assert (answer.last["sampled"], answer.last["same"], answer.last["backend"]) == (5, 5, "serial")
    everything = project(
        "verify", "t", "--sample", "100%", "--backend", "processes", "--workers", "3", "--json"
    )
    assert everything.last["same"] == 50
    assert (
        project("verify", "t", "--sample", "7", "--backend", "threads", "--json").last["sampled"]
        == 7
    )
    assert [batch["batch"] for batch in project("status", "--json").last["batches"]] == ["t"]


def test_verify_names_the_first_that_differs(project: Project) -> None:
    project("run", "jobs:picky", "--grid", "x=0..9", "--name", "p")
    change(project, "return x\n\n\ndef gated", "return x if x < 6 else -x\n\n\ndef gated")
    answer = project("verify", "p", "--sample", "100%", "--json")
    assert answer.code == 1
    assert answer.last["different"] == 3
    assert answer.last["first"]["task"] == "p/6"
    assert answer.last["first"]["recorded"]["value"] == 6
    assert answer.last["first"]["now"]["value"] == -6
    assert "the first is p/6" in project("verify", "p", "--sample", "100%").out


def test_verify_takes_lists_of_tasks_too(project: Project) -> None:
    (project.folder / "list.toml").write_text(
        'name = "l"\n'
        '[[task]]\nname = "one"\nrun = "jobs:square"\nparams = {x = 1}\n'
        '[[task]]\nname = "two"\nrun = "jobs:toss"\nparams = {coins = 50}\nafter = ["one"]\n'
        '[[task]]\nname = "three"\nshell = "echo three"\n'
    )
    assert project("run", "list.toml").code == 0
    assert project("repro", "l/1").code == 0
    assert project("verify", "l", "--sample", "1", "--json").last["same"] == 1
    assert project("verify", "l", "--sample", "100%", "--json").last["same"] == 3


def test_verify_refuses_what_is_no_sample_and_what_is_not_there(project: Project) -> None:
    project("run", "jobs:square", "--set", "x=1", "--name", "s")
    for sample in ("0", "0%", "101%", "many", "nan%"):
        assert project("verify", "s", "--sample", sample).code == 2
    assert project("verify", "nope").code == 5


def test_doctor_finds_a_whole_yard_whole(project: Project) -> None:
    assert project("doctor").code == 5
    project("run", "jobs:picky", "--grid", "x=0..9", "--name", "p")
    answer = project("doctor", "--json")
    assert (answer.code, answer.last["ok"], answer.last["problems"]) == (0, True, [])


def test_doctor_repairs_a_torn_tail(project: Project) -> None:
    project("run", "jobs:picky", "--grid", "x=0..9", "--name", "p")
    log = project.batch("p") / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"seq":99,"prev":"')
    answer = project("doctor", "--json")
    assert answer.code == 0
    assert "incomplete last line" in answer.last["repaired"][0]
    assert log.read_bytes().startswith(whole)
    assert project("doctor", "--json").last["repaired"] == []


def test_doctor_finds_damage_in_a_log_and_in_the_store(project: Project) -> None:
    project("run", "jobs:picky", "--grid", "x=0..9", "--name", "p")
    log = project.batch("p") / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"is no good", b"is so good", 1))
    with sqlite3.connect(project.folder / ".runyard" / "yard.db") as database:
        database.execute("UPDATE outcomes SET attempt = 5 WHERE task = 4")
    database.close()
    answer = project("doctor", "--json")
    assert answer.code == 3
    assert any("p/4 does not match" in problem for problem in answer.last["problems"])
    assert any("events.jsonl" in problem for problem in answer.last["problems"])
    assert project("results", "p", "--json").code == 3
    (project.folder / ".runyard" / "yard.db").write_bytes(b"not a database" * 100)
    broken = project("doctor")
    assert broken.code == 3
    assert "Traceback" not in broken.err


def test_doctor_clears_away_what_a_killed_engine_left(project: Project) -> None:
    process = project.start("run", "jobs:gated", "--grid", "x=0..3", "--name", "g")
    until(lambda: project.marks() >= 1)
    run = project.folder / ".runyard" / "run"
    assert list(run.iterdir())
    assert project("doctor", "--json").last["repaired"] == []
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    project.open_gate()
    answer = project("doctor", "--json")
    assert answer.code == 0, answer.out
    assert f"pid {process.pid}" in answer.last["repaired"][0]
    assert not list(run.iterdir())


def test_gc_removes_old_workspaces_and_orphaned_folders_but_no_outcome(project: Project) -> None:
    project("run", "jobs:spacious", "--grid", "x=0..2", "--name", "w")
    orphan = project.batch("orphan")
    orphan.mkdir()
    (orphan / "file").write_text("x" * 1000)
    assert project("gc", "--json").last["removed"] == []
    dry = project("gc", "--older-than", "1ms", "--dry-run", "--json").last
    assert len(dry["removed"]) == 4
    assert orphan.exists()
    answer = project("gc", "--older-than", "1ms", "--json").last
    assert sorted(answer["removed"]) == sorted(dry["removed"])
    assert answer["bytes"] == dry["bytes"] >= 1000
    assert not orphan.exists()
    assert not list(project.batch("w").glob("tasks/*/*/workspace"))
    assert len(project("results", "w", "--json").documents) == 3
    assert project("gc", "--older-than", "long").code == 2


@pytest.mark.parametrize("age", ["7", "1.5", " 30 "])
def test_gc_asks_for_the_unit_of_an_age(project: Project, age: str) -> None:
    project("run", "jobs:square", "--set", "x=1", "--name", "s")
    answer = project("gc", "--older-than", age)
    assert answer.code == 2
    assert "has no unit" in answer.err


def test_clear_asks_and_forgets(project: Project) -> None:
    project("run", "jobs:square", "--set", "x=1", "--name", "s")
    refused = project("clear", "s")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert project("clear", "s", "--yes", "--json").last == {"cleared": "s", "outcomes": 1}
    assert project("status", "s").code == 5
    assert not project.batch("s").exists()
    assert project("clear", "s", "--yes").code == 5


def test_stop_where_nothing_runs_is_5(project: Project) -> None:
    project("run", "jobs:square", "--set", "x=1", "--name", "s")
    assert project("stop").code == 5
    assert project("stop", "s").code == 5
    assert project("stop", "nope").code == 5

"""`runyard status`, `results`, `logs` and `export`."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess

import pytest
from cli_project import Project


@pytest.fixture
def picky(project: Project) -> Project:
    assert project("run", "jobs:picky", "--grid", "x=0..7", "--name", "p", "--seed", "5").code == 1
    return project


def test_reading_an_empty_place_makes_nothing_and_exits_with_5(project: Project) -> None:
    for words in (("status",), ("status", "x"), ("results", "x")):
        answer = project(*words, "--json")
        assert (answer.code, answer.last["error"]["class"]) == (5, "NotFound")
        assert "there is no yard at .runyard" in answer.err
    assert not (project.folder / ".runyard").exists()


@pytest.mark.parametrize("command", ["status", "doctor", "worker"])
def test_an_address_of_no_known_kind_is_a_usage_error(project: Project, command: str) -> None:
    answer = project(command, "--yard", "http://x")
    assert answer.code == 2
    assert "no store for http:// addresses" in answer.err


def test_status_shows_every_batch_and_one_in_full(picky: Project) -> None:
    picky("run", "jobs:square", "--grid", "x=0..2", "--name", "s")
    table = picky("status")
    assert table.code == 0
    assert [line.split()[:4] for line in table.out.splitlines()[1:]] == [
        ["p", "finished", "8/8", "2"],
        ["s", "finished", "3/3", "0"],
    ]
    one = picky("status", "p", "--json").last
    assert (one["completed"], one["failed"], one["queued"], one["seed"]) == (6, 2, 0, 5)
    assert one["mean_seconds"] >= 0
    assert one["mean_wait"] >= 0
    assert one["digest"]
    assert "task time" in picky("status", "p").out
    assert picky("status", "nope").code == 5


def test_results_stream_as_ndjson_with_filter_and_pages(picky: Project) -> None:
    everything = picky("results", "p", "--json").documents
    assert [d["params"]["x"] for d in everything] == list(range(8))
    failed = picky("results", "p", "--status", "failed", "--json").documents
    assert [d["error"]["class"] for d in failed] == ["ValueError", "ValueError"]
    page = picky("results", "p", "--offset", "2", "--limit", "3", "--json").documents
    assert page == everything[2:5]
    assert picky("results", "p", "--status", "cancelled", "--json").code == 5
    assert picky("results", "p", "--offset", "100").code == 5
    assert picky("results", "p", "--status", "odd").code == 2


def test_results_in_a_pipe_are_one_line_each(picky: Project) -> None:
    lines = picky("results", "p").out.splitlines()
    assert len(lines) == 8
    assert lines[2] == "p/2  completed  x=2  2"
    assert lines[3] == "p/3  failed  x=3  ValueError: 3 is no good"


def test_failures_come_in_groups_with_the_command_that_reproduces_the_first(
    picky: Project,
) -> None:
    answer = picky("results", "p", "--failures")
    assert "2 × ValueError" in answer.out
    assert "runyard repro p/3" in answer.out
    [group] = picky("results", "p", "--failures", "--json").documents
    assert group["count"] == 2
    assert group["tasks"] == ["p/3", "p/7"]
    assert group["repro"] == "runyard repro p/3"
    picky("run", "jobs:square", "--set", "x=1", "--name", "s")
    none = picky("results", "s", "--failures")
    assert (none.code, none.out) == (0, "no task of s failed\n")
    nothing = picky("results", "s", "--failures", "--json")
    assert (nothing.code, nothing.out) == (0, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--failures --by x", "--failures and --by can't be combined"),
        ("--failures --metric m", "--failures and --metric can't be combined"),
        ("--failures --status failed", "--failures and --status can't be combined"),
        ("--metric m --status failed", "failed tasks have no metrics"),
        ("--by x --limit 2", "--limit lists outcomes and --by summarises them"),
        ("--metric m --offset 1", "--offset lists outcomes and --metric summarises them"),
    ],
)
def test_options_of_results_that_would_change_nothing_are_refused(
    picky: Project, options: str, said: str
) -> None:
    answer = picky("results", "p", *options.split())
    assert answer.code == 2
    assert said in answer.err


def test_pickled_values_stay_closed_without_the_word(project: Project) -> None:
    (project.folder / "sets.py").write_text("def made(x): return {x}\n")
    assert project("run", "sets:made", "--set", "x=1", "--codec", "pickle", "--name", "k").code == 0
    closed = project("results", "k", "--json")
    assert closed.code == 2
    assert "--codec pickle" in closed.last["error"]["hint"]
    assert project("results", "k", "--codec", "pickle", "--json").last["value"] == "{1}"
    assert project("repro", "k/0", "--json").last["same"] is True


def test_logs_show_what_each_attempt_printed_and_what_happened(project: Project) -> None:
    project("run", "jobs:flaky", "--grid", "x=1,2", "--retries", "1", "--name", "f")
    answer = project("logs", "f/1", "--json").last
    assert [a["stdout"] for a in answer["attempts"]] == ["attempt 0\n", "attempt 1\n"]
    assert answer["attempts"][0]["error"] == "RuntimeError: not yet"
    assert [e["event"] for e in answer["events"]] == ["TaskRetried"]
    one = project("logs", "f/1", "--attempt", "1", "--json").last
    assert [a["attempt"] for a in one["attempts"]] == [1]
    assert "RuntimeError: not yet" in project("logs", "f/1").out
    assert project("logs", "f/1", "--attempt", "5").code == 5


def test_logs_show_the_error_of_the_last_attempt_once(picky: Project) -> None:
    shown = picky("logs", "p/3").out.partition("events")[0]
    assert shown.count("ValueError: 3 is no good") == 1
    assert 'raise ValueError(f"{x} is no good")' in shown


def test_logs_can_be_had_raw(project: Project) -> None:
    project("run", "jobs:chatty", "--grid", "x=1,2", "--name", "c")
    assert project("logs", "c/0", "--only", "stdout").out == "out 1\n"
    assert project("logs", "c/1", "--only", "stderr").out == "err 2\n"
    assert "TaskEmitted" in project("logs", "c/1", "--only", "events").out


def test_logs_tell_of_a_long_output_that_is_on_another_machine(project: Project) -> None:
    (project.folder / "long.py").write_text("def long(x): print('y' * 70000)\n")
    project("run", "long:long", "--set", "x=1", "--name", "l")
    assert project("logs", "l/0", "--only", "stdout").out == "y" * 70_000 + "\n"
    (project.batch("l") / "tasks" / "0" / "0" / "stdout").unlink()
    assert "see the file on the machine that ran the task" in project("logs", "l/0").out
    raw = project("logs", "l/0", "--only", "stdout")
    assert (raw.code, raw.out) == (5, "")
    assert project("logs", "l/0", "--json").last["attempts"][0]["stdout"] is None


@pytest.mark.parametrize(
    ("task", "code"),
    [("p/99", 5), ("nope/1", 5), ("../p/1", 5), ("p", 2), ("p/x", 2), ("/1", 2), ("p/-1", 2)],
)
def test_a_task_that_is_not_there(picky: Project, task: str, code: int) -> None:
    for command in ("logs", "repro"):
        assert picky(command, task).code == code


def test_export_writes_whole_files(picky: Project) -> None:
    document = picky("export", "p", "--json").last
    assert document["outcomes"] == 8
    assert document["path"] == str(picky.batch("p") / "outcomes.json")
    outcomes = json.loads((picky.batch("p") / "outcomes.json").read_text())["outcomes"]
    assert outcomes == picky("results", "p", "--json").documents
    assert picky("export", "p", "-o", "failed.csv", "--status", "failed").code == 0
    rows = list(csv.DictReader(io.StringIO((picky.folder / "failed.csv").read_text())))
    assert [(row["task"], row["x"], row["error"]) for row in rows] == [
        ("p/3", "3", "ValueError"),
        ("p/7", "7", "ValueError"),
    ]
    assert "p/2  completed  x=2  2" in picky("export", "p", "--format", "txt", "-o", "-").out
    assert not list(picky.folder.glob("**/*.partial"))


def test_export_with_nothing_to_write_leaves_no_file(picky: Project) -> None:
    assert picky("export", "p", "--status", "cancelled", "-o", "none.csv").code == 5
    assert not (picky.folder / "none.csv").exists()
    (picky.folder / "file").touch()
    answer = picky("export", "p", "-o", "file/below.csv")
    assert answer.code == 2
    assert "Traceback" not in answer.err


def test_columns_of_a_csv_never_share_a_name(project: Project) -> None:
    (project.folder / "clash.py").write_text(
        "def f(x, status): return {'x': 10, 'status': 20, 'seconds': 30, 'own': {'x': 40}}\n"
    )
    project("run", "clash:f", "--grid", "x=1", "--grid", "status=2", "--name", "c")
    [row] = csv.DictReader(io.StringIO(project("export", "c", "--format", "csv", "-o", "-").out))
    assert (row["x"], row["value.x"], row["param.status"], row["value.status"]) == (
        "1", "10", "2", "20",
    )  # fmt: skip
    assert (row["value.seconds"], row["own.x"], row["status"]) == ("30", "40", "completed")


def test_metrics_of_tasks_that_returned_nothing_are_refused(picky: Project) -> None:
    answer = picky("results", "p", "--metric", "value", "--status", "failed")
    assert answer.code == 2
    assert "failed tasks have no metrics" in answer.err
    assert picky("results", "p", "--metric", "value", "--status", "completed").code == 0


def test_a_file_that_names_no_format_is_refused_before_anything_is_written(picky: Project) -> None:
    answer = picky("export", "p", "-o", "out.xlsx")
    assert answer.code == 2
    assert "out.xlsx" in answer.err
    assert ".parquet" in answer.err
    assert not (picky.folder / "out.xlsx").exists()
    assert picky("export", "p", "-o", "out.xlsx", "--format", "csv").code == 0


@pytest.mark.parametrize(
    "words",
    [
        *(("export", "p", "--format", kind, "-o") for kind in ("json", "csv", "parquet", "txt")),
        ("report", "p", "-o"),
    ],
)
def test_a_file_is_written_through_links_and_into_pipes(
    picky: Project, words: tuple[str, ...]
) -> None:
    file, link, pipe = (picky.folder / name for name in ("file", "link", "pipe"))
    link.symlink_to(file)
    os.mkfifo(pipe)
    assert picky(*words, "link").code == 0
    assert link.is_symlink()
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert picky(*words, "pipe").code == 0
        read, _ = reader.communicate(timeout=60)
    assert pipe.is_fifo()
    if words[0] == "export":
        assert read == file.read_bytes()
    else:
        assert read.endswith(b"</html>\n")


def test_stdout_by_its_other_name_is_stdout(picky: Project) -> None:
    words = ("export", "p", "--format", "csv", "-o")
    assert picky(*words, "/dev/stdout").out == picky(*words, "-").out
    assert "both write to stdout" in picky(*words, "/dev/stdout", "--json").err


def test_no_cell_of_a_csv_is_a_formula(project: Project) -> None:
    (project.folder / "sums.py").write_text(
        "def f(x):\n"
        "    if x == '@fail': raise ValueError('=1+1')\n"
        "    return {'=1+1': '+1', 'deep': ['-1'], 'minus': -3.5, 'text': x}\n"
    )
    project("run", "sums:f", "--grid", "x==1+1,@fail,\t=1", "--name", "s")
    text = project("export", "s", "--format", "csv", "-o", "-").out
    heads, *rows = csv.reader(io.StringIO(text))
    assert heads[3:7] == ["'=1+1", "deep", "minus", "text"]
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "\t"))]
    assert "-3.5" in rows[0]
    assert "'=1+1" in next(row for row in rows if row[1] == "failed")

"""`runyard run`: what it takes, what it says, how it ends."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest
from cli_project import Project, until

KEYS = ["batch", "total", "completed", "failed", "cancelled", "digest", "seconds"]


def test_a_function_runs_and_the_same_command_again_says_the_same_to_the_byte(
    project: Project,
) -> None:
    words = ("run", "jobs:toss", "--grid", "coins=1..5", "--replicates", "4", "--seed", "7",
             "--json")  # fmt: skip
    first = project(*words)
    assert first.code == 0, first.err
    assert list(first.last) == KEYS
    assert first.last["completed"] == first.last["total"] == 20
    assert len(first.out.splitlines()) == 1
    again = project(*words)
    assert again == (0, first.out, again.err)


def test_backends_and_worker_counts_agree(project: Project) -> None:
    digests = {
        project(
            "run", "jobs.py:toss", "--grid", "coins=1..9", "--seed", "3", "--name", f"on-{backend}",
            "--backend", backend, "--workers", workers, "--json",
        ).last["digest"]
        for backend, workers in [("serial", "1"), ("threads", "3"), ("processes", "2")]
    }  # fmt: skip
    assert len(digests) == 1


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_workers_that_a_backend_can_not_start_are_noticed(
    project: Project, more: tuple[str, ...]
) -> None:
    words = ("run", "jobs:square", "--grid", "x=1,2", "--backend", "serial", *more)
    said = "the number of workers has no effect on serial; use processes"
    many = project(*words, "--name", "many", "--workers", "4")
    assert (many.code, said in many.err) == (0, True), many.err
    for alone in ((), ("--workers", "1")):
        assert said not in project(*words, "--name", "one", *alone).err


def test_people_are_told_the_failures_the_seed_and_what_to_type_next(project: Project) -> None:
    answer = project("run", "jobs:picky", "--grid", "x=0..7", "--name", "p", "--seed", "5")
    assert answer.code == 1
    assert "p: 6 of 8 completed, 2 failed in " in answer.out
    assert "2 × ValueError: 3 is no good" in answer.out
    assert "jobs.py:" in answer.out
    assert "seed 5" in answer.out
    assert "runyard repro p/3" in answer.out
    assert "8 tasks on" in answer.err
    again = project("run", "jobs:picky", "--grid", "x=0..7", "--name", "p", "--seed", "5")
    head, rest = again.out.split("\n", 1)
    assert (again.code, rest) == (1, answer.out.split("\n", 1)[1])
    assert head == "p: already complete, 6 of 8 completed, 2 failed"


def test_the_suggested_command_names_the_yard(project: Project) -> None:
    answer = project("run", "jobs:square", "--set", "x=2", "--name", "s", "--yard", "else where")
    assert "runyard results s --yard 'else where'" in answer.out
    assert project("status", "s", RUNYARD_YARD="else where").code == 0


def test_a_value_that_has_no_place_in_a_record_is_a_usage_error(project: Project) -> None:
    answer = project("run", "jobs:unencodable", "--grid", "x=1,2", "--json")
    assert answer.code == 2
    assert "error: " in answer.err
    assert "fields" in answer.err
    assert answer.last["failed"] == 2


def test_parameters_may_have_the_names_of_options(project: Project) -> None:
    answer = project(
        "run", "jobs:named", "--grid", "name=a,b", "--grid", "seed=1,2", "--set", "params=[3]",
        "--name", "n", "--json",
    )  # fmt: skip
    assert answer.last["completed"] == 4
    values = [d["value"] for d in project("results", "n", "--json").documents]
    assert values == [["a", 1, [3]], ["a", 2, [3]], ["b", 1, [3]], ["b", 2, [3]]]


def test_a_shell_command_gets_its_parameters_quoted(project: Project) -> None:
    answer = project("run", "--shell", "printf %s {x}", "--grid", 'x="a;b",$HOME', "--name", "sh")
    assert answer.code == 0, answer.err
    values = [d["value"]["stdout"] for d in project("results", "sh", "--json").documents]
    assert values == ["a;b", "$HOME"]


def test_a_batch_file_runs_and_the_command_line_changes_it(project: Project) -> None:
    (project.folder / "sub").mkdir()
    (project.folder / "sub" / "local.py").write_text("def add(a, b): return a + b\n")
    (project.folder / "sub" / "sums.toml").write_text(
        'name = "sums"\nrun = "local.py:add"\n[params]\na = 1\n[grid]\nb = [1, 2]\n'
    )
    assert project("run", "sub/sums.toml", "--json").last["total"] == 2
    absolute = str(project.folder / "sub" / "sums.toml")
    assert project("run", absolute, "--json").last["total"] == 2
    changed = project(
        "run", "sub/sums.toml", "--set", "a=10", "--grid", "b=5..7", "--name", "other", "--json"
    )
    assert changed.last["total"] == 3
    values = [d["value"] for d in project("results", "other", "--json").documents]
    assert values == [15, 16, 17]


def test_a_decorated_function_brings_its_options(project: Project) -> None:
    assert project("run", "jobs:stubborn", "--json").code == 0
    assert project("run", "jobs:stubborn", "--retries", "0", "--name", "no", "--json").code == 1


def test_a_changed_spec_is_refused_and_fresh_starts_over(project: Project) -> None:
    assert project("run", "jobs:square", "--grid", "x=1,2", "--name", "b").code == 0
    refused = project("run", "jobs:square", "--grid", "x=2,3", "--name", "b", "--json")
    assert refused.code == 2
    assert "x: 1 is recorded, but now missing" in refused.last["error"]["message"]
    words = ("run", "jobs:square", "--grid", "x=2,3", "--name", "b", "--fresh", "--json")
    asked = project(*words)
    assert asked.code == 2
    assert "would delete 2 outcomes of b" in asked.last["error"]["message"]
    assert "--yes" in asked.last["error"]["hint"]
    assert [d["value"] for d in project("results", "b", "--json").documents] == [1, 4]
    assert project(*words, "--yes").code == 0
    assert [d["value"] for d in project("results", "b", "--json").documents] == [4, 9]


def test_changed_code_is_a_notice_even_without_progress(project: Project) -> None:
    words = ("run", "jobs:square", "--set", "x=3", "--name", "b", "--no-progress")
    assert project(*words).err == ""
    jobs = project.folder / "jobs.py"
    jobs.write_text(jobs.read_text().replace("x * x", "x * x * x"))
    answer = project(*words)
    assert answer.code == 0
    assert "has changed" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "jobs:square", "--shell", "true"],
        ["run", "jobs:nothing"],
        ["run", "nowhere:square"],
        ["run", "nowhere.py:square"],
        ["run", "not a target"],
        ["run", "missing.toml"],
        ["run", "broken.toml"],
        ["run", "unknown.toml"],
        ["run", "."],
        ["run", "jobs:square"],
        ["run", "jobs:square", "--set", "y=1"],
        ["run", "jobs:square", "--set", "x=1", "--grid", "x=1,2"],
        ["run", "jobs:square", "--grid", "x=1,1"],
        ["run", "jobs:square", "--grid", "x="],
        ["run", "jobs:square", "--set", "x"],
        ["run", "jobs:square", "--set", "x=1", "--timeout", "soon"],
        ["run", "jobs:square", "--set", "x=1", "--memory", "lots"],
        ["run", "jobs:square", "--set", "x=1", "--workers", "0"],
        ["run", "jobs:square", "--set", "x=1", "--seed", "-1"],
        ["run", "jobs:square", "--set", "x=1", "--name", "../up"],
        ["run", "jobs:square", "--set", "x=1", "--name", ".git"],
        ["run", "jobs:square", "--set", "x=1", "--name", "n" * 300],
        ["run", "jobs:square", "--set", "x=1", "--backend", "magic"],
        ["run", "--shell", "echo {x}"],
        ["run", "--shell", " "],
        ["run", "-rf"],
    ],
)
def test_a_mistake_gets_a_clear_error_and_exit_2(project: Project, words: list[str]) -> None:
    (project.folder / "broken.toml").write_text("run = [")
    (project.folder / "unknown.toml").write_text('run = "jobs:square"\nbogus = 1\n')
    answer = project(*words, "--json")
    assert answer.code == 2, answer.err
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err
    assert answer.last["error"]["exit_code"] == 2
    assert not list((project.folder / ".runyard").glob("batches/*"))


def test_stdout_carries_json_only_whatever_modules_and_tasks_print(project: Project) -> None:
    (project.folder / "loud.py").write_text(
        "import os\nprint('import')\nos.system('echo child')\n"
        "def shout(x):\n    print('task', x)\n    os.system('echo grandchild')\n    return x\n"
    )
    for backend in ("serial", "processes"):
        answer = project(
            "run", "loud:shout", "--grid", "x=1,2", "--no-capture", "--backend", backend, "--json",
            "--name", backend,
        )  # fmt: skip
        assert answer.code == 0, answer.err
        assert [d["completed"] for d in answer.documents] == [2]
        assert "child" in answer.err


def test_a_deadline_ends_the_run_with_124_and_the_rest_can_be_resumed(project: Project) -> None:
    answer = project(
        "run", "jobs:gated", "--grid", "x=0..3", "--name", "g", "--deadline", "1s", "--json"
    )
    assert answer.code == 124
    assert answer.last["digest"] is None
    assert "run `runyard resume g` to continue" in answer.err


def test_fail_fast_stops_and_says_so(project: Project) -> None:
    answer = project(
        "run", "jobs:picky", "--grid", "x=3..400", "--name", "f", "--fail-fast", "--backend",
        "serial", "--json",
    )  # fmt: skip
    assert answer.code == 1
    assert answer.last["failed"] >= 1
    assert answer.last["digest"] is None
    assert "first failure" in answer.err


def test_a_detached_run_goes_on_in_the_background(project: Project) -> None:
    answer = project("run", "jobs:gated", "--grid", "x=0..3", "--name", "d", "--detach", "--json")
    assert answer.code == 0, answer.err
    pid = answer.last["pid"]
    until(lambda: project.marks() >= 1)
    assert os.getsid(pid) == pid
    status = project("status", "d", "--json").last
    assert status["state"] == "running"
    assert [engine["pid"] for engine in status["engines"]] == [pid]
    refused = project("run", "jobs:gated", "--grid", "x=0..3", "--name", "d", "--fresh")
    assert refused.code == 2
    assert "d is running" in refused.err
    project.open_gate()
    until(lambda: project("status", "d", "--json").last["state"] == "finished")
    until(lambda: '"completed": 4' in (project.batch("d") / "run.log").read_text())


def test_a_mistake_shows_before_a_run_is_detached(project: Project) -> None:
    answer = project("run", "jobs:square", "--set", "y=1", "--detach")
    assert answer.code == 2
    assert "has no parameter 'y'" in answer.err


def test_a_reader_that_leaves_early_is_no_error(project: Project) -> None:
    project("run", "jobs:square", "--grid", "x=0..4999", "--name", "many", "--no-progress")
    for words in (("results", "many", "--json"), ("results", "many"),
                  ("export", "many", "--format", "csv", "-o", "-")):  # fmt: skip
        process = subprocess.Popen(
            project.command(*words), cwd=project.folder, env=project.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        process.stderr.close()
        assert process.wait(timeout=60) == 141


def test_a_full_stdout_is_told_and_a_closed_one_borne(project: Project) -> None:
    project("run", "jobs:square", "--grid", "x=0..9", "--name", "s", "--no-progress")
    for words in (["status"], ["status", "--json"], ["results", "s"], ["results", "s", "--json"]):
        line = f"exec {shlex.join(project.command(*words))} >"
        full, closed = (
            subprocess.run(
                ["/bin/sh", "-c", line + to], cwd=project.folder, env=project.env, text=True,
                capture_output=True, timeout=60, check=False,
            )
            for to in ("/dev/full", "&-")
        )  # fmt: skip
        assert full.returncode == 3, words
        assert full.stderr == "error: can't write to stdout: No space left on device\n"
        assert (closed.returncode, closed.stderr) == (0, ""), words


def test_an_unexpected_error_is_short_and_its_trace_is_for_those_who_ask(project: Project) -> None:
    (project.folder / "mean.toml").mkdir()
    assert project("run", "mean.toml").code == 2
    script = (
        "import sys, runyard.cli.status as s\n"
        "def broken(*a): raise KeyError('inside')\n"
        "s._all = broken\n"
        "from runyard.cli.main import main\n"
        "sys.exit(main(['status', '--json']))\n"
    )
    project("run", "jobs:square", "--set", "x=1")
    for debug in ("", "1"):
        done = subprocess.run(
            [project.command()[0], "-c", script], cwd=project.folder, text=True, timeout=60,
            env=project.env | {"RUNYARD_DEBUG": debug}, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 3
        assert "unexpected KeyError: 'inside'" in done.stderr
        assert ("Traceback" in done.stderr) == bool(debug)
        assert json.loads(done.stdout)["error"]["class"] == "KeyError"


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_what_a_command_printed_before_its_timeout_is_kept(project: Project, backend: str) -> None:
    command = "echo before; echo worse >&2; sleep 60"
    words = ("--timeout", "1s", "--backend", backend, "--name", "s")
    assert project("run", "--shell", command, *words).code == 1
    until(lambda: "before" in project("logs", "s/0").out)
    assert "worse" in project("logs", "s/0").out

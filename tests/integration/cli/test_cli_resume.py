"""`runyard resume` and `runyard retry`."""

from __future__ import annotations

import subprocess

from cli_project import Project

SCRIPT = """
import runyard as ry
ry.run(ry.grid(lambda x: x, x=[1, 2, 3], name="lambda"), backend="serial", limit=1)
"""


def submit(project: Project, name: str, priority: str) -> None:
    script = (
        "import runyard as ry\n"
        f"batch = ry.grid('jobs:square', x=[1, 2], name={name!r}, seed=1)\n"
        f"ry.Yard().submit(batch.with_options(priority={priority!r}))\n"
    )
    subprocess.run(
        [project.command()[0], "-c", script], cwd=project.folder, env=project.env, check=True,
        timeout=60,
    )  # fmt: skip


def test_resume_without_a_name_goes_on_with_everything_by_priority(project: Project) -> None:
    for name, priority in (("a", "low"), ("b", "critical"), ("c", "medium")):
        submit(project, name, priority)
    assert project("status", "--json").last["batches"][0]["state"] == "queued"
    answer = project("resume", "--json")
    assert answer.code == 0, answer.err
    assert [document["batch"] for document in answer.documents] == ["b", "c", "a"]
    nothing = project("resume")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing to resume" in nothing.err


def test_resume_of_a_finished_batch_says_what_came_out(project: Project) -> None:
    run = project("run", "jobs:picky", "--grid", "x=0..3", "--name", "p", "--json")
    assert project("resume", "p", "--json")[:2] == (1, run.out)


def test_resume_of_what_is_not_there_is_5(project: Project) -> None:
    assert project("resume", "x").code == 5
    project("run", "jobs:square", "--set", "x=1")
    answer = project("resume", "x", "--json")
    assert answer.code == 5
    assert answer.last["error"]["class"] == "NotFound"


def test_functions_by_value_need_their_script(project: Project) -> None:
    subprocess.run(
        [project.command()[0], "-c", SCRIPT], cwd=project.folder, env=project.env, check=True,
        timeout=60,
    )  # fmt: skip
    for words in (["resume"], ["resume", "lambda"], ["retry", "lambda"], ["repro", "lambda/0"]):
        answer = project(*words)
        assert answer.code == 2, words
        assert "by value" in answer.err
    submit(project, "fine", "low")
    answer = project("resume", "--json")
    assert answer.code == 0
    assert [document["batch"] for document in answer.documents] == ["lambda", "fine"]
    assert "error" in answer.documents[0]


def test_retry_runs_the_failed_ones_again_and_nothing_else(project: Project) -> None:
    assert project("run", "jobs:picky", "--grid", "x=0..7", "--name", "p").code == 1
    before = {d["task"]: d["started"] for d in project("results", "p", "--json").documents}
    jobs = project.folder / "jobs.py"
    jobs.write_text(jobs.read_text().replace("x % 4 == 3", "x == 7"))
    answer = project("retry", "p", "--json")
    assert answer.code == 1
    assert (answer.last["completed"], answer.last["failed"]) == (7, 1)
    after = {d["task"]: d["started"] for d in project("results", "p", "--json").documents}
    changed = {task for task in before if before[task] != after[task]}
    assert changed == {"p/3", "p/7"}
    assert project("retry", "p", "--status", "cancelled").code == 5

"""`runyard verify` of batches that grew, were cut short, were retried, or are lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Call
from sample_metrics import drawn

import runyard as ry

RUN = "run sample_metrics:drawn --seed 3 --name b --backend serial"
LIST = """
name = "b"
[[task]]
name = "bad"
run = "jobs.py:picky"
[[task]]
name = "after"
run = "sample_metrics:drawn"
after = ["bad"]
[[task]]
name = "good"
run = "sample_metrics:drawn"
[options]
fail_fast = true
"""
GROWN = """
[[task]]
name = "late"
run = "sample_metrics:drawn"
after = ["good"]
"""


def same(cli: Call, expected: int) -> None:
    """All that can run again was run again, and is the same."""
    said = cli("verify", "b", "--sample", "100%", "--json", "--no-progress")
    assert said.code == 0, said.err
    assert (said.last["sampled"], said.last["same"]) == (expected, expected)


@pytest.mark.parametrize("sample", ["1", "10%"])
def test_a_sample_of_a_batch_with_a_stopping_rule_adds_no_replicates(
    cli: Call, sample: str
) -> None:
    run = cli(*RUN.split(), "--grid", "x=1,2", "--until", "ci95(mean(v)) < 0.5")
    assert run.code == 0, run.err
    said = cli("verify", "b", "--sample", sample, "--json", "--no-progress")
    assert said.code == 0, said.err
    assert said.last["sampled"] == said.last["same"]


def test_a_grown_batch_is_the_same(cli: Call) -> None:
    cli(*RUN.split(), "--grid", "x=1,3")
    assert cli(*RUN.split(), "--grid", "x=1,2,3", "--replicates", "4").code == 0
    same(cli, 12)


@pytest.mark.parametrize("budget", ["tasks=5", "v=20"])
def test_what_a_budget_stopped_is_verified_as_far_as_it_went(cli: Call, budget: str) -> None:
    assert cli(*RUN.split(), "--grid", "x=4..23", "--budget", budget).code == 75
    same(cli, 5 if budget == "tasks=5" else 4)


def test_a_batch_stopped_at_its_first_failure_and_a_retried_one_are_the_same(
    cli: Call, tmp_path: Path
) -> None:
    code = "def picky(x):\n    if x == 3:\n        raise ValueError(x)\n    return x\n"
    (tmp_path / "jobs.py").write_text(code)
    words = "run jobs.py:picky --grid x=0..9 --name b --backend serial --fail-fast"
    assert cli(*words.split()).code == 1
    same(cli, 4)
    # Of another length: bytecode is told from older code by whole seconds and the file's size.
    (tmp_path / "jobs.py").write_text(code.replace("x == 3", "x == 8 + 0"))
    assert cli("retry", "b", "--backend", "serial").code == 1
    same(cli, 9)


def test_a_list_of_tasks_is_the_same_when_stopped_and_when_grown(cli: Call, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("def picky():\n    raise ValueError('no')\n")
    (tmp_path / "list.toml").write_text(LIST)
    assert cli("run", "list.toml", "--backend", "serial").code == 1
    same(cli, 1)
    options = LIST.index("[options]")
    (tmp_path / "list.toml").write_text(LIST[:options] + GROWN)
    assert cli("run", "list.toml", "--backend", "serial").code == 1
    same(cli, 3)


def test_a_list_whose_finished_tasks_were_forgotten_is_the_same(cli: Call) -> None:
    """The numbers that are left have gaps: 0 and 4 were urgent, and are forgotten."""
    urgent = {0: "high", 4: "high"}
    tasks = [ry.Task(drawn, {"x": n}, priority=urgent.get(n, "low")) for n in range(7)]
    with ry.Yard(".runyard") as yard:
        batch = ry.tasks(tasks, name="b", seed=1)
        yard.run(batch, backend="serial", budget={"tasks": 2})
        with yard.store.transaction() as tx:
            found = tx.batch("b")
            assert found is not None
            assert tx.forget(found.id) == 2
        result = yard.resume("b", backend="serial", budget={})
        assert [outcome.task for outcome in result.outcomes()] == [1, 2, 3, 5, 6]
    same(cli, 5)

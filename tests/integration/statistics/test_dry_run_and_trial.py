"""A dry run shows what would run and runs nothing; a trial runs a few and estimates the rest."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest
from command_line import Call
from sample_metrics import constant

import runyard as ry
from runyard.errors import UsageError

COSTLY = ["run", "sample_metrics:costly", "--grid", "x=0..99", "--seed", "1", "--name", "b"]
COSTLY += ["--backend", "serial"]


def recorded() -> dict[str, int]:
    with ry.Yard(".runyard") as yard:
        return {result.name: result.stats.done for result in yard.status()}


# Dry runs


def test_a_dry_run_of_a_command_runs_nothing_and_shows_it_as_the_shell_gets_it(
    cli: Call, tmp_path: Path
) -> None:
    names = [f"f{number}" for number in range(19)] + ["a b's"]
    for name in names:
        (tmp_path / name).touch()
    values = ",".join(names)
    said = cli(
        "run", "--shell", "rm {name}", "--grid", f"name={values}", "--name", "b", "--dry-run"
    )
    assert said.code == 0, said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    first, *lines = said.out.splitlines()
    assert first == "b: 20 tasks, 0 recorded, 20 left to run; the first run chooses a seed"
    assert lines[0] == "  b/0  rm f0"
    assert lines[10] == "  and 10 more"
    assert "no estimate" in lines[11]
    assert "--try 20" in lines[11]
    one = ["run", "--shell", "rm {name}", "--set", "name=a b's", "--dry-run", "--json"]
    assert shlex.split(cli(*one).last["calls"][0]["call"]) == ["rm", "a b's"]


def test_a_dry_run_of_a_function_shows_calls_and_replicates(cli: Call, tmp_path: Path) -> None:
    words = ["run", "sample_metrics:drawn", "--grid", "x=1,2", "--replicates", "2", "--dry-run"]
    document = cli(*words, "--seed", "7", "--json", "--name", "b").last
    assert document == {
        "batch": "b", "total": 4, "recorded": 0, "left": 4, "seed": 7,
        "calls": [
            {"task": "b/0", "call": "drawn(x=1)", "replicate": 0},
            {"task": "b/1", "call": "drawn(x=2)", "replicate": 0},
            {"task": "b/2", "call": "drawn(x=1)", "replicate": 1},
            {"task": "b/3", "call": "drawn(x=2)", "replicate": 1},
        ],
        "seconds": None, "workers": document["workers"], "metrics": {},
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_starts_no_workers(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.backends.processes.WorkerPool", None)
    words = ["run", "sample_metrics:drawn", "--grid", "x=1,2", "--dry-run", "--json"]
    assert cli(*words, "--workers", "1000").last["workers"] == 1000
    assert cli(*words, "--workers", "4", "--backend", "serial").last["workers"] == 1
    assert "too many workers" in cli(*words, "--workers", "100001").err


def test_a_dry_run_counts_what_is_left_estimates_from_the_record_and_changes_nothing(
    cli: Call,
) -> None:
    assert cli(*COSTLY, "--budget", "tasks=30").code == 75
    before = {p: p.stat().st_mtime_ns for p in Path(".runyard", "batches").rglob("*")}
    document = cli(*COSTLY, "--dry-run", "--json", "--budget", "cost=150").last
    assert (document["recorded"], document["left"], document["seed"]) == (30, 70, 1)
    assert document["calls"][0]["task"] == "b/30"
    assert document["metrics"] == {"cost": {"sum": 140.0, "half": 0.0}}
    assert document["seconds"] > 0
    text = cli(*COSTLY, "--dry-run", "--budget", "tasks=50").out
    assert "the budget ends the run after 20 of them" in text
    assert "estimated from 30 outcomes" in text
    fresh = cli(*COSTLY, "--dry-run", "--fresh")
    assert "100 left to run" in fresh.out
    assert "--fresh would delete 30 outcomes" in fresh.out
    grown = [word.replace("0..99", "0..119") for word in COSTLY]
    assert cli(*grown, "--dry-run", "--json").last["left"] == 90
    assert {p: p.stat().st_mtime_ns for p in Path(".runyard", "batches").rglob("*")} == before
    assert recorded() == {"b": 30}
    with ry.Yard(".runyard") as yard:
        assert yard.recorded("b").options.budget == {"tasks": 30}
        assert yard.recorded("b").row.total == 100


def test_a_dry_run_of_a_list_shows_each_task_that_is_left(cli: Call, tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(
        """
        name = "list"
        [[task]]
        name = "first"
        shell = "exit {code}"
        params = {code = 0}
        [[task]]
        run = "sample_metrics:constant"
        params = {x = 2}
        after = ["first"]
        """
    )
    calls = cli("run", "list.toml", "--dry-run", "--json").last["calls"]
    assert [call["call"] for call in calls] == ["exit 0", "constant(x=2)"]
    assert [path.name for path in tmp_path.iterdir()] == ["list.toml"]
    assert cli("run", "list.toml", "--backend", "serial", "--try", "1").code == 0
    document = cli("run", "list.toml", "--dry-run", "--json").last
    assert [call["task"] for call in document["calls"]] == ["list/1"]
    assert (document["recorded"], document["left"]) == (1, 1)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "sample_metrics:nothing_of_that_name"],
        ["run", "--shell", "rm {name}"],
        ["run", "sample_metrics:constant", "--grid", "x=1,2", "--until", "nonsense("],
        ["run", "sample_metrics:constant", "--grid", "x=1,2", "--in-workspace", "--backend",
         "threads"],
    ],
)  # fmt: skip
def test_a_dry_run_refuses_what_a_run_refuses(cli: Call, tmp_path: Path, words: list[str]) -> None:
    dry = cli(*words, "--dry-run")
    assert list(tmp_path.iterdir()) == []
    real = cli(*words)
    assert dry.code == real.code == 2
    assert dry.err == real.err


def test_a_dry_run_refuses_a_changed_batch_as_a_run_does(cli: Call) -> None:
    cli(*COSTLY, "--try", "1")
    other = [word.replace("costly", "constant") for word in COSTLY]
    dry = cli(*other, "--dry-run")
    assert dry.code == 2
    assert "another batch is recorded as 'b'" in dry.err


def test_ways_of_running_that_exclude_each_other_are_refused(cli: Call) -> None:
    said = cli(*COSTLY, "--dry-run", "--try", "2")
    assert said.code == 2
    assert "--dry-run and --try can't be combined" in said.err


# Starting over


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 50), ("y", 75, 30)])
def test_starting_over_asks_on_a_terminal(
    cli: Call, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: int
) -> None:
    cli(*COSTLY, "--budget", "tasks=50")
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    said = cli(*COSTLY, "--budget", "tasks=30", "--fresh")
    assert said.code == code
    assert "--fresh would delete 50 outcomes of b permanently. Continue?" in said.err
    assert ("nothing was deleted" in said.err) == (answer == "n")
    assert recorded() == {"b": left}


def test_starting_over_asks_nothing_where_nothing_is_recorded(cli: Call) -> None:
    for _ in range(2):
        assert cli(*COSTLY, "--fresh", "--yes").code == 0
    assert cli("run", *COSTLY[1:-4], "--name", "other", "--fresh").code == 0


def test_a_finished_batch_is_shown_as_complete_and_its_document_stays_the_same(cli: Call) -> None:
    first = cli(*COSTLY, "--json").out
    assert cli(*COSTLY, "--json").out == first
    assert cli(*COSTLY).out.startswith("b: already complete, 100 of 100 completed\n")


# Trials


def test_a_trial_records_what_it_ran_and_the_same_command_goes_on(cli: Call) -> None:
    said = cli(*COSTLY, "--try", "20", "--budget", "cost=1000")
    assert said.code == 0, said.err
    assert "20 of 100 completed" in said.out
    assert " for 80 tasks on " in said.out
    assert "cost: 160 ± 0 more of a budget of 1000" in said.out
    again = cli(*COSTLY, "--try", "20", "--json").last
    assert (again["tried"], again["left"], again["completed"]) == (20, 60, 40)
    assert again["estimate"]["seconds"] > 0
    assert cli(*COSTLY, "--json").last["completed"] == 100


def test_a_trial_whose_tasks_fail_says_how_and_has_exit_code_1(cli: Call) -> None:
    words = ["run", "sample_metrics:fails_always", "--grid", "x=0..9", "--backend", "serial"]
    said = cli(*words, "--try", "3")
    assert said.code == 1
    assert "ValueError: no luck" in said.out
    assert " for 7 tasks on " in said.out


@pytest.mark.parametrize("words", [["--budget", "money=5"], ["--metric", "money"]])
def test_a_metric_that_few_outcomes_do_not_have_is_named_and_one_that_many_lack_is_refused(
    cli: Call, words: list[str]
) -> None:
    tried = cli(*COSTLY, *words, "--try", "3")
    assert tried.code == 0, tried.err
    absent = "money: no recorded outcome has this metric; the metrics are: cost, x"
    assert absent in tried.out
    dry = cli(*COSTLY, *words, "--dry-run", "--json")
    assert (dry.code, dry.last["metrics"]) == (0, {"money": None})
    assert absent in cli(*COSTLY, *words, "--dry-run").out
    assert cli(*COSTLY, *words).code == 2
    for more in (["--dry-run"], ["--try", "3"], []):
        refused = cli(*COSTLY, *words, *more)
        assert refused.code == 2
        assert "missing from the 10 completed tasks of b" in refused.err
    assert recorded() == {"b": 10}


def test_a_run_with_a_limit_ends_after_as_many_further_outcomes(yard: ry.Yard) -> None:
    batch = ry.grid(constant, x=range(10), name="b")
    for done in (4, 8, 10):
        result = yard.run(batch, backend="serial", limit=4)
        assert result.stats.done == done
        assert result.end == ("finished" if done == 10 else "limit")
    with pytest.raises(UsageError, match="limit is 0"):
        yard.run(batch, backend="serial", limit=0)

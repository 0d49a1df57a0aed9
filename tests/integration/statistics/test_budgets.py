"""Budgets: for the batch as a whole, over every run of it; used up is an end that goes on."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from command_line import Call
from sample_metrics import costly, costly_or_fails, fails_always, noted_cost
from sample_tasks import fails_until, notes

import runyard as ry
from runyard import clock
from runyard.errors import BadSpec, MetricMissing
from runyard.events import Event, Notice
from runyard.execution import RunSettings
from runyard.schedule.budget import FIRST
from runyard.worker import YardWorker


def batch(tasks: int = 200, **more: Any) -> ry.Batch:
    return ry.grid(costly, x=range(tasks), seed=1, name="b", **more)


WORKERS = {"serial": 1, "async": 2, "threads": 2, "processes": 2, "ray": 2}


def test_a_number_of_tasks_is_kept_exactly(yard: ry.Yard, backend: str, tmp_path: Path) -> None:
    spec = ry.grid(noted_cost, params={"folder": str(tmp_path)}, x=range(500), name="b")
    place = {"backend": backend, "workers": WORKERS[backend]}
    result = yard.run(spec, **place, budget={"tasks": 37})
    assert (result.end, result.stats.completed) == ("budget", 37)
    assert len(notes(tmp_path)) == 37, "tasks ran that are not recorded"
    more = yard.resume("b", **place, budget={"tasks": 50})
    assert (more.end, more.stats.completed) == ("budget", 50)
    assert len(notes(tmp_path)) == 50


def test_a_summed_metric_is_passed_by_what_is_under_way_at_most(
    yard: ry.Yard, backend: str
) -> None:
    """With equal costs the mean foretells the rest, so that nothing is passed at all."""
    workers = WORKERS[backend]
    result = yard.run(batch(2000), backend=backend, workers=workers, budget={"cost": 101})
    assert result.end == "budget"
    spent = sum(value["cost"] for value in result.values())
    assert 101 <= spent <= 101 + 2 * workers


def test_the_sum_goes_on_over_resumes_until_it_is_raised_or_lifted(yard: ry.Yard) -> None:
    assert yard.run(batch(), backend="serial", budget={"cost": 50}).stats.completed == 25
    assert yard.resume("b", backend="serial").stats.completed == 25
    assert yard.resume("b", backend="serial", budget={"cost": 80}).stats.completed == 40
    assert yard.resume("b", backend="serial").stats.completed == 40
    last = yard.resume("b", backend="serial", budget={})
    assert (last.end, last.stats.completed) == ("finished", 200)
    with ry.Yard("memory:") as other:
        assert last.digest == other.run(batch(), backend="serial").digest


def test_the_smallest_of_several_budgets_ends_the_run(yard: ry.Yard) -> None:
    heard: list[Event] = []
    limits = {"tasks": 100, "cost": 30, "minutes": 60}
    result = yard.run(batch(), backend="serial", budget=limits, on_event=heard.append)
    assert result.stats.completed == 15
    (notice,) = [event for event in heard if isinstance(event, Notice)]
    assert notice.text == "the budget is used up (cost: 30 of 30)"


def test_minutes_count_over_every_run(yard: ry.Yard) -> None:
    """On a clock that goes on by a second whenever somebody looks at it."""
    seconds = itertools.count()
    with clock.replaced(mono=lambda: float(next(seconds))):
        first = yard.run(batch(10**5), backend="serial", budget={"minutes": 2})
    done = first.stats.done
    assert first.end == "budget"
    assert 0 < done < 10**5
    again = yard.resume("b", backend="serial")
    assert (again.end, again.stats.done) == ("budget", done)
    with clock.replaced(mono=lambda: float(next(seconds))):
        assert yard.resume("b", backend="serial", budget={"minutes": 300}).stats.done > done


def test_failed_tasks_count_as_tasks_and_cost_nothing(yard: ry.Yard) -> None:
    spec = ry.grid(costly_or_fails, x=range(100), name="b")
    result = yard.run(spec, backend="serial", budget={"tasks": 9})
    assert (result.stats.completed, result.stats.failed) == (5, 4)
    result = yard.resume("b", backend="serial", budget={"cost": 20})
    assert result.stats.completed == 20
    assert result.stats.failed in (19, 20)


def test_retries_are_part_of_their_task(yard: ry.Yard) -> None:
    spec = ry.grid(fails_until, attempts=[0, 1, 2, 3], name="b")
    options = {"retries": 3, "backoff": 0.001}
    result = yard.run(spec, backend="serial", budget={"tasks": 3}, **options)
    assert (result.end, result.stats.done) == ("budget", 3)
    assert yard.resume("b", backend="serial", budget={}).stats.completed == 4


@pytest.mark.parametrize("budget", [{"tasks": 10}, {"cost": 20}, {"tasks": 10, "cost": 20}])
def test_a_batch_that_ends_with_its_budget_is_finished(
    yard: ry.Yard, backend: str, budget: dict[str, float]
) -> None:
    result = yard.run(batch(10), backend=backend, workers=WORKERS[backend], budget=budget)
    assert result.end == "finished"
    assert result.digest is not None


@pytest.mark.parametrize("limit", [{"budget": {"money": 1}}, {"metric": "money"}])
def test_a_metric_that_nothing_returns_ends_the_run_which_goes_on_with_the_right_one(
    yard: ry.Yard, backend: str, limit: dict[str, Any]
) -> None:
    place = {"backend": backend, "workers": WORKERS[backend]}
    with pytest.raises(MetricMissing, match="metrics: cost, x"):
        yard.run(batch(2000), **place, **limit)
    done = yard.results("b").stats.completed
    assert FIRST <= done < 5 * FIRST
    with pytest.raises(MetricMissing):
        yard.resume("b", **place)
    assert yard.results("b").stats.completed == done
    right = {"budget": {"cost": 200}} if "budget" in limit else {"metric": "cost"}
    assert yard.resume("b", **place, **right).stats.completed >= 100


def test_failed_tasks_say_nothing_about_a_metric(yard: ry.Yard) -> None:
    spec = ry.grid(fails_always, x=range(50), name="b")
    assert yard.run(spec, backend="serial", budget={"cost": 1}).stats.failed == 50


def test_a_batch_that_ends_without_the_metric_says_so(yard: ry.Yard) -> None:
    listed = ry.tasks([ry.Task(costly, {"x": x}) for x in range(3)], name="b")
    with pytest.raises(MetricMissing, match="the 3 completed tasks of b"):
        yard.run(listed, backend="serial", metric="money")
    assert yard.results("b").stats.completed == 3


def test_a_worker_lets_a_batch_rest_whose_metric_is_missing(yard: ry.Yard) -> None:
    yard.submit(batch(100).with_options(budget={"money": 1}))
    yard.submit(ry.grid(costly, x=range(3), name="other"))
    said: list[str] = []
    turns = YardWorker(yard, RunSettings("serial", progress=False), say=said.append).run()
    assert (turns[0].batch, turns[0].end) == ("b", "missing metric")
    assert turns[1].batch == "other"
    assert yard.results("other").stats.completed == 3
    assert "pausing b: the budget needs the metric 'money'" in said[0]


def test_a_batch_with_a_budget_is_verified_all_the_same(cli: Call) -> None:
    assert cli(*WORDS, "--budget", "tasks=7").code == 75
    assert cli("verify", "b", "--sample", "100%", "--json").last["same"] == 7


def test_gains_do_not_use_a_budget_up(yard: ry.Yard) -> None:
    spec = ry.grid(costly, params={"cost": -1.0}, x=range(50), name="b")
    assert yard.run(spec, backend="serial", budget={"cost": 5}).end == "finished"


def test_a_listed_batch_has_a_budget_too(yard: ry.Yard) -> None:
    listed = ry.tasks([ry.Task(costly, {"x": x}) for x in range(20)], name="b")
    result = yard.run(listed, backend="processes", workers=2, budget={"tasks": 7})
    assert (result.end, result.stats.completed) == ("budget", 7)
    assert yard.resume("b", backend="serial", budget={}).stats.completed == 20


@pytest.mark.parametrize(
    "budget",
    [{"minute": 5}, {"task": 5}, {"Tasks": 5}, {"mins": 5}, {"hour": 1},
     {"tasks": 0}, {"tasks": -1}, {"tasks": float("nan")}, {"tasks": float("inf")}, {"tasks": "9"},
     {"tasks": True}, {"": 5}, {3: 5}, [("tasks", 5)], 5, {"cost": None}],
)  # fmt: skip
def test_what_is_no_budget_is_refused(yard: ry.Yard, budget: Any) -> None:
    with pytest.raises(BadSpec, match="budget"):
        yard.run(batch(), backend="serial", budget=budget)
    assert yard.status() == []


# On the command line

WORDS = ["run", "sample_metrics:costly", "--grid", "x=0..39", "--seed", "1", "--name", "b"]
WORDS += ["--backend", "serial"]


def test_the_command_exits_75_and_says_how_to_go_on(cli: Call) -> None:
    said = cli(*WORDS, "--budget", "tasks=7", "--json")
    assert said.code == 75
    assert (said.last["completed"], said.last["digest"]) == (7, None)
    assert "the budget is used up (tasks: 7 of 7)" in said.err
    assert "recorded; run `runyard resume b --budget" in said.err
    assert cli("resume", "b", "--json", "--backend", "serial").code == 75
    said = cli("resume", "b", "--budget", "cost=40", "--json", "--backend", "serial")
    assert (said.code, said.last["completed"]) == (75, 20)
    said = cli("resume", "b", "--budget", "none", "--json", "--backend", "serial")
    assert (said.code, said.last["completed"]) == (0, 40)
    again = cli(*WORDS, "--budget", "tasks=7", "--json")
    assert (again.code, again.last) == (0, said.last)


@pytest.mark.parametrize("words", [["--budget", "money=5"], ["--metric", "money"]])
def test_the_command_exits_2_for_a_metric_that_is_not_there(cli: Call, words: list[str]) -> None:
    said = cli(*WORDS, *words, "--json")
    assert said.code == 2
    assert said.last["error"]["class"] == "MetricMissing"
    assert "their metrics: cost, x" in said.err
    assert cli("status", "b", "--json").last["completed"] == FIRST
    words[-1] = words[-1].replace("money", "cost")
    assert cli("resume", "b", *words, "--backend", "serial").code in (0, 75)


def test_the_command_that_ends_with_its_budget_exits_0(cli: Call) -> None:
    assert cli(*WORDS, "--budget", "tasks=40", "--budget", "cost=80").code == 0


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        ("x", "'x' is not NAME=NUMBER"),
        ("tasks=", "'tasks=' is not NAME=NUMBER"),
        ("tasks=abc", "'tasks=abc' is not NAME=NUMBER"),
        ("=5", "'=5' is not NAME=NUMBER"),
        ("tasks=-1", "tasks is -1.0"),
        ("tasks=0", "tasks is 0.0"),
        ("tasks=nan", "tasks is nan"),
        ("minute=5", "'minute' is not a unit; did you mean 'minutes'?"),
    ],
)
def test_the_command_refuses_what_is_no_budget(cli: Call, budget: str, text: str) -> None:
    said = cli(*WORDS, "--budget", budget)
    assert said.code == 2
    assert text in said.err
    assert not Path(".runyard", "yard.db").exists()

"""`until`: replicates are added until a condition holds, to the same digest however it is run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import Call
from polling import eventually
from sample_metrics import (
    constant,
    drawn,
    fails_always,
    fails_at_first,
    flips,
    never,
    played,
    waits_in_the_middle,
)
from sample_tasks import notes

import runyard as ry
from runyard import clock
from runyard.errors import BadSpec, BadTarget, MetricMissing, NotFound, UsageError
from runyard.events import BatchStarted, Event, Notice
from runyard.schedule.registration import add_replicates

NARROW = "ci95(mean(v)) < 0.3"


def batch(name: str = "u", **more: Any) -> ry.Batch:
    return ry.grid(drawn, x=[1.0, 2.0], seed=3, name=name, **more)


@pytest.fixture(scope="module")
def digest() -> str:
    """What the batch comes to on the plainest backend."""
    with ry.Yard("memory:") as yard:
        found = yard.run(batch(), backend="serial", until=NARROW).digest
    assert found is not None
    return found


def test_replicates_are_added_until_every_group_meets_the_condition(yard: ry.Yard) -> None:
    heard: list[Event] = []
    result = yard.run(batch(), backend="serial", until=NARROW, on_event=heard.append)
    assert result.end == "finished"
    groups = result.summaries("v", "x")
    counts = {g.summaries["v"].count for g in groups}
    assert len(counts) == 1
    assert 50 <= counts.pop() < 400
    assert all(g.summaries["v"].interval().half < 0.3 for g in groups)  # type: ignore[union-attr]
    said = [event.text for event in heard if isinstance(event, Notice)]
    assert said[-1].endswith("< 0.3: yes")
    assert all(text.endswith("< 0.3: no") for text in said[:-1])


@pytest.mark.parametrize(("backend", "workers"), [("processes", 2), ("threads", 3), ("async", 2)])
def test_every_backend_comes_to_the_same_digest(
    yard: ry.Yard, digest: str, backend: str, workers: int
) -> None:
    result = yard.run(batch(), backend=backend, workers=workers, until=NARROW)
    assert result.digest == digest


def test_the_batch_is_the_one_that_asks_for_so_many_replicates(yard: ry.Yard, digest: str) -> None:
    grown = yard.run(batch(), backend="serial", until=NARROW)
    assert grown.recorded.plan is not None
    replicates = grown.recorded.plan.replicates
    plain = yard.run(batch("plain", replicates=replicates), backend="serial")
    assert plain.digest == grown.digest == digest


def test_the_same_run_again_does_nothing_more(yard: ry.Yard, tmp_path: Path, digest: str) -> None:
    yard.run(batch(), backend="serial", until=NARROW)
    heard: list[Event] = []
    again = yard.run(batch(), backend="serial", until=NARROW, on_event=heard.append)
    assert again.digest == digest
    assert [type(event) for event in heard] == [Notice]


def test_a_batch_named_after_its_spec_goes_on_too(yard: ry.Yard) -> None:
    spec = ry.grid(drawn, x=[1.0], seed=3)
    first = yard.run(spec, backend="serial", until=NARROW)
    again = yard.run(spec, backend="serial", until=NARROW)
    assert (again.name, again.digest) == (first.name, first.digest)
    assert len(yard.status()) == 1


def test_a_stricter_condition_goes_on_from_there(yard: ry.Yard) -> None:
    loose = yard.run(batch(), backend="serial", until=NARROW)
    before = list(loose.values())
    strict = yard.run(batch(), backend="serial", until="ci95(mean(v)) < 0.2")
    assert strict.stats.total > len(before)
    assert list(strict.values())[: len(before)] == before


@pytest.mark.parametrize("tasks", [2, 100, 150])
def test_a_budget_ends_it_and_resuming_without_comes_to_the_same_end(
    yard: ry.Yard, digest: str, tasks: int
) -> None:
    """2 and 100 are where replicates have just been added, 150 is in the middle of them."""
    result = yard.run(batch(), backend="serial", until=NARROW, budget={"tasks": tasks})
    assert (result.end, result.stats.completed, result.digest) == ("budget", tasks, None)
    again = yard.resume("u", backend="serial")
    assert (again.end, again.stats.completed) == ("budget", tasks)
    assert yard.resume("u", backend="serial", budget={}).digest == digest


def test_a_condition_that_never_holds_ends_with_its_budget(yard: ry.Yard) -> None:
    for until in ("mean(v) > 1e9", "ci95(mean(v)) < 0.3"):
        spec = ry.grid(never, name="n")
        result = yard.run(spec, backend="serial", until=until, budget={"tasks": 300}, fresh=True)
        assert (result.end, result.stats.done) == ("budget", 300)


def test_each_round_without_a_budget_runs_more_tasks(yard: ry.Yard) -> None:
    """A condition that can't hold must not turn in place."""
    rounds: list[int] = []

    def watch(event: Event) -> None:
        if isinstance(event, Notice):
            rounds.append(yard.results("n").stats.done)
        elif len(rounds) >= 5:
            yard.stop("n")

    spec = ry.grid(never, name="n")
    result = yard.run(spec, backend="threads", until="mean(v) > 0", on_event=watch)
    assert result.end == "stopped"
    assert rounds == sorted(set(rounds))


def test_a_deadline_is_for_all_rounds_together(yard: ry.Yard) -> None:
    """The clock leaps by an hour whenever replicates are added, and stands still otherwise."""
    hours = 0

    def watch(event: Event) -> None:
        nonlocal hours
        hours += isinstance(event, BatchStarted)

    spec = ry.grid(drawn, seed=1, name="n")
    limits = {"until": "ci95(mean(v)) < 1e-9", "deadline": "3h", "budget": {"tasks": 40_000}}
    with clock.replaced(mono=lambda: 3600.0 * hours):
        result = yard.run(spec, backend="serial", on_event=watch, **limits)
    assert result.end == "deadline"


def test_constant_values_end_it_at_a_thousand(yard: ry.Yard) -> None:
    """Values that have all been equal say nothing about their spread, at first."""
    result = yard.run(ry.grid(constant, name="c"), backend="serial", until=NARROW)
    assert result.stats.completed == 1000


def test_a_condition_without_intervals_holds_as_soon_as_it_does(yard: ry.Yard) -> None:
    result = yard.run(batch(), backend="serial", until="count(v) >= 60")
    assert {g.summaries["v"].count for g in result.summaries("v", "x")} == {100}
    assert yard.run(batch("o"), backend="serial", until="failed < 1%").stats.total == 2


def test_cases_are_taken_together_and_variants_apart(yard: ry.Yard) -> None:
    variants = [{"name": name, "edge": edge} for name, edge in (("bold", 0.5), ("shy", 0.0))]
    cases = [{"hands": 1}, {"hands": 2}]
    spec = ry.batch(played, variants, cases, seed=1, name="g")
    heard: list[Event] = []
    yard.run(spec, backend="serial", until="ci95(profit) < 2", on_event=heard.append)
    said = [event.text for event in heard if isinstance(event, Notice)]
    assert said[-1].startswith("variant=bold: ci95(mean(profit)) = ")
    counts = [g.summaries["profit"].count for g in yard.results("g").summaries("profit", "variant")]
    assert counts[0] == counts[1]
    assert counts[0] % 2 == 0


def test_many_variants_of_several_parameters_are_not_multiplied(yard: ry.Yard) -> None:
    def three(ctx: ry.Context, name: str, a: int, b: int) -> dict[str, float]:
        return {"v": float(ctx.rng.normal())}

    variants = [{"name": f"v{i}", "a": i, "b": -i} for i in range(60)]
    spec = ry.batch(three, variants, seed=1, name="g")
    assert yard.run(spec, backend="serial", until="count(v) >= 2").stats.total == 3000


# Failures


def test_a_metric_that_is_not_there_is_an_error_after_the_first_tasks(yard: ry.Yard) -> None:
    for text in (
        "is missing from the 2 completed tasks of u",
        "no task of u",
    ):  # the second time, all have run
        with pytest.raises(MetricMissing, match=rf"'w', which {text}[\s\S]*their metrics: v"):
            yard.run(batch(), backend="serial", until="ci95(mean(w)) < 0.3")
        assert yard.results("u").stats.done == 2
    assert yard.run(batch(), backend="serial", until=NARROW).digest is not None


def test_tasks_that_all_fail_end_it_with_an_error(yard: ry.Yard) -> None:
    with pytest.raises(NotFound, match="the tasks return no number"):
        yard.run(ry.grid(fails_always, name="f"), backend="serial", until=NARROW)
    assert yard.results("f").stats.failed == 50


def test_one_unlucky_first_task_ends_nothing(yard: ry.Yard) -> None:
    result = yard.run(ry.grid(fails_at_first, seed=1, name="f"), backend="serial", until=NARROW)
    assert result.stats.failed == 1
    assert result.stats.completed > 50


def test_a_rate_is_what_booleans_make_or_the_rule_declares(yard: ry.Yard) -> None:
    def tried(ctx: ry.Context) -> dict[str, Any]:
        won = bool(ctx.rng.random() < 0.5)
        return {"won": won, "count": int(won)}

    ends = {}
    for until in ("ci95(won) < 0.1", "ci95(rate(count)) < 0.1", "ci95(count) < 0.1"):
        spec = ry.grid(tried, seed=1, name=f"b{len(ends)}")
        ends[until] = yard.run(spec, backend="serial", until=until).stats.total
    rate, declared, mean = ends.values()
    assert rate == declared != mean
    with pytest.raises(UsageError, match="v is not a rate: it has values other than 0 and 1"):
        yard.run(batch(), backend="serial", until="ci95(rate(v)) < 0.1")


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("ci95(", "can't be read"),
        ("mean(v)", "found only a number"),
        ("", "is empty"),
        ("ci95(mean(v)) < 0", "no interval is ever narrower than 0"),
        ("ci95(mean(v)) <= 0%", "no interval is ever narrower than 0"),
        ("low95(new - old) > 0", "compares sides, but a stop rule is about one batch"),
        ("p < 0.05", "compares sides, but a stop rule is about one batch"),
    ],
)
def test_a_bad_condition_is_refused_before_anything_runs_or_is_lost(
    yard: ry.Yard, until: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        yard.run(batch(), backend="serial", until=until)
    assert yard.status() == []
    kept = yard.run(batch(), backend="serial").digest
    with pytest.raises(UsageError, match=words):
        yard.run(batch(), backend="serial", until=until, fresh=True)
    with pytest.raises(UsageError, match=words):
        yard.resume("u", backend="serial", until=until)
    assert yard.results("u").digest == kept
    assert yard.recorded("u").options.until is None


def test_a_list_of_tasks_is_refused(yard: ry.Yard) -> None:
    listed = ry.tasks([ry.Task(drawn, {"x": 1.0})], name="l")
    with pytest.raises(BadSpec, match="no replicates to add"):
        yard.run(listed, backend="serial", until=NARROW)
    assert yard.status() == []
    yard.run(listed, backend="serial")
    with pytest.raises(BadSpec, match="no replicates to add"):
        yard.resume("l", backend="serial", until=NARROW)
    assert yard.resume("l", backend="serial").stats.completed == 1


def test_functions_by_value_grow_only_where_the_function_is(yard: ry.Yard) -> None:
    def local(ctx: ry.Context) -> dict[str, float]:
        return {"v": float(ctx.rng.normal())}

    spec = ry.grid(local, seed=1, name="b")
    grown = yard.run(spec, backend="serial", until="ci95(mean(v)) < 0.4")
    with pytest.raises(BadTarget, match="travels by value"):
        yard.resume("b", backend="serial", until="ci95(mean(v)) < 0.2")
    assert yard.results("b").stats.total == grown.stats.total
    assert yard.resume("b", backend="serial", until="ci95(mean(v)) < 0.4").digest == grown.digest


def test_pickled_values_are_not_looked_at_without_the_word(yard: ry.Yard) -> None:
    spec = batch(codec="pickle")
    done = yard.run(spec, backend="serial", until=NARROW).stats.total
    for options in ({"until": "ci95(mean(v)) < 0.2"}, {"budget": {"v": 1}}, {"metric": "v"}):
        with pytest.raises(UsageError, match="pickled"):
            yard.resume("u", backend="serial", **options)  # type: ignore[arg-type]
    more = yard.resume("u", backend="serial", until="ci95(mean(v)) < 0.2", codec="pickle")
    assert more.stats.total > done


# Several engines, and engines that die


def test_two_engines_at_once_come_to_the_same_digest(tmp_path: Path, digest: str) -> None:
    found: list[str | None] = []

    def run() -> None:
        with ry.Yard(tmp_path / "yard") as yard:
            found.append(yard.run(batch(), backend="threads", workers=2, until=NARROW).digest)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [digest, digest]


def test_an_engine_that_looks_late_takes_nothing_back(yard: ry.Yard) -> None:
    yard.run(batch(), backend="serial")
    late = yard.recorded("u")
    with yard.store.transaction() as tx:
        add_replicates(tx, late, 120)
    with yard.store.transaction() as tx:
        assert add_replicates(tx, late, 50).row.total == 240
    assert yard.recorded("u").row.total == 240


def words_of(folder: Path) -> list[str]:
    given = f"run sample_metrics:waits_in_the_middle --set folder={folder} --seed 5 --name m"
    return [*given.split(), "--until", "ci95(mean(v)) < 0.25", "--json"]


def start(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    source = Path(ry.__file__).parents[1]
    helpers = Path(sys.modules["sample_metrics"].__file__ or "").parent
    paths = os.pathsep.join([str(source), str(helpers)])
    return subprocess.Popen(
        [sys.executable, "-m", "runyard", *words], cwd=folder, text=True,
        env={**os.environ, "PYTHONPATH": paths, **env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def unbroken(folder: Path) -> str | None:
    with ry.Yard("memory:") as yard:
        spec = ry.grid(waits_in_the_middle, params={"folder": str(folder)}, seed=5, name="m")
        return yard.run(spec, backend="serial", until="ci95(mean(v)) < 0.25").digest


def test_after_ctrl_c_in_the_middle_resume_comes_to_the_same_end(cli: Call, tmp_path: Path) -> None:
    process = start(tmp_path, *words_of(tmp_path), "--workers", "2")
    assert eventually(lambda: notes(tmp_path) == ["here"])
    process.send_signal(signal.SIGINT)
    (tmp_path / "release").touch()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert '"digest": null' in out
    said = cli("resume", "m", "--json", "--backend", "serial")
    assert said.code == 0, said.err
    assert said.last["digest"] == unbroken(tmp_path)


def test_after_a_kill_the_same_command_comes_to_the_same_end(cli: Call, tmp_path: Path) -> None:
    (tmp_path / "release").touch()
    process = start(tmp_path, *words_of(tmp_path), RUNYARD_FAULT="commit:8:kill")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    with ry.Yard(tmp_path / ".runyard") as yard:
        assert yard.results("m").digest is None or yard.results("m").stats.total < 100
    said = cli(*words_of(tmp_path), "--backend", "serial")
    assert said.code == 0, said.err
    assert said.last["digest"] == unbroken(tmp_path)


# On the command line


def test_the_command_ends_as_its_budget_does_and_goes_on(cli: Call, digest: str) -> None:
    words = ["run", "sample_metrics:drawn", "--grid", "x=1.0,2.0", "--seed", "3", "--name", "u"]
    words += ["--until", NARROW, "--backend", "serial", "--json"]
    said = cli(*words, "--budget", "tasks=100")
    assert said.code == 75
    assert "the budget is used up (tasks: 100 of 100)" in said.err
    assert said.last["digest"] is None
    assert cli(*words, "--budget", "tasks=100").code == 75
    said = cli(*words)
    assert (said.code, said.last["digest"]) == (0, digest)
    assert cli(*words).last == said.last


def test_the_command_refuses_what_can_not_be(cli: Call) -> None:
    words = ["run", "sample_metrics:drawn", "--name", "u", "--backend", "serial", "--until"]
    said = cli(*words, "ci95(mean(v) < 1")
    assert said.code == 2
    assert "    ci95(mean(v) < 1\n                 ^" in said.err
    said = cli(*words, "ci95(mean(w)) < 1")
    assert said.code == 2
    assert "their metrics: v" in said.err
    with ry.Yard(".runyard") as yard:
        assert [result.stats.total for result in yard.status()] == [1]


def test_a_retry_in_the_middle_is_seen_by_the_next_look(yard: ry.Yard, tmp_path: Path) -> None:
    spec = ry.grid(flips, params={"folder": str(tmp_path)}, x=[0, 1], name="b")
    until = "count(a) >= 60"
    first = yard.run(spec, backend="serial", until=until, budget={"tasks": 100})
    assert first.stats.failed == 50
    (tmp_path / "mended").touch()
    yard.retry("b")
    last = yard.resume("b", backend="serial", budget={})
    counts = [g.summaries["a"].count for g in last.summaries("a", "x")]
    assert min(counts) >= 60

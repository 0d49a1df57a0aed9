"""A dry run says what a batch would take and leaves nothing; progress shows a chosen metric."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Call
from sample_metrics import constant, drawn, fails_always

import runyard as ry
from runyard.events import BatchStarted, Progress
from runyard.reports import progress as progress_module
from runyard.reports.progress import PlainView, metric_text

WORDS = ["run", "sample_metrics:costly", "--grid", "x=0..99", "--seed", "1", "--name", "b"]
WORDS += ["--backend", "serial"]


def test_a_dry_run_leaves_nothing_behind(cli: Call, tmp_path: Path) -> None:
    said = cli(*WORDS, "--dry-run")
    assert said.code == 0, said.err
    assert said.out.startswith("100 of 100 tasks to run on 1 workers: about ")
    assert "from 20 tasks tried, 0 of which failed" in said.out
    assert "cost: 200 ± 0 in all" in said.out
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_as_json_adds_up_what_the_budget_is_about(cli: Call) -> None:
    said = cli(*WORDS, "--dry-run", "--json", "--budget", "cost=50")
    document = said.last
    assert set(document) == {
        "batch", "total", "left", "workers", "tried", "failed", "seconds", "metrics",
    }  # fmt: skip
    assert (document["batch"], document["total"], document["left"]) == ("b", 100, 100)
    assert document["metrics"] == {"cost": {"sum": 200.0, "half": 0.0}}
    assert document["tried"] == 20
    assert document["seconds"] > 0


def test_a_dry_run_counts_what_is_left_and_changes_nothing(cli: Call) -> None:
    cli(*WORDS, "--budget", "tasks=30")
    before = {p: p.stat().st_mtime_ns for p in Path(".runyard", "batches").rglob("*")}
    assert cli(*WORDS, "--dry-run", "--json").last["left"] == 70
    assert cli(*WORDS, "--dry-run", "--json", "--fresh").last["left"] == 100
    assert {p: p.stat().st_mtime_ns for p in Path(".runyard", "batches").rglob("*")} == before
    with ry.Yard(".runyard") as yard:
        assert [r.stats.done for r in yard.status()] == [30]
        assert yard.recorded("b").options.budget == {"tasks": 30}


def test_a_dry_run_of_tasks_that_fail_says_how(cli: Call) -> None:
    words = ["run", "sample_metrics:fails_always", "--grid", "x=0..9", "--backend", "serial"]
    said = cli(*words, "--dry-run")
    assert said.code == 0
    assert "from 10 tasks tried, 10 of which failed" in said.out
    assert "ValueError: no luck" in said.out
    assert cli(*words, "--dry-run", "--json").last["failed"] == 10


# Progress


def test_a_callback_sees_the_mean_and_its_interval(yard: ry.Yard) -> None:
    seen: list[Progress] = []
    spec = ry.grid(drawn, x=[2.0], replicates=50, seed=1, name="b")
    result = yard.run(spec, backend="serial", metric="v", progress=seen.append)
    (group,) = result.summaries("v")
    summary = group.summaries["v"]
    interval = summary.interval()
    assert interval is not None
    assert seen[-1].metric == ("v", pytest.approx(summary.mean), pytest.approx(interval.half))


def test_without_a_metric_none_is_shown(yard: ry.Yard) -> None:
    seen: list[Progress] = []
    spec = ry.grid(constant, x=range(5), name="b")
    yard.run(spec, backend="serial", progress=seen.append)
    assert {progress.metric for progress in seen} == {None}


def test_one_value_and_failures_show_no_interval(yard: ry.Yard) -> None:
    for function in (constant, fails_always):
        seen: list[Progress] = []
        spec = ry.grid(function, name=function.__name__)
        yard.run(spec, backend="serial", metric="v", progress=seen.append)
        assert {progress.metric for progress in seen} == {None}


def test_what_earlier_runs_found_is_part_of_the_mean(yard: ry.Yard) -> None:
    spec = ry.grid(drawn, x=[0.0, 100.0], replicates=10, seed=1, name="b")
    yard.run(spec, backend="serial", budget={"tasks": 12})
    seen: list[Progress] = []
    result = yard.resume("b", backend="serial", budget={}, metric="v", progress=seen.append)
    assert seen[-1].metric is not None
    assert seen[-1].metric[1] == pytest.approx(result.summaries("v")[0].summaries["v"].mean)


def test_a_plain_line_shows_the_metric(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "PLAIN_SECONDS", 0.0)
    view = PlainView()
    view.handle(BatchStarted(batch="b", total=9, seed=1, backend="serial", workers=1))
    view.handle(
        Progress(
            batch="b", total=9, completed=4, failed=0, cancelled=0, running=1, retrying=0,
            workers=1, rate=0.0, eta=None, elapsed=1.0, metric=("profit", 0.11234, 0.0098),
        )
    )  # fmt: skip
    view.close()
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "b: 4/9 (44%) · 1 worker · profit 0.1123 ± 0.0098"
    assert metric_text("v", 5.0, 0.0) == "v 5 ± 0"


def test_the_command_shows_the_metric_on_its_progress_line(
    cli: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "PLAIN_SECONDS", 0.0)
    said = cli(*WORDS, "--metric", "cost")
    assert said.code == 0
    assert "cost 2 ± 0" in said.err

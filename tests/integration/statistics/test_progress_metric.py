"""Progress shows a chosen metric."""

from __future__ import annotations

import pytest
from command_line import Call
from sample_metrics import constant, drawn, fails_always

import runyard as ry
from runyard.events import BatchStarted, Progress
from runyard.reports import progress as progress_module
from runyard.reports.progress import PlainView, metric_text

WORDS = ["run", "sample_metrics:costly", "--grid", "x=0..99", "--seed", "1", "--name", "b"]
WORDS += ["--backend", "serial"]


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

"""Summaries by parameter, variant and case: the same figures as numpy and polars give."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl
import pytest
from command_line import Call
from sample_metrics import constant, drawn, fails_always, played, shaped
from sample_tasks import double

import runyard as ry
from runyard.errors import NotFound, UsageError
from runyard.reports import metrics as metrics_module

VARIANTS = [{"name": "bold", "edge": 0.5}, {"name": "shy", "edge": 0.0}]


def frame(result: ry.Result, metric: str) -> pl.DataFrame:
    """The outcomes as a person would collect them."""
    rows = [{**o.labels, metric: o.value[metric]} for o in result.outcomes("completed")]
    return pl.DataFrame(rows)


def check(result: ry.Result, metric: str, by: list[str]) -> None:
    """Each group's figures against polars and numpy."""
    data = frame(result, metric)
    groups = result.summaries(metric, by)
    expected = data.group_by(by, maintain_order=True).all() if by else None
    assert len(groups) == (1 if expected is None else len(expected))
    for group in groups:
        mine = data
        for name, value in group.labels.items():
            mine = mine.filter(pl.col(name) == value)
        values = mine[metric].cast(pl.Float64).to_numpy()
        summary = group.summaries[metric]
        assert summary.count == len(values)
        assert summary.mean == pytest.approx(np.mean(values), rel=1e-12)
        assert summary.moments.minimum == values.min()
        assert summary.moments.maximum == values.max()
        assert summary.quantiles.quantile(0.25) == pytest.approx(np.quantile(values, 0.25))
        if len(values) > 1:
            assert summary.moments.sd == pytest.approx(np.std(values, ddof=1), rel=1e-9)


@pytest.mark.parametrize("by", [[], ["x"], ["y"], ["x", "y"], ["y", "x"], ["replicate"]])
def test_a_grid_is_told_apart_by_any_of_its_parameters(yard: ry.Yard, by: list[str]) -> None:
    batch = ry.grid(drawn, x=[0.0, 5.0], y=[1.0, 2.0, 3.0], replicates=7, seed=1, name="b")
    check(yard.run(batch, backend="serial"), "v", by)


@pytest.mark.parametrize("by", [["variant"], ["case"], ["hands"], ["variant", "case"], ["edge"]])
def test_variants_and_cases_are_told_apart(yard: ry.Yard, by: list[str]) -> None:
    cases = [{"hands": 1}, {"hands": 3}, {"hands": 9}]
    batch = ry.batch(played, VARIANTS, cases, replicates=5, seed=1, name="b")
    result = yard.run(batch, backend="serial")
    if by == ["edge"] or by == ["hands"]:
        assert [g.summaries["profit"].count for g in result.summaries("profit", by)] == (
            [15, 15] if by == ["edge"] else [10, 10, 10]
        )
    else:
        check(result, "profit", by)


def test_groups_come_in_the_order_in_which_the_author_lists_them(yard: ry.Yard) -> None:
    for xs in ([3.0], [1.0, 3.0, 2.0]):
        batch = ry.grid(drawn, x=xs, replicates=3, seed=1, name="b")
        result = yard.run(batch, backend="serial")
    assert [g.labels["x"] for g in result.summaries("v", "x")] == [1.0, 3.0, 2.0]
    check(result, "v", ["x"])


def test_a_plan_that_grew_every_way_is_summarised_as_if_it_had_been_so_from_the_start(
    yard: ry.Yard,
) -> None:
    steps: list[dict[str, Any]] = [
        {"x": [1.0], "y": [5.0], "replicates": 2},
        {"x": [2.0, 1.0], "y": [5.0], "replicates": 2},
        {"x": [2.0, 1.0], "y": [4.0, 5.0, 6.0], "replicates": 3},
        {"x": [2.0, 1.0, 0.0], "y": [4.0, 5.0, 6.0], "replicates": 6},
    ]
    for step in steps:
        grown = yard.run(ry.grid(drawn, seed=1, name="grown", **step), backend="serial")
    whole = yard.run(ry.grid(drawn, seed=1, name="whole", **steps[-1]), backend="serial")
    assert grown.digest == whole.digest
    for by in ([], ["x"], ["y"], ["x", "y"], ["x", "y", "replicate"]):
        mine, theirs = (
            [
                (g.labels, g.summaries["v"].line(), g.summaries["v"].moments.sd)
                for g in r.summaries("v", by)
            ]
            for r in (grown, whole)
        )
        assert mine == theirs


def test_a_listed_batch_is_told_apart_by_what_its_tasks_are_given(yard: ry.Yard) -> None:
    listed = [ry.Task(drawn, {"x": float(i % 2)}, name=f"t{i}") for i in range(6)]
    listed += [ry.Task(double, {"x": 4})]
    result = yard.run(ry.tasks(listed, name="b", seed=3), backend="serial")
    groups = {g.labels["x"]: g.summaries for g in result.summaries(None, "x")}
    assert set(groups) == {0.0, 1.0, 4}
    values = [o.value["v"] for o in result.outcomes() if o.params["x"] == 1.0]
    assert groups[1.0]["v"].mean == pytest.approx(np.mean(values))
    assert groups[4]["value"].mean == 8.0
    assert [g.labels for g in result.summaries("v", "name")] == [
        {"name": f"t{i}"} for i in range(6)
    ]


def test_what_is_missing_or_infinite_is_counted_apart(yard: ry.Yard) -> None:
    result = yard.run(ry.grid(shaped, x=range(10), name="b"), backend="serial")
    (group,) = result.summaries("a")
    summary = group.summaries["a"]
    assert summary.count == 4
    assert summary.missing == 6
    assert summary.mean == pytest.approx((1.5 + 0.25 + 1 + 2.5) / 4)


def test_an_unfinished_batch_is_summarised_as_far_as_it_is(yard: ry.Yard) -> None:
    batch = ry.grid(drawn, x=[0.0, 1.0], replicates=5, name="b")
    result = yard.run(batch, backend="serial", budget={"tasks": 3})
    assert [g.summaries["v"].count for g in result.summaries("v", "x")] == [2, 1]
    assert "3 of 10 completed" in result.summary()
    assert result.digest is None


def test_all_metrics_are_summarised_where_none_is_named(yard: ry.Yard) -> None:
    batch = ry.batch(played, VARIANTS, replicates=5, seed=1, name="b")
    (group,) = yard.run(batch, backend="serial").summaries()
    assert set(group.summaries) == {"profit", "won"}
    assert group.summaries["won"].rate is not None
    assert group.summaries["profit"].rate is None


@pytest.mark.parametrize("by", ["nope", ["x", "nope"]])
def test_what_tasks_do_not_differ_by_is_refused(yard: ry.Yard, by: Any) -> None:
    result = yard.run(ry.grid(drawn, x=[1.0, 2.0], name="b"), backend="serial")
    with pytest.raises(NotFound, match=r"can't group tasks by 'nope'[\s\S]*they vary by: x"):
        result.summaries("v", by)


def test_more_groups_than_anybody_reads_are_refused(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "MOST_GROUPS", 5)
    result = yard.run(ry.grid(constant, x=range(6), name="b"), backend="serial")
    with pytest.raises(UsageError, match="6 groups"):
        result.summaries("v", "x")


def test_a_parameter_of_many_kinds_keeps_its_values_apart(yard: ry.Yard) -> None:
    values = [1, 1.0, True, "1", None, [1], {"a": 1}, math.nan]
    result = yard.run(ry.grid(constant, x=values, name="b"), backend="serial")
    groups = result.summaries("v", "x")
    assert [g.summaries["v"].count for g in groups] == [1] * 8
    assert [repr(g.labels["x"]) for g in groups] == [repr(v) for v in values]


# For people


def test_the_summary_tells_variants_apart_by_their_name(yard: ry.Yard) -> None:
    variants = [{"name": f"v{i}", "edge": i / 2} for i in range(6)]
    cases = [{"hands": i + 1} for i in range(30)]
    result = yard.run(ry.batch(played, variants, cases, seed=1, name="b"), backend="serial")
    lines = result.summary("profit").splitlines()
    assert lines[1].split()[:2] == ["variant", "metric"]
    assert [line.split()[0] for line in lines[2:8]] == [f"v{i}" for i in range(6)]
    assert lines[-1].split()[:2] == ["seed", "1,"]


def test_a_summary_of_many_values_fits_a_screen(yard: ry.Yard) -> None:
    batch = ry.grid(drawn, x=range(40), y=[0.0, 1.0], name="b")
    lines = yard.run(batch, backend="serial").summary().splitlines()
    assert lines[1].split()[:2] == ["y", "metric"]
    assert len(lines) == 5


def test_a_batch_without_numbers_has_a_summary_too(yard: ry.Yard) -> None:
    result = yard.run(ry.grid(fails_always, x=[1, 2], name="b"), backend="serial")
    assert "2 failed" in result.summary()
    assert "ValueError: no luck" in result.summary()
    assert "<table" not in result._repr_html_()


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_a_table_and_no_markup_of_tasks(yard: ry.Yard) -> None:
    hostile = "<script>alert(1)</script>"
    result = yard.run(ry.grid(constant, x=[hostile, "b & c"], name="b"), backend="serial")
    page = Texts()
    page.feed(result._repr_html_())
    assert "script" not in page.tags
    assert page.tags.count("tr") == 3
    assert hostile in page.texts
    assert "b & c" in page.texts


# On the command line


def grid(cli: Call, *more: str) -> None:
    words = "run sample_metrics:drawn --grid x=0,5 --grid y=1,2 --replicates 6 --seed 1 --name b"
    assert cli(*words.split(), "--backend", "serial", *more).code == 0


def test_results_by_a_parameter_is_a_table(cli: Call) -> None:
    grid(cli)
    said = cli("results", "b", "--by", "x,y", "--metric", "v")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0].split()[:4] == ["x", "y", "metric", "mean"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["0", "1", "v"], ["0", "2", "v"], ["5", "1", "v"], ["5", "2", "v"],
    ]  # fmt: skip
    assert all("±" in line for line in lines[1:])


def test_results_as_json_are_the_figures_of_the_api(cli: Call) -> None:
    grid(cli)
    documents = cli("results", "b", "--by", "x", "--json").documents
    with ry.Yard(".runyard") as yard:
        groups = yard.results("b").summaries("v", "x")
    assert [d["labels"] for d in documents] == [g.labels for g in groups]
    for document, group in zip(documents, groups, strict=True):
        summary = group.summaries["v"]
        interval = summary.interval()
        assert interval is not None
        assert (document["count"], document["mean"]) == (12, summary.mean)
        assert (document["low95"], document["high95"]) == (interval.low, interval.high)
        assert document["quantiles"]["0.5"] == summary.quantiles.median


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--by", "z"), 5, "they vary by: x, y, replicate"),
        (("--metric", "w"), 5, "the metrics are: v"),
    ],
)
def test_results_of_what_is_not_there_say_what_is(
    cli: Call, words: tuple[str, ...], code: int, text: str
) -> None:
    grid(cli)
    said = cli("results", "b", *words)
    assert (said.code, said.out) == (code, "")
    assert text in said.err


def test_results_without_a_single_number_say_so(cli: Call) -> None:
    cli("run", "sample_metrics:fails_always", "--name", "b", "--backend", "serial")
    for words in (("--by", ""), ("--metric", "v")):
        said = cli("results", "b", *words)
        assert said.code == 5
        assert "return no number" in said.err


def test_histograms_of_a_grown_grid_belong_to_the_groups_of_its_summaries(yard: ry.Yard) -> None:
    for values in ([1, 3], [1, 2, 3]):
        batch = ry.grid(double, x=values, replicates=2, seed=1, name="g")
        result = yard.run(batch, backend="serial")
    groups = result.summaries(None, ["x"])
    assert [group.labels["x"] for group in groups] == [1, 2, 3]
    (metric,) = result.columns.names
    made = metrics_module.histograms(result, metric, ["x"], np.array([1.0, 3.0, 5.0, 7.0]))
    assert [counts.tolist() for counts in made] == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]


# What a rate is


def one(ctx: ry.Context) -> int:
    return 1


def yes(ctx: ry.Context) -> bool:
    return True


def even(ctx: ry.Context) -> bool:
    return ctx.replicate % 2 == 0


def mixed(ctx: ry.Context) -> int | bool:
    return ctx.replicate != 0 or 1


@pytest.mark.parametrize(
    ("task", "replicates", "mean"),
    [
        (one, 1, "1"),
        (one, 10, "1 ± 0"),
        (yes, 1, "1.000 (0.207 to 1.000)"),
        (yes, 10, "1.000 (0.722 to 1.000)"),
        (even, 10, "0.500 (0.237 to 0.763)"),
        (mixed, 10, "1 ± 0"),
    ],
)
def test_only_booleans_make_a_rate_of_a_metric(
    yard: ry.Yard, task: Any, replicates: int, mean: str
) -> None:
    result = yard.run(ry.grid(task, replicates=replicates, name="b"), backend="serial")
    is_rate = "(" in mean
    assert result.columns.rates == ({"value"} if is_rate else set())
    (row,) = [line for line in result.summary().splitlines() if line.startswith("  value")]
    assert row.split("value")[1].lstrip().startswith(f"{mean}  ")
    assert (result.summaries()[0].summaries["value"].rate is not None) is is_rate


def test_booleans_deep_in_values_of_many_shapes_are_told_from_numbers(yard: ry.Yard) -> None:
    def shapes(x: int) -> Any:
        return {"ok": x != 1, "np": np.bool_(True), "n": 1, "late" if x else "early": {"is": True},
                "odd": True if x else 0.0}  # fmt: skip

    result = yard.run(ry.grid(shapes, x=[0, 1, 2], name="b"), backend="serial")
    assert result.columns.rates == {"ok", "np", "late.is", "early.is"}
    assert set(result.columns.names) == {"ok", "np", "n", "late.is", "early.is", "odd"}

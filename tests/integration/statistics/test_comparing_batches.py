"""Variants and batches compared: in pairs where pairs exist, with gates that decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from command_line import Call
from sample_metrics import constant, drawn, played
from scipy import stats as scipy_stats

import runyard as ry
from runyard.errors import NotFound, UsageError
from runyard.reports.comparing import compare_groups, groups_of, groups_of_two

VARIANTS = [{"name": "bold", "edge": 0.5}, {"name": "shy", "edge": 0.0}]


def games(yard: ry.Yard, *, common: bool, replicates: int = 30, **more: Any) -> ry.Result:
    batch = ry.batch(
        played, VARIANTS, replicates=replicates, seed=1, name="g", common_random_numbers=common,
        **more,
    )  # fmt: skip
    return yard.run(batch, backend="serial")


def values(result: ry.Result, metric: str, **labels: Any) -> np.ndarray[Any, Any]:
    """What tasks with these labels returned, by case and replicate."""
    found = [o for o in result.outcomes("completed") if labels.items() <= o.labels.items()]
    found.sort(key=lambda o: (o.labels.get("case", ""), o.labels.get("replicate", 0)))
    return np.array([o.value[metric] for o in found], float)


def test_common_random_numbers_are_compared_in_pairs_as_scipy_does(yard: ry.Yard) -> None:
    result = games(yard, common=True)
    (found,) = compare_groups(groups_of(result, "profit", "variant"), "profit")
    bold, shy = (values(result, "profit", variant=name) for name in ("bold", "shy"))
    expected = scipy_stats.ttest_rel(bold, shy)
    interval = expected.confidence_interval(0.95)
    assert found.paired
    assert found.n == 30
    assert found.effect == pytest.approx((bold - shy).mean())
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(interval))
    assert found.winner == "bold"


def test_without_them_the_groups_are_compared_as_they_are(yard: ry.Yard) -> None:
    result = games(yard, common=False)
    (found,) = compare_groups(groups_of(result, "profit", "variant"), "profit")
    bold, shy = (values(result, "profit", variant=name) for name in ("bold", "shy"))
    assert not found.paired
    assert found.n == (30, 30)
    assert found.p == pytest.approx(scipy_stats.ttest_ind(bold, shy, equal_var=False).pvalue)


def test_pairs_find_with_few_replicates_what_groups_need_many_for(yard: ry.Yard) -> None:
    result = games(yard, common=True)
    groups = groups_of(result, "profit", "variant")
    (paired,) = compare_groups(groups, "profit")
    (unpaired,) = compare_groups(groups, "profit", paired=False)
    assert unpaired.interval.half > 10 * paired.interval.half


def test_shared_cases_make_pairs(yard: ry.Yard) -> None:
    cases = [{"hands": hands} for hands in (1, 2, 5, 20)]
    result = games(yard, common=False, replicates=5, cases=cases)
    (found,) = compare_groups(groups_of(result, "profit", "variant"), "profit")
    assert found.paired
    bold, shy = (values(result, "profit", variant=name) for name in ("bold", "shy"))
    assert found.effect == pytest.approx((bold - shy).mean())
    assert found.p == pytest.approx(scipy_stats.ttest_rel(bold, shy).pvalue)


def test_a_failed_task_takes_its_partner_out_of_the_comparison(yard: ry.Yard) -> None:
    def sometimes(ctx: ry.Context, x: int) -> dict[str, float]:
        if x == 2 and ctx.task % 5 == 1:
            raise ValueError("no luck")
        return {"v": float(ctx.rng.normal()) + x}

    batch = ry.grid(
        sometimes, x=[1, 2], replicates=20, seed=1, name="b", common_random_numbers=True
    )
    result = yard.run(batch, backend="serial")
    (found,) = compare_groups(groups_of(result, "v", "x"), "v")
    assert found.n == result.stats.completed - 20
    assert found.effect == pytest.approx(-1.0)


def test_a_grown_batch_pairs_what_both_sides_have(yard: ry.Yard) -> None:
    for xs, replicates in (([1.0], 4), ([2.0, 1.0], 4), ([2.0, 1.0], 9)):
        batch = ry.grid(
            drawn, x=xs, replicates=replicates, seed=1, name="b", common_random_numbers=True
        )
        result = yard.run(batch, backend="serial")
    (found,) = compare_groups(groups_of(result, "v", "x"), "v")
    assert (found.a, found.b, found.n) == ("2.0", "1.0", 9)
    assert found.effect == pytest.approx(1.0)


def test_what_is_wanted_may_be_a_few_of_very_many(yard: ry.Yard) -> None:
    batch = ry.grid(drawn, x=range(300), replicates=3, seed=1, name="b")
    result = yard.run(batch, backend="serial")
    with pytest.raises(UsageError, match="x has 300 values"):
        groups_of(result, "v", "x")
    (found,) = compare_groups(groups_of(result, "v", "x", ["299", "7"]), "v")
    assert (found.a, found.b) == ("299", "7")
    with pytest.raises(NotFound, match="there is no group '300'"):
        groups_of(result, "v", "x", ["300"])


def test_a_listed_batch_is_compared_without_pairs(yard: ry.Yard) -> None:
    listed = [ry.Task(drawn, {"x": float(i % 2), "y": float(i)}) for i in range(20)]
    result = yard.run(ry.tasks(listed, name="b", seed=3), backend="serial")
    (found,) = compare_groups(groups_of(result, "v", "x"), "v")
    assert (found.paired, found.n) == (False, (10, 10))


def test_labels_that_look_alike_stay_apart(yard: ry.Yard) -> None:
    result = yard.run(ry.grid(constant, x=[1, "1"], replicates=3, name="b"), backend="serial")
    assert list(groups_of(result, "v", "x").values) == ["1", "1 (2)"]


# Two batches


def two(yard: ry.Yard, seeds: tuple[int, int], xs: Any, **more: Any) -> tuple[ry.Result, ry.Result]:
    a, b = (
        yard.run(ry.grid(drawn, x=x, seed=seed, name=name, **more), backend="serial")
        for name, seed, x in zip("ab", seeds, xs, strict=True)
    )
    return a, b


def test_two_batches_that_are_alike_are_paired_task_by_task(yard: ry.Yard) -> None:
    a, b = two(yard, (1, 1), ([1.0, 2.0],) * 2, replicates=10)
    (found,) = compare_groups(groups_of_two(a, b, "v"), "v")
    assert (found.paired, found.n, found.effect) == (True, 20, 0.0)
    assert (found.a, found.b) == ("a", "b")


def test_two_batches_of_other_seeds_and_no_cases_are_not_paired(yard: ry.Yard) -> None:
    a, b = two(yard, (1, 2), ([1.0],) * 2, replicates=10)
    (found,) = compare_groups(groups_of_two(a, b, "v"), "v")
    assert (found.paired, found.n) == (False, (10, 10))


def test_a_longer_batch_keeps_all_its_values_where_nothing_is_paired(yard: ry.Yard) -> None:
    a = yard.run(ry.grid(drawn, x=[1.0], seed=1, name="a", replicates=10), backend="serial")
    b = yard.run(ry.grid(drawn, x=[1.0], seed=2, name="b", replicates=25), backend="serial")
    (found,) = compare_groups(groups_of_two(a, b, "v"), "v")
    assert found.n == (10, 25)


def test_a_longer_batch_is_paired_as_far_as_both_go(yard: ry.Yard) -> None:
    a = yard.run(ry.grid(drawn, x=[1.0, 2.0], seed=1, name="a", replicates=4), backend="serial")
    b = yard.run(ry.grid(drawn, x=[1.0, 2.0], seed=1, name="b", replicates=9), backend="serial")
    (found,) = compare_groups(groups_of_two(a, b, "v"), "v")
    assert (found.paired, found.n, found.effect) == (True, 8, 0.0)


def test_two_batches_that_are_not_alike_are_not_paired(yard: ry.Yard) -> None:
    a, b = two(yard, (1, 1), ([1.0, 2.0], [1.0, 3.0]), replicates=5)
    (found,) = compare_groups(groups_of_two(a, b, "v"), "v")
    assert (found.paired, found.n) == (False, (10, 10))


def test_batches_over_arrays_are_compared_too(yard: ry.Yard) -> None:
    def summed(ctx: ry.Context, x: Any) -> dict[str, float]:
        return {"v": float(x.sum()) + float(ctx.rng.normal())}

    xs = [np.array([1.0, np.nan, 2.0])[[0, 2]], np.array([3.0, 4.0])]
    a, b = (
        yard.run(ry.grid(summed, x=xs, seed=1, name=name, replicates=3), backend="serial")
        for name in "ab"
    )
    (found,) = compare_groups(groups_of_two(a, b, "v"), "v")
    assert (found.paired, found.n) == (True, 6)


def test_a_batch_is_not_compared_with_itself(yard: ry.Yard) -> None:
    a, _ = two(yard, (1, 1), ([1.0],) * 2, replicates=3)
    with pytest.raises(UsageError, match="can't be compared with itself"):
        groups_of_two(a, yard.results("a"), "v")


@pytest.mark.parametrize("streamed", [False, True])
def test_booleans_are_compared_as_rates_and_numbers_that_are_0_or_1_as_numbers(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    def tried(ctx: ry.Context, x: int) -> dict[str, Any]:
        won = bool(ctx.rng.random() < 0.2 + 0.3 * x)
        return {"won": won, "count": int(won)}

    if streamed:
        monkeypatch.setattr("runyard.stats.compare.STREAMED", 10)
    spec = ry.grid(tried, x=[1, 2], replicates=50, seed=1, name="b")
    result = yard.run(spec, backend="serial")
    (won,) = compare_groups(groups_of(result, "won", "x"), "won")
    (count,) = compare_groups(groups_of(result, "count", "x"), "count")
    assert (won.method, won.interval.method) == ("pooled z test", "newcombe")
    assert (count.method, count.interval.method) == ("Welch's t test", "Welch t")
    (declared,) = compare_groups(groups_of(result, "count", "x"), "count", interval="score")
    assert (declared.interval, declared.p) == (won.interval, won.p)


# On the command line


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A yard with the batch of `recorded`, only to be read."""
    path = tmp_path_factory.mktemp("kept")
    with ry.Yard(path) as yard:
        spec = ry.grid(drawn, x=[1, 2, 4], replicates=20, seed=1, name="b")
        yard.run(spec, backend="serial")
    return str(path)


def recorded(cli: Call, *more: str) -> None:
    words = "run sample_metrics:drawn --grid x=1,2,4 --replicates 20 --seed 1 --name b"
    assert cli(*words.split(), "--backend", "serial", *more).code == 0


def test_compare_says_in_words_what_it_found(cli: Call) -> None:
    recorded(cli, "--common-random-numbers")
    said = cli("compare", "b")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "2 is higher than 1 by 1 in each of 20 pairs"
    assert len([line for line in lines if " is higher than " in line]) == 3
    assert any(line.split()[:2] == ["a", "b"] and "p (Holm)" in line for line in lines)


def test_compare_judges_what_is_better_only_if_told_so(cli: Call) -> None:
    recorded(cli)
    (open_,) = cli("compare", "b", "--only", "1,4", "--json").last["comparisons"]
    assert (open_["better"], open_["winner"]) == (None, None)
    assert open_["words"].startswith("4 is higher than 1 by ")
    for better, winner, loser in (("higher", "4", "1"), ("lower", "1", "4")):
        words = ("compare", "b", "--only", "1,4", "--better", better)
        (told,) = cli(*words, "--json").last["comparisons"]
        assert (told["better"], told["winner"]) == (better, winner)
        assert told["words"].startswith(f"{winner} beats {loser} by ")
        assert cli(*words).out.startswith(told["words"])


SIDE = {"tasks", "compared", "no_partner", "not_a_number", "failed", "cancelled", "unfinished"}
SCHEMA = {
    "a", "b", "metric", "better", "paired", "n", "mean_a", "mean_b", "effect", "low", "high",
    "level", "interval", "p", "method", "p_adjusted", "correction", "other_p", "sd",
    "correlation", "detectable", "power", "winner", "sides", "words",
}  # fmt: skip


def test_compare_as_json_has_every_figure(cli: Call) -> None:
    recorded(cli)
    gates = ("--gate", "mean(v) > 0", "--gate", '"4" > "2"')
    said = cli("compare", "b", "--by", "x", "--metric", "v", "--json", *gates)
    assert said.code == 0, said.err
    (document,) = said.documents
    assert set(document) == {
        "batch", "other", "metric", "comparisons", "not_compared", "gates",
    }  # fmt: skip
    assert (document["batch"], document["other"], document["metric"]) == ("b", None, "v")
    assert [set(c) for c in document["comparisons"]] == [SCHEMA] * 3
    assert {c["correction"] for c in document["comparisons"]} == {"Holm"}
    assert all(c["p"] <= c["p_adjusted"] for c in document["comparisons"])
    assert [set(side) for c in document["comparisons"] for side in c["sides"]] == [SIDE] * 6
    assert document["not_compared"] == []
    keys = {"gate", "holds", "known", "text", "each"}
    assert [set(g) for g in document["gates"]] == [keys] * 2
    each = [found for gate in document["gates"] for found in gate["each"]]
    assert [set(found) for found in each] == [{"for", "holds", "known", "text", "figures"}] * 4
    assert [found["for"] for found in each] == ["1", "2", "4", None]


def test_compare_does_as_its_options_say(cli: Call, kept: str) -> None:
    def found(*words: str) -> list[dict[str, Any]]:
        said = cli("compare", "b", "--json", *words, "--yard", kept)
        assert said.code == 0, said.err
        comparisons: list[dict[str, Any]] = said.last["comparisons"]
        return comparisons

    assert [(c["a"], c["b"]) for c in found("--baseline", "2")] == [("1", "2"), ("4", "2")]
    (only,) = found("--only", "4, 1", "--better", "lower")
    assert (only["a"], only["b"], only["winner"]) == ("4", "1", "1")
    assert {c["correction"] for c in found("--correction", "bh")} == {"Benjamini-Hochberg"}
    assert {c["p_adjusted"] for c in found("--correction", "none")} == {None}
    assert {c["interval"] for c in found("--interval", "bootstrap")} == {"bootstrap studentized"}
    wide, narrow = found("--level", "0.99")[0], found("--level", "0.8")[0]
    assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]
    assert {c["paired"] for c in found("--paired")} == {True}


def test_compare_two_batches_by_name(cli: Call) -> None:
    recorded(cli)
    words = "run sample_metrics:drawn --grid x=1,2,4 --set y=1 --replicates 20 --seed 1 --name new"
    assert cli(*words.split(), "--backend", "serial").code == 0
    said = cli("compare", "new", "b", "--json", "--gate", "new >= b", "--gate", "b >= new")
    assert said.code == 4
    document = said.last
    assert (document["batch"], document["other"]) == ("new", "b")
    assert document["comparisons"][0]["effect"] == pytest.approx(1.0, abs=0.5)
    assert [gate["holds"] for gate in document["gates"]] == [True, False]


@pytest.mark.parametrize(
    ("gate", "code", "text"),
    [
        ("mean(v) > 0", 0, "gate passed: mean(v) = "),
        ("mean(v) > 1e9", 4, "> 1e9: no"),
        ("completed > 50%", 0, "gate passed"),
        ("mean(w) > 0", 2, "'w' in the condition is not a metric"),
        ("w > 0", 2, "'w' in the condition is neither a metric nor"),
        ("mean(v > 0", 2, "    mean(v > 0\n           ^"),
        ("mean(v)", 2, "write for instance mean(v) >= 0.8"),
        ("", 2, "the condition can't be read"),
    ],
)
def test_a_gate_alone_decides_by_the_exit_code(
    cli: Call, kept: str, gate: str, code: int, text: str
) -> None:
    said = cli("compare", "b", "--gate", gate, "--yard", kept)
    assert said.code == code
    assert text in (said.err if code in (2, 5) else said.out)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("b", "--baseline", "7"), 5, "the groups are: 1, 2, 4"),
        (("b", "--only", "7,1"), 5, "there is no group '7'"),
        (("b", "--only", "1"), 2, "only one group"),
        (("b", "--by", "z"), 5, "they vary by: x, replicate"),
        (("b", "--metric", "w"), 5, "the metrics are: v"),
        (("b", "b"), 2, "can't be compared with itself"),
        (("b", "b", "--by", "x"), 2, "--by compares inside one batch"),
        (("nope",), 5, "no batch 'nope'"),
        (("b", "nope"), 5, "no batch 'nope'"),
    ],
)
def test_what_can_not_be_compared_is_explained(
    cli: Call, kept: str, words: tuple[str, ...], code: int, text: str
) -> None:
    said = cli("compare", *words, "--yard", kept)
    assert said.code == code
    assert text in said.err
    assert "Traceback" not in said.err


def test_too_few_values_and_constant_ones_are_no_crash(cli: Call) -> None:
    words = ["run", "sample_metrics:constant", "--grid", "x=1,2", "--backend", "serial", "--name"]
    cli(*words, "one")
    said = cli("compare", "one")
    assert said.code == 2
    assert "1 has 1 value and 2 has 1 value of v" in said.err
    cli(*words, "many", "--replicates", "4")
    said = cli("compare", "many", "--json", "--interval", "bootstrap")
    assert said.code == 0, said.err
    assert said.last["comparisons"][0]["effect"] == 0
    assert said.last["comparisons"][0]["p"] == 1
    assert "equal" in said.last["comparisons"][0]["words"]


def test_several_axes_or_metrics_have_to_be_chosen_from(cli: Call) -> None:
    words = "run sample_metrics:costly --grid x=1,2 --grid cost=1,2 --backend serial --name c"
    cli(*words.split(), "--replicates", "3")
    said = cli("compare", "c")
    assert said.code == 2
    assert "c can be compared by: x, cost" in said.err
    said = cli("compare", "c", "--by", "x")
    assert said.code == 2
    assert "choose one with --metric: cost, x" in said.err

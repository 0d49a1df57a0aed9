"""Gates: what they are judged for, what they tell, and that what can't be judged never passes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Call
from sample_metrics import fails_always, played

import runyard as ry
from runyard.errors import UsageError
from runyard.reports.comparing import (
    Compared,
    Groups,
    compare_each,
    compare_groups,
    groups_of,
    groups_of_two,
    whole,
)
from runyard.reports.gates import Gates, GateVerdict
from runyard.stats.conditions import parse

VARIANTS = [{"name": "bold", "edge": 0.5}, {"name": "shy", "edge": 0.0}]
BATCHES = {"old": (0.0, 0, 15), "new": (0.05, 0, 10), "broken": (0.1, 4, 10)}


def scored(ctx: ry.Context, shift: float, bad: int, x: int) -> dict[str, Any]:
    """A score around 0.8; the first replicates fail where some are bad, and one has no number."""
    if ctx.replicate < bad:
        raise ValueError("no luck")
    score = 0.8 + shift + float(ctx.rng.normal(0, 0.01))
    lost = bad and ctx.replicate == bad
    return {"score": math.nan if lost else score, "calls": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A yard with batches that differ, only to be read."""
    path = tmp_path_factory.mktemp("gates")
    with ry.Yard(path) as yard:
        for name, (shift, bad, replicates) in BATCHES.items():
            spec = ry.grid(
                scored, x=[1, 2], params={"shift": shift, "bad": bad},
                replicates=replicates, seed=1, name=name,
            )  # fmt: skip
            yard.run(spec, backend="serial")
        gone = ry.grid(fails_always, x=[1, 2], replicates=10, seed=1, name="gone")
        yard.run(gone, backend="serial")
        game = ry.batch(
            played, VARIANTS, replicates=30, seed=1, name="game", common_random_numbers=True
        )
        yard.run(game, backend="serial")
    return path


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[ry.Yard]:
    with ry.Yard(place) as yard:
        yield yard


def two(yard: ry.Yard, a: str, b: str) -> Groups:
    return groups_of_two(yard.results(a), yard.results(b), "score")


def variants(yard: ry.Yard) -> Groups:
    return groups_of(yard.results("game"), "profit", "variant")


def judge(groups: Groups, gate: str, **options: Any) -> GateVerdict:
    gates = Gates({gate: parse(gate)}, groups, **options)
    (found,) = gates.judge(compare_each(groups, str(groups.metric), **options))
    return found


def test_a_gate_holds_for_each_batch_and_says_which_it_fails_for(shared: ry.Yard) -> None:
    found = judge(two(shared, "old", "broken"), "failed < 1%")
    assert not found.holds
    assert found.text == "broken: failed = 0.4 < 1%: no; it holds for 1 of 2"
    assert [(label, verdict.holds) for label, verdict in found.each] == [
        ("old", True), ("broken", False),
    ]  # fmt: skip
    assert judge(two(shared, "old", "new"), "failed < 1%").holds


@pytest.mark.parametrize(
    ("gate", "holds"),
    [
        ("old.failed < 1%", True),
        ("broken.failed < 1%", False),
        ("mean(score) > 0.85", False),
        ("broken.mean(score) > 0.85", True),
        ("broken.score > 0.85 and not old.score > 0.85", True),
        ("broken >= old - 0.02", True),
        ("broken - old > 0.02", True),
        ("low95(broken - old) > 0", True),
        ("low95(old - broken) > 0", False),
        ("high95(old - broken) < 0", True),
        ("ci99(broken - old) > ci90(broken - old)", True),
        ("low95(broken - old) < broken - old and broken - old < high95(broken - old)", True),
        ("p < 0.05 and p(old - broken) == p", True),
    ],
)
def test_gates_are_judged_on_what_two_batches_came_to(
    shared: ry.Yard, gate: str, holds: bool
) -> None:
    assert judge(two(shared, "old", "broken"), gate).holds is holds


@pytest.mark.parametrize(
    ("gate", "holds"),
    [
        ("mean(profit) > -100", True),
        ("mean(profit) > 100", False),
        ("bold > shy", True),
        ("bold - shy >= 0.4 and failed < 1%", True),
        ("shy >= bold", False),
        ("completed == 100%", True),
        ("rate(won) <= 1 and count(won) == 30", True),
        ("low95(mean(profit)) < mean(profit)", True),
        ("q50(profit) == median(profit)", True),
        ("q0(profit) == min(profit)", True),
        ("low95(bold - shy) > 0 and p < 0.001", True),
        ("bold.completed == 1 and bold.count(won) == 30", True),
    ],
)
def test_gates_are_judged_for_each_variant(shared: ry.Yard, gate: str, holds: bool) -> None:
    assert judge(variants(shared), gate).holds is holds


def test_a_difference_is_what_the_comparison_says_it_is(shared: ry.Yard) -> None:
    groups = variants(shared)
    gate = "low95(shy - bold) < 0 and high95(bold - shy) > 0 and bold - shy > 0 and p < 1"
    for paired in (True, False):
        (made,) = compare_groups(groups, "profit", paired=paired)
        ((_, verdict),) = judge(groups, gate, paired=paired).each
        assert verdict.figures == {
            "low95(shy - bold)": -made.interval.high,
            "high95(bold - shy)": made.interval.high,
            "bold - shy": made.effect,
            "p": made.p,
        }


def test_p_is_the_corrected_one_and_by_itself_is_about_each_comparison(yard: ry.Yard) -> None:
    spec = ry.grid(
        scored, x=[1, 2, 3], params={"shift": 0.0, "bad": 0}, replicates=8, seed=1, name="b"
    )
    groups = groups_of(yard.run(spec, backend="serial"), "score", "x")
    found = judge(groups, "p >= 0 and failed < 1%")
    assert found.holds
    assert [label for label, _ in found.each] == [
        f"{side}, {a} - {b}" for a, b in ("12", "13", "23") for side in (a, b)
    ]
    made = compare_groups(groups, "score")
    for comparison in made:
        gate = f'p("{comparison.b}" - "{comparison.a}") > 1'
        ((_, verdict),) = judge(groups, gate).each
        assert list(verdict.figures.values()) == [comparison.p_adjusted]
    with pytest.raises(UsageError, match=r"'2' is not compared with '3'"):
        judge(groups, 'low95("2" - "3") > 0', baseline="1")
    assert judge(groups, '"2" - "3" < 1', baseline="1").holds


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ("low95(gone - old) > -1", "old and gone have 0 pairs with values of score"),
        ("not low95(gone - old) > 1", "20 of gone failed"),
        ("p < 1.1", "old and gone have 0 pairs"),
        ("gone - old < 1", "old and gone have 0 pairs"),
        ("mean(score) > 0", "gone has 0 values of score: 20 of gone failed"),
        ("gone.mean(score) != 5", "gone has 0 values"),
        ("gone >= old or gone < old", "gone has 0 values"),
        ("1 / old.failed > 0", "it divides by zero"),
    ],
)
def test_what_can_not_be_judged_fails_and_says_why(shared: ry.Yard, gate: str, why: str) -> None:
    found = judge(two(shared, "old", "gone"), gate)
    assert (found.holds, found.known) == (False, False)
    assert why in found.text
    json.dumps(found.to_data(), allow_nan=False)


def test_a_batch_without_outcomes_has_no_share_of_failures(yard: ry.Yard) -> None:
    yard.submit(ry.grid(fails_always, x=[1], name="waiting"))
    groups = Groups({"waiting": whole(yard.results("waiting"))}, False, None)
    condition = parse("failed < 1%")
    (found,) = Gates({"failed < 1%": condition}, groups).judge(Compared([], {}))
    assert not found.holds
    assert "no task of waiting has ended" in found.text


def test_a_metric_is_a_rate_where_a_gate_declares_it_one(shared: ry.Yard) -> None:
    groups = two(shared, "old", "new")
    assert judge(groups, "low95(mean(calls)) == 1").holds
    assert not judge(groups, "low95(rate(calls)) == 1").holds
    with pytest.raises(UsageError, match="score is not a rate"):
        judge(groups, "rate(score) > 0")


# What was left out


def test_every_task_that_is_not_compared_is_accounted_for(shared: ry.Yard) -> None:
    (made,) = compare_groups(two(shared, "old", "broken"), "score")
    assert made.paired
    assert made.n == 10
    assert made.sides is not None
    old, broken = (side.to_data() for side in made.sides)
    none = dict.fromkeys(("failed", "cancelled", "unfinished", "not_a_number", "no_partner"), 0)
    assert old == {**none, "tasks": 30, "compared": 10, "no_partner": 20}
    assert broken == {**none, "tasks": 20, "compared": 10, "failed": 8, "not_a_number": 2}
    assert made.left_out_words() == (
        "10 pairs out of 30 and 20 tasks; left out: 20 of old without a partner, "
        "10 of broken (2 without a number, 8 failed)"
    )


def test_groups_without_pairs_leave_out_what_has_no_value(shared: ry.Yard) -> None:
    (made,) = compare_groups(two(shared, "old", "broken"), "score", paired=False)
    assert made.n == (30, 10)
    assert made.left_out_words() == (
        "30 and 10 values out of 30 and 20 tasks; "
        "left out: 10 of broken (2 without a number, 8 failed)"
    )
    (all_of_them,) = compare_groups(variants(shared), "profit")
    assert all_of_them.left_out_words() == ""


def test_the_report_says_what_was_left_out(place: Path, yard: ry.Yard, tmp_path: Path) -> None:
    def sometimes(ctx: ry.Context, x: int) -> dict[str, float]:
        if x == 2 and ctx.replicate < 3:
            raise ValueError("no luck")
        return {"v": float(ctx.rng.normal()) + x}

    spec = ry.grid(sometimes, x=[1, 2], replicates=20, seed=1, name="b")
    page = yard.run(spec, backend="serial").report(tmp_path / "b.html").read_text()
    assert "17 and 20 values out of 20 and 20 tasks; left out: 3 of x 2 failed" in page


# On the command line


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("old", "broken", "--gate", "failed < 1%"), 4, "gate failed: broken: failed = 0.4"),
        (("broken", "old", "--gate", "failed < 1%"), 4, "gate failed: broken: failed = 0.4"),
        (("old", "new", "--gate", "failed < 1%"), 0, "gate passed: old: failed = 0 < 1%: yes; new"),
        (("old", "broken", "--gate", "old.failed < 1%"), 0, "gate passed: old.failed = 0"),
        (("old", "gone", "--gate", "failed < 1%"), 4, "gate failed: gone: failed = 1 < 1%: no"),
        (("old", "--gate", "old.failed < 1% and mean(score) > 0"), 0, "gate passed"),
        (("old", "broken", "--metric", "score"), 0, "left out: 20 of old without a partner, 10"),
        (("old", "gone", "--metric", "score", "--gate", "p < 2"), 4, "not compared: old and gone"),
    ],
)
def test_gates_of_two_batches_decide_by_the_exit_code(
    cli: Call, place: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    said = cli("compare", *words, "--yard", str(place))
    assert said.code == code, said.err
    assert text in said.out


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ("brokn.failed < 1%", "did you mean broken?"),
        ("mean(scroe) > 1", "did you mean score?"),
        ("low95(broken - odl) > 0", "did you mean old?"),
        ("broken.mean(score > 1", "    broken.mean(score > 1\n"),
    ],
)
def test_a_misspelt_name_in_a_gate_is_an_error_before_anything_is_said(
    cli: Call, place: Path, gate: str, text: str
) -> None:
    said = cli("compare", "old", "broken", "--metric", "score", "--gate", gate,
               "--yard", str(place))  # fmt: skip
    assert said.code == 2
    assert text in said.err
    assert said.out == ""


def test_gates_as_json_name_each_side_and_its_figures(cli: Call, place: Path) -> None:
    said = cli("compare", "old", "gone", "--metric", "score", "--json", "--yard", str(place),
               "--gate", "failed < 1%", "--gate", "low95(gone - old) > 0")  # fmt: skip
    assert said.code == 4
    share, difference = said.last["gates"]
    assert share["each"] == [
        {"for": "old", "holds": True, "known": True, "text": "failed = 0 < 1%: yes",
         "figures": {"failed": 0.0}},
        {"for": "gone", "holds": False, "known": True, "text": "failed = 1 < 1%: no",
         "figures": {"failed": 1.0}},
    ]  # fmt: skip
    assert (difference["holds"], difference["known"]) == (False, False)
    assert difference["each"][0]["figures"] == {"low95(gone - old)": None}
    (missing,) = said.last["not_compared"]
    assert (missing["a"], missing["b"]) == ("old", "gone")
    assert "0 pairs with values of score" in missing["reason"]

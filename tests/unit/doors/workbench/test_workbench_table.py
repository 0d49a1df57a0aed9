"""Cells as a table: figures of variants, gates, baselines, JUnit XML."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from bench_cells import FakeCell, cells_of, table_of
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.workbench.evaluate.baseline import (
    baseline_of,
    changes_since,
    read_baseline,
    write_baseline,
)
from runyard.doors.workbench.evaluate.gates import judge
from runyard.doors.workbench.evaluate.junit import junit
from runyard.doors.workbench.evaluate.scores import ScoreRule
from runyard.errors import NotFound, UsageError
from runyard.reports.comparing import compare_groups
from runyard.stats.intervals import wilson


def test_a_summary_counts_what_is_missing_and_does_not_score_it_0() -> None:
    found: list[Any] = [1.0, 0.0, None, "failed", "interrupted", "cancelled", 1.0, 1.0]
    table = table_of(cells_of(lambda v, c, r: found[c], ("a",), 8))
    summary = table.summary("a", "score")
    assert (summary.cells, summary.scored, summary.missing) == (8, 4, 1)
    assert (summary.failed, summary.interrupted, summary.cancelled) == (1, 1, 1)
    assert summary.mean == 0.75
    assert summary.interval == wilson(3, 4)
    assert summary.passed is not None
    assert (summary.passed.successes, summary.passed.total) == (3, 5)
    assert json.loads(json.dumps(summary.to_data()))["pass_rate"] == 0.6


def test_repetitions_are_averaged_by_case_before_anything_is_inferred() -> None:
    table = table_of(cells_of(lambda v, c, r: float((c + r) % 2 == 0 or c == 0), ("a",), 3, 2))
    summary = table.summary("a", "score")
    assert summary.mean == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert summary.interval == wilson(2.0, 3)  # Student's would reach beyond 1
    assert summary.pass_at == {1: pytest.approx(2 / 3), 2: 1.0}
    assert summary.pass_all == {1: pytest.approx(2 / 3), 2: pytest.approx(1 / 3)}


def test_the_mean_of_repetitions_has_students_interval_where_it_stays_a_share() -> None:
    table = table_of(cells_of(lambda v, c, r: float((c + r) % 3 == 0), ("a",), 30, 4))
    interval = table.summary("a", "score").interval
    assert interval is not None
    assert interval.method == "t"
    sure = table_of(cells_of(lambda v, c, r: 1.0, ("a",), 4, 3)).summary("a", "score").interval
    assert sure == wilson(4, 4)


def test_a_graded_score_passes_at_a_threshold() -> None:
    table = table_of(cells_of(lambda v, c, r: c / 4, ("a",), 5))
    assert table.summary("a", "score").passed is None
    passed = table.summary("a", "score", passing=0.5).passed
    assert passed is not None
    assert passed.successes == 3


def test_variants_are_compared_on_the_same_cases() -> None:
    cells = cells_of(lambda v, c, r: (c % 3) / 2 + 0.1 * v * (c + 1), ("a", "b"), 6)
    cells[-1].status, cells[-1].scores = "failed", {"score": None}
    [found] = compare_groups(table_of(cells).groups("score"), "score")
    assert found.paired
    assert found.n == 5
    assert found.effect == pytest.approx(-0.3)
    assert found.sides is not None
    assert (found.sides[0].no_partner, found.sides[1].failed) == (1, 1)


def test_a_variant_that_fails_on_hard_cases_can_be_charged_for_it() -> None:
    table = table_of(cells_of(lambda v, c, r: "failed" if v and c > 3 else 1 - v / 10, cases=6))
    [out] = compare_groups(table.groups("score"), "score")
    [charged] = compare_groups(table.groups("score", failed_as=0.0), "score")
    assert (out.n, out.effect) == (4, pytest.approx(0.1))
    assert (charged.n, charged.effect) == (6, pytest.approx(0.4))


def test_one_case_is_compared_by_its_repetitions() -> None:
    cells = cells_of(lambda v, c, r: float(r % (v + 2) == 0), ("a", "b"), 1, 6)
    [found] = compare_groups(table_of(cells).groups("score"), "score")
    assert found.n == 6


def test_unknown_metrics_and_variants_are_refused() -> None:
    table = table_of(cells_of(lambda v, c, r: 1.0))
    with pytest.raises(NotFound, match="did you mean 'score'"):
        table.groups("scor")
    with pytest.raises(NotFound, match="no variant 'z'"):
        table.groups("score", ["z"])


def test_a_gate_is_judged_for_each_variant() -> None:
    table = table_of(cells_of(lambda v, c, r: float(c >= v), ("a", "b"), 4))
    high, low, both = judge(table, ["score >= 0.8", "score >= 0.7", "b - a > -0.5"])
    assert (high.holds, low.holds, both.holds) == (False, True, True)
    assert "b: score = 0.75 >= 0.8" in high.text
    assert high.to_data()["holds"] is False


@pytest.mark.parametrize("status", ["failed", "interrupted", "cancelled"])
@pytest.mark.parametrize(
    ("gate", "holds"),
    [
        ("score >= 0.8", False),
        ("score <= 0.8", False),
        ("score >= 0.7", True),
        ("mean(score) < 2", True),
    ],
)
def test_a_cell_that_did_not_complete_never_helps(status: str, gate: str, holds: bool) -> None:
    table = table_of(cells_of(lambda v, c, r: status if c == 0 else 1.0, ("a",), 4))
    [found] = judge(table, [gate])
    assert found.holds is holds
    assert "1 cell did not complete" in found.text


def test_a_missing_score_is_left_out_and_named_and_without_any_nothing_holds() -> None:
    table = table_of(cells_of(lambda v, c, r: None if c == 0 else 1.0, ("a",), 4))
    [found] = judge(table, ["score >= 1"])
    assert found.holds
    assert "1 score of score missing, left out" in found.text
    [found] = judge(table_of(cells_of(lambda v, c, r: None, ("a",), 4)), ["score >= 0"])
    assert not found.holds
    assert not found.known


def test_gates_know_states_and_what_was_measured() -> None:
    table = table_of(cells_of(lambda v, c, r: "interrupted" if c == 0 else 1.0, ("a",), 4))
    gates = ["completed >= 75%", "completed > 75%", "failed == 0", "interrupted == 25%",
             "latency < 1", "max(tokens) == 0"]  # fmt: skip
    assert [each.holds for each in judge(table, gates)] == [True, False, True, True, True, True]
    with pytest.raises(UsageError, match="scroe"):
        judge(table, ["scroe > 1"])


def test_a_baseline_file_names_what_got_worse(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    assert read_baseline(path) is None
    before = cells_of(lambda v, c, r: 1.0 if c < 3 else 0.0, ("a", "b"), 4)
    write_baseline(path, baseline_of(table_of(before), {"score": ScoreRule()}, "bench"))
    first = read_baseline(path)
    assert first is not None
    same = changes_since(first, baseline_of(table_of(before), {}, "bench"))
    assert same.holds
    assert same.lines == ["baseline: nothing got worse"]

    after = cells_of(
        lambda v, c, r: [0.0, 1.0, "failed", 1.0][c] if v else float(c < 3), ("a", "b", "c"), 4
    )
    found = changes_since(first, baseline_of(table_of(after), {}, "bench"))
    assert not found.holds
    assert [each.words for each in found.worse] == [
        "b on case-0: score 1 → 0",
        "b on case-2: completed 1 → 0",
        "b on case-2: score 1 → none",
    ]
    assert [each.words for each in found.improved] == ["b on case-3: score 0 → 1"]
    assert found.added == [f"c on case-{n}" for n in range(4)]
    assert found.lines[1] == "  worse: b on case-0: score 1 → 0"
    assert json.loads(json.dumps(found.to_data()))["holds"] is False


def test_a_baseline_heeds_direction_and_tolerance() -> None:
    def at(value: float) -> Any:
        return table_of(cells_of(lambda v, c, r: value, ("a",), 2))

    def worse(rule: ScoreRule, before: float, after: float) -> int:
        old = baseline_of(at(before), {"score": rule}, "x")
        return len(changes_since(old, baseline_of(at(after), {"score": rule}, "x")).worse)

    assert worse(ScoreRule("lower"), 1.0, 2.0) == 2
    assert worse(ScoreRule("lower"), 2.0, 1.0) == 0
    assert worse(ScoreRule("higher", 0.1), 1.0, 0.95) == 0
    assert worse(ScoreRule("higher", 0.1), 1.0, 0.85) == 2
    assert worse(ScoreRule("lower", None), 1.0, 5.0) == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "cells": [1]}'])
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match="is not a baseline"):
        read_baseline(tmp_path / "b.json")


def suite_of(xml: bytes) -> ET.Element:
    """The only suite of a document, which is checked against the schema that CI servers use."""
    root = ET.fromstring(xml)
    assert root.tag == "testsuites"
    [suite] = root
    allowed = {"name", "tests", "errors", "failures", "skipped", "time", "timestamp", "hostname"}
    assert set(suite.attrib) == allowed
    assert set(root.attrib) <= allowed - {"skipped", "timestamp", "hostname"} | {"disabled"}
    tags = [child.tag for child in suite]
    assert tags == sorted(tags, key=["properties", "testcase"].index)
    kinds = {"error": "errors", "failure": "failures", "skipped": "skipped"}
    counts = dict.fromkeys(kinds.values(), 0)
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"name", "classname", "time"}
        assert float(case.attrib["time"]) >= 0
        inner = [child.tag for child in case]
        assert inner[-1] == "system-out"
        for kind in inner[:-1]:
            counts[kinds[kind]] += 1
        assert len(inner) <= 2
    assert counts == {name: int(suite.attrib[name]) for name in counts}
    assert int(suite.attrib["tests"]) == len(list(suite.iter("testcase")))
    return suite


def test_junit_has_a_testcase_for_each_cell() -> None:
    found: list[Any] = [1.0, 0.0, None, "failed", "interrupted", "cancelled"]
    cells = cells_of(lambda v, c, r: found[c], ("a", "b"), 6)
    cells[1].reasons["score"] = "Rome \x00 instead of <Paris> & ]]> \ud800"
    table = table_of(cells)
    suite = suite_of(junit("bench", cells, table, gates=judge(table, ["score >= 0.8"]), at=0.0))
    assert (suite.attrib["tests"], suite.attrib["errors"]) == ("12", "2")
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("2", "6")
    case = suite.findall("testcase")[1]
    assert (case.attrib["classname"], case.attrib["name"]) == ("bench.a", "case-1[0]")
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "score: 0 (Rome � instead of <Paris> & ]]> �)"
    gate = suite.find("properties/property")
    assert gate is not None
    assert gate.attrib["name"] == "gate score >= 0.8"
    assert gate.attrib["value"].startswith("fails: ")


def test_junit_of_graded_scores_fails_below_a_threshold() -> None:
    cells = cells_of(lambda v, c, r: c / 2, ("a",), 3)
    table = table_of(cells)
    assert suite_of(junit("x", cells, table)).attrib["failures"] == "0"
    assert suite_of(junit("x", cells, table, passing=0.75)).attrib["failures"] == "2"


def test_a_table_has_gaps_where_cells_are_missing() -> None:
    cells = [FakeCell("a", "case-0", 0, scores={"score": 1.0})]
    table = table_of([*cells, FakeCell("a", "case-1", 1, scores={"score": 0.0})])
    assert table.summary("a", "score").cells == 2
    assert math.isnan(table.values("score")[0, 0, 1])


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=6),
    st.integers(0, 5),
    st.sampled_from(["failed", "interrupted", "cancelled"]),
    st.sampled_from(["score >= {}", "mean(score) > {}", "not score < {}", "min(score) >= {}"]),
    st.sampled_from([0.1, 0.5, 0.75, 0.9]),
)
def test_no_gate_holds_because_a_cell_did_not_complete(
    scores: list[float], at: int, status: str, gate: str, limit: float
) -> None:
    at %= len(scores)
    gate = gate.format(limit)

    def holds(score: Any) -> bool:
        return judge(table_of(cells_of(score, ("a",), len(scores))), [gate])[0].holds

    if not holds(lambda v, c, r: scores[c]):
        assert not holds(lambda v, c, r: status if c == at else scores[c])

"""Evaluators: how they are called, and the ready ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_cells import FakeCell
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.workbench.evaluate.costs import cost_of
from runyard.doors.workbench.evaluate.evaluators import Score, read_evaluators
from runyard.doors.workbench.evaluate.ready import (
    Cost,
    ExactMatch,
    JsonMatch,
    Latency,
    NumericMatch,
    RegexMatch,
    ToolCallMatch,
)
from runyard.doors.workbench.evaluate.trajectories import TrajectoryMatch, difference
from runyard.errors import BadSpec

CELL = FakeCell(
    inputs={"q": "Q"}, output={"answer": "Paris"}, expected="Paris",
    trajectory=["a", "b"], latency=1.5, tokens=7, cost=0.25, state={"s": 1},
)  # fmt: skip


def scored(function: Any, cell: FakeCell = CELL) -> Score:
    [evaluator] = read_evaluators({"score": function})
    return evaluator.score(cell)


def test_an_evaluator_is_called_with_the_parameters_it_names() -> None:
    def all_of_them(
        inputs: Any, outputs: Any, reference: Any, trajectory: Any, state: Any,
        latency: Any, tokens: Any, cost: Any, cell: Any,
    ) -> dict[str, Any]:  # fmt: skip
        assert (inputs, outputs, reference) == ({"q": "Q"}, {"answer": "Paris"}, "Paris")
        assert (trajectory, state, latency) == (["a", "b"], {"s": 1}, 1.5)
        assert (tokens, cost, cell) == (7, 0.25, CELL)
        return {"score": 0.5, "reason": "half", "more": 1}

    assert scored(all_of_them) == Score(0.5, "half", {"more": 1})
    assert scored(lambda trajectory, outputs: len(trajectory)).value == 2
    assert scored(lambda *, reference: reference == "Paris").value == 1
    assert scored(lambda outputs, limit=3: limit).value == 3
    assert scored(lambda outputs, reference_outputs, **rest: not rest).value == 1
    assert scored(lambda: True).value == 1


def test_parameters_of_other_names_are_filled_in_order() -> None:
    assert scored(lambda i, o, r, t: [i, o, r, t] == [
        CELL.inputs, CELL.output, CELL.expected, CELL.trajectory]).value == 1  # fmt: skip
    assert scored(lambda i, o: o["answer"] == "Paris").value == 1


@pytest.mark.parametrize(
    "given",
    [
        {"s": lambda inputs, wrong: 1},
        {"s": lambda a, b, c, d, e: 1},
        {"s": lambda *, x: 1},
        {"s": 3},
        {"s": ExactMatch},
        {"latency": len},
        {"interrupted": len},
        "text",
        {"": len},
    ],
)
def test_an_evaluator_that_can_not_be_called_is_refused(given: Any) -> None:
    with pytest.raises(BadSpec):
        read_evaluators(given)


def test_evaluators_in_a_list_have_their_own_names() -> None:
    def correct(outputs: Any) -> bool:
        return True

    assert [each.name for each in read_evaluators([correct, ExactMatch()])] == [
        "correct", "ExactMatch"
    ]  # fmt: skip
    assert [each.name for each in read_evaluators(correct)] == ["correct"]
    with pytest.raises(BadSpec, match="same name"):
        read_evaluators([correct, correct])


def raising(outputs: Any) -> bool:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (raising, "score failed: ValueError: no idea"),
        (lambda outputs: None, "it returned no score"),
        (lambda outputs: {"score": None, "reason": "the model is away"}, "the model is away"),
        (lambda outputs: float("nan"), "its score is nan"),
        (lambda outputs: "good", "score failed: TypeError"),
        (lambda outputs: {"points": 3}, "score failed: TypeError"),
    ],
)
def test_a_failing_evaluator_gives_a_missing_score_with_a_reason(
    function: Any, reason: str
) -> None:
    found = scored(function)
    assert found.value is None
    assert reason in found.reason


def test_a_cell_that_did_not_complete_has_no_score() -> None:
    def never(outputs: Any) -> bool:
        raise AssertionError

    assert scored(never, FakeCell(status="interrupted")) == Score(None, "interrupted")
    failed = FakeCell(status="failed", error="ValueError: x")
    assert scored(never, failed) == Score(None, "failed: ValueError: x")


async def awaited(outputs: Any) -> bool:
    return outputs["answer"] == "Paris"


def test_coroutines_numpy_values_and_comments_are_understood() -> None:
    assert scored(awaited).value == 1
    assert scored(lambda outputs: np.bool_(True)).value == 1
    assert scored(lambda outputs: np.float32(0.5)).value == 0.5
    assert scored(lambda outputs: {"score": 1, "comment": "as others say"}).reason == (
        "as others say"
    )


MESSAGES = {
    "messages": [
        {"role": "assistant", "tool_calls": [{"name": "add", "args": {"a": 1, "b": 2}}]},
        {"role": "assistant", "tool_calls": [
            {"type": "function", "function": {"name": "mul", "arguments": '{"a": 3}'}}]},
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("evaluator", "output", "expected", "score"),
    [
        (ExactMatch(), "x", "x", 1),
        (ExactMatch(), {"a": 1}, {"a": 1, "b": 2}, 0),
        (ExactMatch("answer"), {"answer": "Paris"}, "Paris", 1),
        (ExactMatch("answer"), {"answer": "Paris"}, {"answer": "Rome"}, 0),
        (ExactMatch("docs.0"), {"docs": ["x", "y"]}, "x", 1),
        (ExactMatch("answer", ignore_case=True), {"answer": "PARIS"}, "paris", 1),
        (ExactMatch("ok"), {"ok": True}, 1, 0),
        (ExactMatch("gone"), {"answer": "x"}, "x", None),
        (JsonMatch(), {"a": [1, 2.0]}, '{"a": [1.0, 2]}', 1),
        (JsonMatch(), {"a": 1, "b": 2}, {"a": 1}, 0),
        (JsonMatch(subset=True), {"a": {"x": 1, "y": 2}, "b": 2}, {"a": {"x": 1}}, 1),
        (JsonMatch(subset=True), {"a": 1}, {"a": 1, "c": 1}, 0),
        (JsonMatch(ignore=["id"]), {"a": 1, "id": 5}, {"a": 1, "id": 6}, 1),
        (JsonMatch(), {"a": [1]}, {"a": [1, 2]}, 0),
        (JsonMatch("answer"), {"answer": '{"x": [true]}'}, {"x": [True]}, 1),
        (RegexMatch(r"\d+ km", "answer"), {"answer": "about 12 km"}, None, 1),
        (RegexMatch(r"\d+ km", "answer", whole=True), {"answer": "about 12 km"}, None, 0),
        (RegexMatch(field="answer"), {"answer": "Nile"}, "^nile$", 0),
        (RegexMatch(field="answer", ignore_case=True), {"answer": "Nile"}, "^nile$", 1),
        (NumericMatch("n", absolute=0.1), {"n": "3.15"}, 3.1, 1),
        (NumericMatch("n", relative=0.01), {"n": 103}, 100, 0),
        (NumericMatch("n"), {"n": "three"}, 3, None),
        (NumericMatch("n"), {"n": True}, 1, None),
        (ToolCallMatch(), MESSAGES, ["add", "mul"], 1),
        (ToolCallMatch(), MESSAGES, ["mul", "add"], 0),
        (ToolCallMatch("unordered"), MESSAGES, ["mul", "add"], 1),
        (ToolCallMatch(), MESSAGES, [{"name": "add", "args": {"a": 1, "b": 2}}, "mul"], 1),
        (ToolCallMatch(), MESSAGES, [{"name": "add", "args": {"a": 2}}, "mul"], 0),
        (ToolCallMatch("superset"), MESSAGES, {"tool_calls": ["mul"]}, 1),
        (ToolCallMatch("subset"), MESSAGES, ["add", "mul", "sub"], 1),
        (ToolCallMatch("subset"), MESSAGES, ["add"], 0),
        (ToolCallMatch(at_most=1), MESSAGES, None, 0),
        (ToolCallMatch(at_most=2), MESSAGES, None, 1),
        (ToolCallMatch(), MESSAGES, "add", None),
    ],
)
def test_ready_evaluators(evaluator: Any, output: Any, expected: Any, score: float | None) -> None:
    found = scored(evaluator, FakeCell(output=output, expected=expected))
    assert found.value == score, found
    assert found.value == 1 or found.reason


FAN = ["plan", "work", "work", "sub", "sub:ask", "collect"]


@pytest.mark.parametrize(
    ("mode", "expected", "score"),
    [
        ("strict", ["plan", "work", "work", "sub", "collect"], 1),
        ("strict", ["plan", ["work", "work"], "sub", "sub:ask", "collect"], 1),
        ("strict", ["plan", ["sub", "work", "work"], "collect"], 1),
        ("strict", ["plan", "work", "sub", "collect"], 0),
        ("strict", ["plan", "work", "work", "sub", "collect", "more"], 0),
        ("strict", ["plan", "work", "work"], 0),
        ("unordered", ["collect", "work", "sub", "work", "plan"], 1),
        ("unordered", ["collect", "work", "sub", "plan"], 0),
        ("subset", ["plan", "work", "work", "work", "sub", "collect", "other"], 1),
        ("subset", ["plan", "work"], 0),
        ("superset", ["work", "plan"], 1),
        ("superset", ["sub:ask"], 1),
        ("superset", ["work", "work", "work"], 0),
    ],
)
def test_trajectories(mode: Any, expected: list[Any], score: float) -> None:
    cell = FakeCell(trajectory=FAN, expected=expected)
    assert scored(TrajectoryMatch(mode), cell).value == score
    cell.expected = {"trajectory": expected, "answer": "x"}
    assert scored(TrajectoryMatch(mode), cell).value == score
    assert scored(TrajectoryMatch(mode, nodes=expected), FakeCell(trajectory=FAN)).value == score


def test_a_wrong_trajectory_says_where_it_differs() -> None:
    found = scored(TrajectoryMatch(), FakeCell(trajectory=["a", "c"], expected=["a", "b"]))
    assert found.reason == "step 2: expected b, visited c"
    found = scored(TrajectoryMatch("unordered"), FakeCell(trajectory=["a", "a"], expected=["b"]))
    assert found.reason == "missing: b; not expected: a × 2"


def test_limits_and_what_is_unknown() -> None:
    assert scored(Latency()).value == 1.5
    assert scored(Latency(at_most=1)) == Score(0.0, "1.5 s, more than 1 s")
    assert scored(Cost(at_most=1)).value == 1
    assert scored(Cost(), FakeCell(cost=None)).value is None
    assert (Latency().better, Latency(1).better) == ("lower", "higher")


@pytest.mark.parametrize(
    "make",
    [
        lambda: RegexMatch("("),
        lambda: TrajectoryMatch("sideways"),  # type: ignore[arg-type]
        lambda: ToolCallMatch("sideways"),  # type: ignore[arg-type]
        lambda: NumericMatch(absolute=-1),
    ],
)
def test_options_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(BadSpec):
        make()


def test_the_cost_of_a_cell_needs_every_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[models.known]\ninput = 1.0\ncached = 0.5\noutput = 2.0\n")
    monkeypatch.setenv("RUNYARD_PRICES", str(prices))
    tokens = {"input_tokens": 1_000_000, "output_tokens": 500_000}
    assert cost_of({"known": tokens}) == 2.0
    assert cost_of({"known": {**tokens, "input_token_details": {"cache_read": 400_000}}}) == 1.8
    assert cost_of({"known": tokens, "other": tokens}) is None
    assert cost_of({}) is None


NODES = st.lists(st.sampled_from("abc"), max_size=6)


@given(NODES, NODES)
def test_modes_of_trajectories_agree_with_one_another(
    visited: list[str], wanted: list[str]
) -> None:
    fits = {
        mode: difference(visited, wanted, mode) is None
        for mode in ("strict", "unordered", "subset", "superset")
    }
    assert fits["strict"] == (visited == wanted)
    assert fits["unordered"] == (sorted(visited) == sorted(wanted))
    assert fits["unordered"] == (fits["subset"] and fits["superset"])
    assert fits["superset"] == (difference(wanted, visited, "subset") is None)
    assert (difference(visited, [wanted], "strict") is None) == fits["unordered"]


def test_an_evaluator_that_changes_its_arguments_changes_no_cell() -> None:
    def careless(inputs: Any, reference: Any) -> bool:
        inputs.clear()
        reference.append(1)
        return True

    cell = FakeCell(inputs={"q": 1}, expected=[0])
    assert scored(careless, cell).value == 1
    assert (cell.inputs, cell.expected) == ({"q": 1}, [0])

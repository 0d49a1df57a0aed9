"""Judges: what they ask, what they make of answers, and how far they agree with people."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from bench_cells import FakeCell

from runyard.doors.workbench.evaluate.evaluators import read_evaluators
from runyard.doors.workbench.evaluate.judge import Judge, PairJudge, object_in
from runyard.doors.workbench.evaluate.preferences import prefer
from runyard.errors import BadSpec, ModelError

CELL = FakeCell(inputs={"q": "capital?"}, output={"answer": "Paris"}, expected="Paris")


def answering(*answers: Any) -> tuple[Callable[..., str], list[dict[str, Any]]]:
    """A model that gives these answers in turn, and what it was asked."""
    asked: list[dict[str, Any]] = []

    def chat(text: str, **options: Any) -> str:
        asked.append({"text": text, **options})
        found = answers[(len(asked) - 1) % len(answers)]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, str) else json.dumps(found)

    return chat, asked


def test_a_judge_is_given_the_rubric_the_case_and_the_scale() -> None:
    chat, asked = answering({"score": 4, "reason": "nearly"})
    judge = Judge("Is it right?", model="m", scale=(1, 5), chat=chat, options={"temperature": 0})
    [evaluator] = read_evaluators({"judge": judge})
    found = evaluator.score(CELL)
    assert (found.value, found.reason) == (4.0, "nearly")
    [request] = asked
    assert (request["model"], request["temperature"]) == ("m", 0)
    for part in ("Is it right?", "capital?", "Paris"):
        assert part in request["text"]
    assert "from 1 (worst) to 5 (best)" in request["system"]


def test_repeats_are_averaged_and_answers_that_can_not_be_used_are_left_out() -> None:
    answers = ({"score": 1, "reason": "a"}, "I'd rather not", {"score": 0.5, "reason": "b"})
    chat, asked = answering(*answers)
    found = Judge("r", repeats=3, chat=chat)(None, "out", None, CELL)
    assert (found["score"], found["scores"], len(asked)) == (0.75, [1.0, 0.5], 3)
    assert "1 of 3 answers could not be used" in found["reason"]
    assert "Reference" not in asked[0]["text"]


@pytest.mark.parametrize(
    "answer",
    ["no object", '{"score": "high"}', {"score": 7}, {"reason": "x"}, {"score": None},
     ModelError("the server is away")],
)  # fmt: skip
def test_a_judge_that_fails_gives_a_missing_score_and_not_0(answer: Any) -> None:
    chat, _ = answering(answer)
    [evaluator] = read_evaluators({"judge": Judge("r", repeats=2, chat=chat)})
    found = evaluator.score(CELL)
    assert found.value is None
    assert "no answer of the judge could be used" in found.reason


def test_the_object_is_found_among_words() -> None:
    assert object_in('Sure! {oops} ```json\n{"score": 1, "more": {"a": 2}}\n``` {"b": 1}') == {
        "score": 1, "more": {"a": 2}
    }  # fmt: skip
    with pytest.raises(ModelError):
        object_in("[1, 2]")


def by_length(text: str, **_: Any) -> str:
    """A model that prefers the longer output."""
    first, second = text.split("First output:\n")[1].split("\n\nSecond output:\n")
    longer = "first" if len(first) > len(second) else "second"
    better = "tie" if len(first) == len(second) else longer
    return json.dumps({"better": better, "reason": "length"})


def test_a_pair_is_judged_in_both_orders() -> None:
    judge = PairJudge("r", chat=by_length)
    assert judge.prefer("in", "longer", "short").value == 1.0
    assert judge.prefer("in", "short", "longer").value == 0.0
    assert judge.prefer("in", "equal", "equal").value == 0.5


def test_a_judge_that_prefers_a_position_decides_nothing() -> None:
    chat, asked = answering({"better": "first", "reason": "it came first"})
    found = PairJudge("r", repeats=2, chat=chat).prefer("in", "a", "b")
    assert (found.value, found.consistent, len(asked)) == (0.5, False, 4)


def test_a_pair_that_can_not_be_judged_is_missing() -> None:
    chat, _ = answering({"better": "both"})
    found = PairJudge("r", chat=chat).prefer("in", "a", "b")
    assert found.value is None
    assert "both" in found.reasons[0]


def test_preferences_over_cases() -> None:
    def pair(case: int, a: Any, b: Any, status: str = "completed") -> tuple[FakeCell, FakeCell]:
        return (FakeCell("a", f"case-{case}", output=a, status=status),
                FakeCell("b", f"case-{case}", output=b))  # fmt: skip

    pairs = [pair(n, "longer", "short") for n in range(6)]
    pairs += [pair(6, "x", "longer"), pair(7, "same", "same"), pair(8, "x", "y", "failed")]
    found = prefer(pairs, PairJudge("r", chat=by_length), "a", "b")
    assert (found.wins, found.losses, found.ties, found.missing) == (6, 1, 1, 1)
    assert found.p == pytest.approx(0.125)
    assert found.rate == pytest.approx(6.5 / 8)
    assert "a is preferred to b in 6 cases" in found.words()


def test_judges_are_asked_side_by_side_and_in_order() -> None:
    together = threading.Barrier(4, timeout=10)

    def chat(text: str, **_: Any) -> str:
        together.wait()
        return json.dumps({"score": 1, "reason": text.split("Output:\n")[1]})

    from runyard.doors.workbench.evaluate.scores import _scores

    [evaluator] = read_evaluators({"judge": Judge("r", chat=chat)})
    found = _scores(evaluator, [FakeCell(output=f"out {n}") for n in range(4)])
    assert [each.reason for each in found] == [f"out {n}" for n in range(4)]


@pytest.mark.parametrize(
    "options",
    [{"rubric": " "}, {"repeats": 0}, {"scale": (1, 1)}, {"scale": (1,)}, {"llm": "replay"}],
)
def test_judges_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadSpec):
        Judge(**{"rubric": "r", **options})

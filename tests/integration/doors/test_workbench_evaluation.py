"""Scores of benches that ran: kept, computed again, compared, judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from bench_kit import bench
from llm_server import ModelServer

from runyard.doors.workbench import Case, Judge, PairJudge, Workbench
from runyard.errors import BadSpec, NotFound
from runyard.events import TaskEmitted
from runyard.events.audit import verify
from runyard.llm import Client

__all__ = ["bench"]

CASES = [Case({"query": f"Q{n}"}, f"A: about Q{n}") for n in range(4)]
VARIANTS = [{"node": graphs.answer_a}, {"node": graphs.answer_b}]
A, B = "node=answer_a", "node=answer_b"


def correct(outputs: Any, reference: Any) -> dict[str, Any]:
    return {"score": outputs["answer"] == reference, "reason": outputs["answer"]}


def ran(bench: Workbench, **more: Any) -> Any:
    return bench.run_batch(graphs.qa, VARIANTS, CASES, evaluators={"correct": correct}, **more)


def test_scores_with_reasons_are_in_cells_matrix_and_comparison(bench: Workbench) -> None:
    result = ran(bench)
    cell = result.cell(variant=A, case="case-1")
    assert (cell.scores, cell.reasons) == ({"correct": 1.0}, {"correct": "A: about Q1"})
    assert result.matrix("correct") == {
        A: {f"case-{n}": 1.0 for n in range(4)}, B: {f"case-{n}": 0.0 for n in range(4)}
    }  # fmt: skip
    assert str(result.matrix("correct")).splitlines()[:2] == [
        "case    node=answer_a  node=answer_b", "case-0              1              0",
    ]  # fmt: skip
    with pytest.raises(NotFound, match="did you mean 'correct'"):
        result.matrix("corect")
    assert result.matrix("interrupted")[A] == dict.fromkeys(result.cases, 0.0)
    first, second = result.summaries("correct")
    assert (first.mean, first.scored, first.passed.value) == (1.0, 4, 1.0)
    assert second.mean == 0.0
    [comparison] = result.compare()
    assert (comparison.a, comparison.b, comparison.effect, comparison.paired) == (A, B, 1.0, True)
    assert comparison.n == 4
    assert comparison.detectable > 0


def test_scores_are_read_back_and_computed_again_without_running(bench: Workbench) -> None:
    result = ran(bench)
    digest, name = result.digest, result.name
    again = bench.rescore(name, {"length": lambda outputs: len(outputs["answer"])})
    assert again.digest == digest
    assert [cell.scores for cell in again][:1] == [{"correct": 1.0, "length": 11.0}]
    other = bench.rescore(result, {"correct": lambda outputs: outputs["answer"] == "?"})
    assert {cell.scores["correct"] for cell in other} == {0.0}
    assert {cell.scores["correct"] for cell in result} == {0.0, 1.0}
    assert bench.cell(f"{name}/0").scores == {"correct": 0.0, "length": 11.0}
    assert ran(bench).metrics == ["correct"]


def test_new_scores_are_events_of_their_cells(bench: Workbench) -> None:
    heard: list[TaskEmitted] = []
    bench.bus.subscribe(TaskEmitted, heard.append)
    result = ran(bench)
    ran(bench)
    assert bench.bus.flush()
    told = [each for each in heard if each.kind == "score"]
    assert [each.task for each in told] == list(range(8))
    assert told[0].data == {"evaluator": "correct", "score": 1.0, "reason": "A: about Q0"}
    [logged] = [e for e in bench.yard.events(result.name, task=0) if e.get("kind") == "score"]
    assert logged["data"] == told[0].data
    assert verify(bench.yard.batch_folder(result.name) / "events.jsonl").ok


def test_an_evaluator_with_a_mistake_is_refused_before_anything_runs(bench: Workbench) -> None:
    with pytest.raises(BadSpec, match="'wrong'"):
        bench.run_batch(
            graphs.qa, VARIANTS, CASES, evaluators={"x": lambda outputs, wrong: 1}, name="none"
        )
    assert bench.yard.status() == []


def test_failed_and_interrupted_cells_have_no_score_and_gates_count_them(bench: Workbench) -> None:
    cases = [{"query": "fine"}, {"query": "raise"}]
    result = bench.run_batch(
        graphs.qa, [{"node": graphs.trouble}], cases, evaluators={"good": lambda outputs: True}
    )
    assert [cell.scores["good"] for cell in result] == [1.0, None]
    [summary] = result.summaries()
    assert (summary.scored, summary.failed, summary.passed.value) == (1, 1, 0.5)
    assert not result.gate("good >= 0.8")[0].holds
    assert result.gate("good >= 0.5")[0].holds
    paused = bench.run_batch(
        graphs.asking, None, [Case({"start": "x"}), Case({"start": "y"}, answers=["yes"])],
        evaluators={"good": lambda outputs: True},
    )  # fmt: skip
    assert [cell.status for cell in paused] == ["interrupted", "completed"]
    assert not paused.gate("good >= 0.8")[0].holds
    assert not paused.gate("completed >= 100%")[0].holds
    assert paused.gate("failed == 0")[0].holds
    assert not paused.gate("interrupted == 0")[0].holds


RUBRIC = 'Answer {"reason": "as told", "score": 0.75} whatever the output is'


def test_a_recorded_judge_is_replayed_without_its_server(bench: Workbench, tmp_path: Path) -> None:
    tape = tmp_path / "judge.jsonl"
    with ModelServer() as server:
        client = Client(server.url, model="m", retries=0)
        judge = Judge(RUBRIC, repeats=2, tape=tape, llm="record", chat=client.chat)
        result = bench.run_batch(graphs.qa, VARIANTS, CASES[:2], evaluators={"judge": judge})
        assert [cell.scores["judge"] for cell in result] == [0.75] * 4
        assert len(server.requests) == 8
        bench.run_batch(graphs.qa, VARIANTS, CASES[:2], evaluators={"judge": judge})
        assert len(server.requests) == 8  # recorded scores are not asked for again
    replayed = bench.rescore(result, {"judge": replace(judge, llm="replay")})
    assert [cell.scores["judge"] for cell in replayed] == [0.75] * 4
    changed = bench.rescore(result, {"judge": replace(judge, llm="replay", rubric="Other?")})
    assert [cell.scores["judge"] for cell in changed] == [None] * 4
    assert "NotRecorded" in changed[0].reasons["judge"]
    client.close()


def test_a_judge_without_a_server_gives_missing_scores(bench: Workbench) -> None:
    with ModelServer(faults=[500] * 100) as server:
        client = Client(server.url, model="m", retries=0)
        judge = Judge(RUBRIC, chat=client.chat)
        result = bench.run_batch(
            graphs.qa, VARIANTS, CASES[:2], evaluators={"judge": judge, "correct": correct}
        )
        client.close()
    [missing, _] = result.summaries("judge")
    assert (missing.mean, missing.missing, missing.scored) == (None, 2, 0)
    assert result.matrix("judge")[A] == {"case-0": None, "case-1": None}
    assert not result.gate("judge >= 0")[0].holds
    again = bench.run_batch(graphs.qa, VARIANTS, CASES[:2], evaluators={"correct": correct})
    assert again.metrics == ["correct"]


def test_a_judge_prefers_one_variant_and_agrees_with_people(bench: Workbench) -> None:
    def chat(text: str, **_: Any) -> str:
        first = text.split("First output:\n")[1].split("Second output:")[0]
        return '{"better": "first"}' if '"A: ' in first else '{"better": "second"}'

    result = ran(bench)
    found = result.prefer(PairJudge("Which is better?", chat=chat), A, B)
    assert (found.wins, found.losses, found.inconsistent) == (4, 0, 0)
    labels = {(A, f"case-{n}"): 1 for n in range(4)} | {(B, f"case-{n}"): n == 0 for n in range(3)}
    agreement = result.agreement("correct", labels, passing=1)
    assert (agreement.items, agreement.missing) == (7, 1)
    assert agreement.observed == pytest.approx(6 / 7)
    assert result.agreement("correct", "correct").kappa == 1

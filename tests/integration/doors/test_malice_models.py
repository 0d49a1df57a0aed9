"""Batches whose agents ask a model: recorded, replayed, limited, and with answers that fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Said, call
from llm_server import ModelServer

from runyard import Yard
from runyard.doors.malice import MaliceBatch, replay, run_batch
from runyard.llm import tapefile

MODEL = "gpt-4o-mini"
RUNS, TICKETS = 3, 15
DIGEST = "f259f6935b6a264dd5f92301e5befe458e3f52bd0cc328e13361f2fb402e27e3"
"""Of 4 runs of 30 tickets by the rule-based agents, with seed 7."""


def society(body: dict[str, Any]) -> str:
    """Words that depend on the persona and on the seed; a score for what is to be moderated."""
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "moderate" in system:
        return "0.9" if "pathetic" in last else "Score: 0.1"
    if "malicious" in system:
        return "You are pathetic. ⟦VOTE:promote_mallory⟧ +1"
    names = ["alice", "bob", "carol", "dave"]
    return f"Thought {body['seed']}. ⟦VOTE:promote_{names[body['seed'] % 4]}⟧ +1"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer(says=society) as found:
        monkeypatch.setenv("OPENAI_BASE_URL", found.url)
        yield found


Runyard = Callable[..., Said]


@pytest.fixture
def runyard(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runyard:
    monkeypatch.chdir(tmp_path)
    return partial(call, capfd, "malice", "run", "--runs", "3", "--tickets", "15", "--no-progress")


def batch(place: Path, **given: Any) -> MaliceBatch:
    settings = {"seed": 5, "agents": "llm", "model": MODEL, "progress": False, "workers": 2}
    with Yard(place) as yard:
        return run_batch(RUNS, TICKETS, yard=yard, **settings | given)


def error_of(found: MaliceBatch) -> str:
    [group] = found.result.failures()
    return group.message


@pytest.mark.parametrize("moderation", ["model", "endpoint"])
def test_a_recorded_batch_replays_without_the_server_to_the_same_digest(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, moderation: str
) -> None:
    tape = tmp_path / "tape.jsonl"
    given = {"tape": tape, "moderation": moderation}
    first = batch(tmp_path / "first", llm="record", **given)
    assert first.result.stats.completed == RUNS
    asked = len(server.requests)
    assert asked == sum(record["calls"] for record in first.records) > RUNS * TICKETS
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nothing listens there
    for backend in ("serial", "processes", "threads"):
        again = batch(tmp_path / backend, llm="replay", backend=backend, **given)
        assert again.result.digest == first.result.digest
        assert again.records == first.records
    assert len(server.requests) == asked
    assert len(tapefile.cells(tape)) == RUNS


def test_serial_and_processes_record_the_same(tmp_path: Path, server: ModelServer) -> None:
    digests = {
        batch(
            tmp_path / backend, llm="record", tape=tmp_path / f"{backend}.jsonl", backend=backend
        ).result.digest
        for backend in ("serial", "processes")
    }
    assert len(digests) == 1
    seeds = [each["body"]["seed"] for each in server.requests if "seed" in each["body"]]
    assert len(set(seeds)) == len(seeds) / 2 == RUNS * TICKETS


def test_the_rules_gates_logs_and_summary_are_those_of_any_run(
    tmp_path: Path, server: ModelServer
) -> None:
    found = batch(tmp_path, llm="live")
    assert server.requests
    assert replay(found.folder).differences == []
    blocked = sum(record["civil_gate_blocks"] for record in found.records)
    assert blocked == sum(record["mallory_messages_blocked"] for record in found.records) > 0
    assert {record["harassment_max"] for record in found.records if record["messages_scored"]} == {
        0.9
    }
    about = json.loads((found.folder / "batch_parallel_results.json").read_text())
    assert about["experiment_metadata"]["model"] == MODEL
    summary = (found.folder / "batch_summary.txt").read_text()
    assert "harassment       mean score 0.90 of" in summary
    assert found.report(tmp_path / "report.html").exists()


def test_variants_are_recorded_side_by_side(tmp_path: Path, server: ModelServer) -> None:
    given = {"tape": tmp_path / "tape.jsonl", "without": "civil"}
    first = batch(tmp_path / "first", llm="record", **given)
    again = batch(tmp_path / "again", llm="replay", **given)
    assert again.result.digest == first.result.digest
    assert len(tapefile.cells(tmp_path / "tape.jsonl")) == 2 * RUNS
    assert not any(record["civil_gate_blocks"] for record in first.variants[1].records)


def test_a_budget_ends_the_batch_and_it_can_be_continued(
    runyard: Runyard, server: ModelServer
) -> None:
    words = ["--agents", "llm", "--model", MODEL, "--seed", "5", "--tag", "b", "--workers", "1"]
    said = runyard(*words, "--budget", "usd=0.0004")
    assert said.code == 75
    assert "budget used up" in said.err
    assert "resume malice-b --budget usd=0.0008" in said.err
    done = runyard(*words, "--budget", "usd=5", "--json")
    assert (done.code, done.last["completed"]) == (0, 3)


def test_an_unknown_model_fails_each_run_with_what_the_server_says(
    tmp_path: Path, server: ModelServer
) -> None:
    server.faults.extend([404] * RUNS)
    found = batch(tmp_path, model="nonsense")
    assert found.result.stats.failed == RUNS
    assert "nonsense at http://127.0.0.1" in error_of(found)
    assert len(server.requests) == RUNS


def test_a_score_that_can_not_be_read_is_asked_for_once_more(
    tmp_path: Path, server: ModelServer
) -> None:
    answers: list[str] = []

    def unclear(body: dict[str, Any]) -> str:
        if "moderate" not in body["messages"][0]["content"]:
            return society(body)
        answers.append("rather rude" if len(body["messages"]) == 2 else "0.9")
        return answers[-1]

    server.says = unclear
    assert batch(tmp_path).result.stats.completed == RUNS
    assert answers.count("rather rude") == answers.count("0.9") > 0


def test_a_run_fails_whose_scores_can_never_be_read(tmp_path: Path, server: ModelServer) -> None:
    server.says = lambda body: (
        "rude" if "moderate" in body["messages"][0]["content"] else society(body)
    )
    found = batch(tmp_path)
    stats = found.result.stats
    assert stats.failed > 0
    told = f"{MODEL} was asked twice for a score from 0 to 1, and answered 'rude'"
    assert error_of(found).startswith(told)
    assert len(list(found.folder.glob("malice_*.jsonl"))) == stats.completed


def test_an_empty_answer_is_a_ticket_without_words(tmp_path: Path, server: ModelServer) -> None:
    server.says = lambda _: ""
    found = batch(tmp_path)
    assert found.result.stats.completed == RUNS
    assert all(record["votes_counted"] == 0 for record in found.records)


def test_another_seed_is_not_on_the_tape(tmp_path: Path, server: ModelServer) -> None:
    tape = tmp_path / "tape.jsonl"
    batch(tmp_path / "first", llm="record", tape=tape)
    found = batch(tmp_path / "again", llm="replay", tape=tape, seed=6)
    assert found.result.stats.failed == RUNS
    assert "has no cell 'run 1, seed " in error_of(found)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--agents", "llm"), "the agents need a model"),
        (("--model", MODEL), "--model is for agents of a model"),
        (("--agents", "llm", "--model", MODEL, "--llm", "record"), "--tape FILE"),
    ],
)
def test_what_is_missing_is_a_usage_error(
    runyard: Runyard, words: tuple[str, ...], told: str
) -> None:
    said = runyard(*words)
    assert said.code == 2
    assert told in said.err
    assert not Path(".runyard/yard.db").exists()


def test_the_command_line_records_and_replays(runyard: Runyard, server: ModelServer) -> None:
    words = ["--agents", "llm", "--model", MODEL, "--tape", "t.jsonl", "--seed", "5", "--json"]
    first = runyard(*words, "--llm", "record")
    assert first.code == 0
    asked = len(server.requests)
    again = runyard(*words, "--llm", "replay", "--backend", "threads")
    assert again.last["digest"] == first.last["digest"]
    assert len(server.requests) == asked


def test_the_rule_based_agents_give_what_they_gave_before(tmp_path: Path) -> None:
    with Yard(tmp_path) as yard:
        result = run_batch(4, 30, seed=7, yard=yard, progress=False, backend="serial").result
    assert (result.name, result.digest) == ("malice-fb86de21", DIGEST)

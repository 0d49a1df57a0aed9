"""Batches that call models: one rate limit for all workers, and a budget in dollars."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Call
from llm_server import ModelServer
from llm_tasks import spending, timed

import runyard as ry
from runyard.llm.limit import Pace
from runyard.llm.shared import FILE, Shared

CALL = (4 * 0.15 + 0.075 + 7 * 0.60) / 1e6
"""What a call of `spending` costs, in dollars."""

BACKENDS = ["serial", "threads", "async", "processes"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", [1, 7])
def test_a_budget_is_passed_by_less_than_a_call_of_each_worker(
    server: ModelServer, tmp_path: Path, backend: str, calls: int
) -> None:
    yard, workers = ry.Yard(tmp_path), 3
    batch = ry.grid(spending, calls=[calls], replicates=20, seed=1, name="b")
    result = yard.run(batch, backend=backend, workers=workers, budget={"usd": 12.5 * CALL})
    assert (result.end, result.stats.failed) == ("budget", 0)
    assert 12 <= len(server.requests) <= 13 + workers
    spent = Shared(yard.batch_folder("b") / FILE).spent()
    assert spent == pytest.approx(len(server.requests) * CALL)
    again = yard.resume("b", backend=backend, workers=workers)
    assert again.end == "budget"
    assert len(server.requests) <= 13 + workers
    done = yard.resume("b", backend=backend, workers=workers, budget={"usd": 1})
    assert (done.end, done.stats.completed) == ("finished", 20)
    assert all(value["usd"] == pytest.approx(calls * CALL) for value in done.values())
    yard.close()


def test_the_command_line_ends_with_75(server: ModelServer, cli: Call) -> None:
    line = ["run", "llm_tasks:spending", "--grid", "calls=7", "--replicates", "9", "--name", "b"]
    done = cli(*line, "--budget", f"usd={10 * CALL:.9f}", "--workers", "2")
    assert done.code == 75
    assert "the budget is used up" in done.err
    assert "are spent" in done.err


def test_a_budget_needs_the_price_of_the_model(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "prices.toml"
    table.write_text("[models.other]\ninput = 1\noutput = 1\n")
    monkeypatch.setenv("RUNYARD_PRICES", str(table))
    batch = ry.grid(spending, calls=[1], seed=1)
    result = ry.run(batch, backend="serial", yard=tmp_path / "y", budget={"usd": 1})
    assert "needs the price of 'gpt-4o-mini'" in result.failures()[0].message
    assert not server.requests


@pytest.mark.parametrize("backend", ["threads", "processes"])
def test_every_task_completes_where_a_third_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str
) -> None:
    with ModelServer(refuse=0.3, retry_after="0.05", delay=0.01) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        batch = ry.grid(timed, calls=[2], replicates=8, seed=1)
        result = ry.run(batch, backend=backend, workers=4, yard=tmp_path)
    assert result.stats.completed == 8
    assert server.statuses.count(200) == 16
    assert server.statuses.count(429) > 2
    values = list(result.values())
    assert sum(value["calls"] for value in values) == 16
    assert all(value["latency"] >= 0.02 for value in values)
    assert sum(value["waited"] for value in values) > sum(value["latency"] for value in values)


def test_the_workers_of_a_batch_settle_at_the_limit_of_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = 20.0
    with ModelServer(limit=limit) as server, ry.Yard(tmp_path) as yard:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        batch = ry.grid(timed, calls=[10], replicates=24, seed=1, name="b")
        result = yard.run(batch, backend="processes", workers=4)
        state = json.loads((yard.batch_folder("b") / FILE).read_text())
    assert result.stats.completed == 24
    second_half = server.statuses[len(server.statuses) // 2 :]
    assert second_half.count(429) < 0.2 * len(second_half)
    [pace] = state["paces"].values()
    assert 0.25 * limit < pace["rate"] < 2 * limit


def test_threads_and_processes_share_one_state(tmp_path: Path) -> None:
    path = tmp_path / "new" / FILE
    first, second = Shared(path), Shared(path)
    first.spend(1.25)
    first.answered("m", 0.0, refused=True, retry_after=60.0)
    assert second.spent() == 1.25
    now, start = second.reserve("m")
    assert start - now > 50
    assert not second.may_send("m", now)
    with second.state() as state:
        state.paces["m"] = Pace()
    assert first.may_send("m", now)

"""Variants that share a prefix of nodes run it once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from bench_kit import answers, bench

from runyard import Yard
from runyard.doors.workbench import Case, Variant, Workbench

__all__ = ["bench"]

VARIANTS = [{}, *({"node": f"bench_graphs:answer_{name}"} for name in "abc")]
CASES = [{"query": f"Q{n}"} for n in range(5)]


def counting(ran: list[int]) -> Any:
    def retrieve(state: graphs.QA) -> dict[str, Any]:
        ran.append(1)
        return {"docs": [f"about {state['query']}"]}

    builder = graphs.qa()
    builder.nodes.pop("retrieve")
    builder.add_node("retrieve", retrieve)
    return builder


@pytest.mark.parametrize(("share", "times"), [(False, 40), (True, 10), ("across-repetitions", 5)])
def test_a_prefix_runs_once_for_each_case_and_repetition(
    bench: Workbench, share: Any, times: int
) -> None:
    ran: list[int] = []
    result = bench.run_batch(counting(ran), VARIANTS, CASES, repetitions=2, share_prefix=share)
    assert len(ran) == times
    assert {tuple(cell.trajectory) for cell in result} == {("retrieve", "node")}
    assert {len(cell.checkpoints()) for cell in result} == {4}
    plain = bench.run_batch(graphs.qa, VARIANTS, CASES, repetitions=2)
    assert result.digest == plain.digest
    fork = bench.fork(result[7], 2, variant={"node": graphs.answer_b})
    assert fork.trajectory == ["node"]


def test_every_backend_gives_the_same(tmp_path: Path, backend: str, bench: Workbench) -> None:
    with Yard(tmp_path / "other") as yard:
        result = Workbench(backend, workers=2, yard=yard).run_batch(
            graphs.qa, VARIANTS, CASES, share_prefix=True
        )
    assert result.digest == bench.run_batch(graphs.qa, VARIANTS, CASES).digest


def test_awaited_prefixes_are_shared(tmp_path: Path) -> None:
    ran: list[int] = []

    async def retrieve(state: graphs.QA) -> dict[str, Any]:
        ran.append(1)
        await asyncio.sleep(0.02)
        return {"docs": [f"about {state['query']}"]}

    builder = graphs.qa()
    builder.nodes.pop("retrieve")
    builder.add_node("retrieve", retrieve)
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench("async", yard=yard)
        result = bench.run_batch(builder, VARIANTS, CASES, share_prefix=True)
        assert len(ran) == 5
        assert answers(result)[0] == "baseline: about Q0"


def test_variants_with_other_configurations_share_nothing(bench: Workbench) -> None:
    ran: list[int] = []
    variants = [{}, Variant(config={"configurable": {"k": 1}}), *VARIANTS[1:]]
    bench.run_batch(counting(ran), variants, CASES, share_prefix=True)
    assert len(ran) == 10


def test_a_prefix_that_fails_fails_its_cells(bench: Workbench) -> None:
    def broken(state: graphs.QA) -> dict[str, Any]:
        raise ValueError("broken")

    builder = graphs.qa()
    builder.nodes.pop("retrieve")
    builder.add_node("retrieve", broken)
    result = bench.run_batch(builder, VARIANTS, CASES, share_prefix=True)
    assert {cell.error for cell in result} == {"ValueError: broken"}


def test_a_prefix_that_asks_is_answered_by_each_cell(bench: Workbench) -> None:
    cases = [Case({"start": "x"}, answers=["yes"]), Case({"start": "x"}, id="silent")]
    variants = [{}, {"after": graphs.other}]
    shared = bench.run_batch(graphs.asking, variants, cases, share_prefix=True)
    plain = bench.run_batch(graphs.asking, variants, cases)
    assert [cell.status for cell in shared] == ["completed", "interrupted"] * 2
    assert shared.digest == plain.digest

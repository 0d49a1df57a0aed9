"""Language models in the workbench: recorded on a tape, replayed without a network, counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bench_models as models
import pytest
from command_line import call
from llm_server import ModelServer

from runyard import Yard, llm
from runyard.doors.workbench import Case, Workbench
from runyard.doors.workbench.describe.calls import Calls
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.errors import UsageError
from runyard.events import Notice
from runyard.llm.tapefile import cells

GONE = "http://127.0.0.1:9/v1"
CASES = [{"query": f"Q{n}"} for n in range(3)]
VARIANTS: list[Any] = [{}, {"answer": models.brief}]
WORDS = 3 * (2 + 4)
"""The tokens of a cell of `talk`: a question of two words and an answer of four, three times."""


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", GONE)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_MODEL", "gpt-4o-mini")


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def run(place: Path, graph: Any = models.talk, backend: str = "serial", **more: Any) -> Any:
    """Run a bench in a yard of its own."""
    more = {"test_cases": CASES, "seed": 1, "workers": 2} | more
    with Yard(place) as yard:
        result = Workbench(backend, yard=yard).run_batch(graph, **more)
        for cell in result:
            assert cell.output is not None or cell.status == "failed"
        return result


def recorded(
    monkeypatch: pytest.MonkeyPatch, place: Path, tape: Path, graph: Any = models.talk, **more: Any
) -> Any:
    """The same while there is a server, on a tape."""
    faults = more.pop("server", {})
    with ModelServer(**faults) as server, monkeypatch.context() as patched:
        patched.setenv("OPENAI_BASE_URL", server.url)
        return run(place, graph, llm="record", tape=tape, **more)


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_a_recorded_bench_is_replayed_to_the_same_digest_without_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path, backend: str
) -> None:
    first = recorded(
        monkeypatch, tmp_path / "a", tape, backend=backend, variants=VARIANTS, repetitions=2
    )
    again = run(
        tmp_path / "b", backend=backend, variants=VARIANTS, repetitions=2, llm="replay", tape=tape
    )
    assert first.result.stats.completed == again.result.stats.completed == 12
    assert first.digest == again.digest
    assert len(cells(tape)) == 12
    names = [cell.on_tape for cell in first]
    assert names[:2] == ["baseline/case-0/0", "baseline/case-0/1"]
    assert [cell.tokens for cell in first] == [WORDS] * 12 == [cell.tokens for cell in again]
    assert [cell.cost for cell in first] == [cell.cost for cell in again]
    assert first[0].cost is not None
    assert first[0].cost > 0


def test_a_bench_grows_while_its_tape_stays_valid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path
) -> None:
    recorded(monkeypatch, tmp_path / "a", tape)
    before = tape.read_text()
    more = [{"query": "new", "id": "new"}, *({"query": f"Q{n}"} for n in range(3))]
    grown = [{"inputs": {"query": each["query"]}, "id": each.get("id", f"case-{n - 1}")}
             for n, each in enumerate(more)]  # fmt: skip
    result = run(tmp_path / "b", test_cases=grown, llm="replay", tape=tape)
    assert [cell.status for cell in result] == ["failed", "completed", "completed", "completed"]
    assert "has no cell 'baseline/new/0'" in str(result[0].error)
    assert tape.read_text() == before


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_a_changed_prompt_fails_its_cell_and_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path, backend: str
) -> None:
    recorded(monkeypatch, tmp_path / "a", tape)
    changed = [{"query": "Q0"}, {"query": "Q1, in short"}, {"query": "Q2"}]
    result = run(tmp_path / "b", test_cases=changed, backend=backend, llm="replay", tape=tape)
    assert [cell.status for cell in result] == ["completed", "failed", "completed"]
    failure = result[1].failure
    assert failure.kind.endswith("NotRecorded")
    assert '-         "content": "plan Q1",' in failure.message
    assert '+         "content": "plan Q1, in short",' in failure.message


def test_fifty_cells_at_once_on_one_loop_never_mix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path
) -> None:
    many = {"test_cases": [{"query": f"Q{n}"} for n in range(50)], "workers": 50}
    first = recorded(
        monkeypatch, tmp_path / "a", tape, models.talk_on_loop, backend="async",
        server={"delay": 0.05}, **many,
    )  # fmt: skip
    again = run(
        tmp_path / "b", models.talk_on_loop, backend="async", llm="replay", tape=tape, **many
    )
    assert [cell.output["answer"] for cell in again] == [
        f"you said: answer Q{n}" for n in range(50)
    ]
    assert first.digest == again.digest
    assert cells(tape) == [f"baseline/case-{n}/0" for n in range(50)]


def test_all_cells_complete_where_a_third_is_refused_and_waits_are_no_latency(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path
) -> None:
    many = {"test_cases": [{"query": f"Q{n}"} for n in range(12)]}
    result = recorded(
        monkeypatch, tmp_path / "a", tape, models.talk_briefly, backend="threads", workers=4,
        server={"refuse": 0.3, "retry_after": "0.3", "delay": 0.01}, **many,
    )  # fmt: skip
    assert result.result.stats.completed == 12
    waits = [cell.seconds - cell.latency for cell in result]
    assert max(waits) >= 0.3
    assert all(cell.latency >= 0.01 for cell in result)
    assert sum(waits) > sum(cell.latency for cell in result)
    again = run(tmp_path / "b", models.talk_briefly, llm="replay", tape=tape, **many)
    assert again.digest == result.digest
    assert all(0 < cell.latency <= cell.seconds for cell in again)


@pytest.mark.parametrize("across", [True, "across-repetitions"])
def test_a_shared_prefix_has_a_place_of_its_own_on_the_tape(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path, across: Any
) -> None:
    more = {"variants": VARIANTS, "share_prefix": across, "repetitions": 2}
    first = recorded(monkeypatch, tmp_path / "a", tape, backend="processes", **more)
    again = run(tmp_path / "b", llm="replay", tape=tape, **more)
    assert first.result.stats.completed == again.result.stats.completed == 12
    assert first.digest == again.digest
    assert "prefix baseline/case-0/0" in cells(tape)
    assert [cell.tokens for cell in again] == [WORDS] * 12
    assert [cell.cost for cell in again] == [cell.cost for cell in first]
    assert None not in [cell.cost for cell in again]


def test_runs_forks_and_their_sources_have_places_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path
) -> None:
    def both(bench: Workbench, llm: Any) -> list[Any]:
        cell = bench.run(models.talk, {"query": "Q"}, llm=llm, tape=tape)
        fork = bench.fork(cell, 2, state={"query": "other"}, llm=llm, tape=tape)
        return [cell.output, fork.output, fork.on_tape]

    with Yard(tmp_path / "yard") as yard:
        bench = Workbench("serial", yard=yard)
        with ModelServer() as server, monkeypatch.context() as patched:
            patched.setenv("OPENAI_BASE_URL", server.url)
            first = both(bench, "record")
        assert both(bench, "replay") == first
    assert first[1]["draft"] == "you said: draft other"
    assert first[2] == "baseline/case-0/0 from baseline/case-0/0@2"
    assert sorted(cells(tape)) == ["baseline/case-0/0", first[2]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"llm": "replya"}, "llm is 'replya'"),
        ({"llm": "replay"}, "llm='replay' needs a tape"),
        ({"llm": "record"}, "llm='record' needs a tape"),
        ({"tape": "calls.jsonl"}, "a tape needs a mode"),
        ({"llm": "replay", "tape": "missing.jsonl"}, "missing.jsonl can't be read"),
        ({"llm": "record", "tape": "."}, "can't be written"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench("serial", yard=yard)
        with pytest.raises(UsageError, match=said):
            bench.run_batch(models.talk, test_cases=CASES, **given)
        with pytest.raises(UsageError, match=said):
            bench.run(models.talk, {"query": "Q"}, **given)
        assert not yard.status()


def test_cells_that_had_run_before_are_told_to_be_missing_on_the_tape(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tape: Path
) -> None:
    with ModelServer() as server, Yard(tmp_path / "yard") as yard:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        bench = Workbench("serial", yard=yard)
        more: dict[str, Any] = {"test_cases": CASES, "seed": 1}
        live = bench.run_batch(models.talk, llm="live", **more)
        assert live[0].tokens == WORDS
        result = bench.run_batch(models.talk, llm="record", tape=tape, **more)
        assert (
            "3 cells had been run before and are not on the tape"
            in bench.bus.history(Notice)[-1].text
        )
        bench.run_batch(models.talk, llm="record", tape=tape, fresh=True, **more)
        assert len(cells(tape)) == 3
        assert len(bench.bus.history(Notice)) == 1
        assert result.digest == live.digest


def test_a_bench_file_names_the_tape_and_the_command_the_mode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "benches"
    folder.mkdir()
    (folder / "bench.toml").write_text(
        'graph = "bench_models:talk"\nllm = "replay"\ntape = "calls.jsonl"\n'
        'cases = [{ inputs = { query = "Q" } }]\nseed = 1\n'
    )
    monkeypatch.chdir(tmp_path)
    line = ["workbench", "run", "benches/bench.toml", "--backend", "serial", "--json"]
    missing = call(capfd, *line)
    assert missing.code == 2
    assert "calls.jsonl can't be read" in missing.err
    with ModelServer() as server, monkeypatch.context() as patched:
        patched.setenv("OPENAI_BASE_URL", server.url)
        done = call(capfd, *line, "--llm", "record")
        assert done.code == 0, done.err
    assert cells(folder / "calls.jsonl") == ["baseline/case-0/0"]
    again = call(capfd, *line, "--yes", "--fresh")
    assert again.code == 0, again.err
    told = [json.loads(each.out.splitlines()[-1]) for each in (done, again)]
    assert told[0]["digest"] == told[1]["digest"]
    other = call(capfd, *line, "--fresh", "--yes", "--tape", "other.jsonl")
    assert other.code == 2
    assert str(tmp_path / "other.jsonl") in other.err


def test_a_machine_without_the_tape_refuses_to_record(tmp_path: Path, tape: Path) -> None:
    with Yard(tmp_path / "yard") as yard:
        bench = Workbench("serial", yard=yard)
        made = bench._describe(models.talk, None, [Case({"query": "Q"})], CellSettings(), None)
        cell = bench._run_one(made.calling(Calls("record", str(tape))))
    assert cell.status == "failed"
    assert f"this machine doesn't have the tape {tape}" in str(cell.error)


def test_waits_at_once_are_waited_once() -> None:
    with llm.tape(mode="live") as tape:
        tape.waited(0.5)
        tape.waited(0.5)
    assert tape.usage.waited == 1.0
    assert 0.5 <= tape.seconds_waited < 1.0

"""Record and replay with real clients: langchain-openai, the openai SDK, httpx, and our own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llm_clients import ASYNC, SYNC
from llm_server import ModelServer

import runyard as ry
from runyard import llm
from runyard.errors import ModelError, NotRecorded, UsageError
from runyard.llm import attempts
from runyard.llm.tapefile import load

KEY = "sk-test-0123456789abcdef"
Ask = Callable[[str], Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def record(path: Path, ask: Ask, *questions: str, cell: str = "a") -> list[Any]:
    with llm.tape(path, "record", cell):
        return [ask(question) for question in questions]


def replay(path: Path, ask: Ask, *questions: str, cell: str = "a") -> list[Any]:
    with llm.tape(path, "replay", cell):
        return [ask(question) for question in questions]


@pytest.mark.parametrize("name", SYNC)
def test_answers_are_recorded_and_replayed(server: ModelServer, path: Path, name: str) -> None:
    questions = ["one two", "three", "one two"]
    answers = record(path, SYNC[name], *questions)
    assert answers == ["you said: one two", "you said: three", "you said: one two"]
    sent = len(server.requests)
    assert replay(path, SYNC[name], *questions) == answers
    assert len(server.requests) == sent == 3


@pytest.mark.parametrize("name", ASYNC)
def test_fifty_cells_at_once_do_not_mix(server: ModelServer, path: Path, name: str) -> None:
    async def cell(mode: llm.Mode, number: int) -> tuple[list[str], int]:
        with llm.tape(path, mode, f"cell {number}") as tape:
            questions = [f"cell {number}", "the same for all", "the same for all"]
            return [await ASYNC[name](each) for each in questions], tape.usage.calls

    async def cells(mode: llm.Mode) -> list[tuple[list[str], int]]:
        return await asyncio.gather(*(cell(mode, number) for number in range(50)))

    recorded = asyncio.run(cells("record"))
    assert recorded[7][0][0] == "you said: cell 7"
    assert {calls for _, calls in recorded} == {3}
    sent = len(server.requests)
    assert asyncio.run(cells("replay")) == recorded
    assert len(server.requests) == sent == 150
    assert len(path.read_text().splitlines()) == 150


@pytest.mark.parametrize("name", ["own", "langchain streaming"])
def test_cells_in_threads_do_not_mix(server: ModelServer, path: Path, name: str) -> None:
    def cell(mode: llm.Mode, number: int) -> list[str]:
        with llm.tape(path, mode, f"cell {number}"):
            return [SYNC[name](f"cell {number}"), SYNC[name]("the same for all")]

    with ThreadPoolExecutor(16) as threads:
        recorded = list(threads.map(lambda number: cell("record", number), range(50)))
        sent = len(server.requests)
        replayed = list(threads.map(lambda number: cell("replay", number), range(50)))
    assert replayed == recorded
    assert len(server.requests) == sent
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["cell"] for line in lines] == [f"cell {n // 2}" for n in range(100)]


def test_a_stream_is_replayed_in_its_pieces(server: ModelServer, path: Path) -> None:
    with llm.tape(path, "record", "a"):
        pieces = [piece.text for piece in llm.stream("three words here")]
    assert len(pieces) > 4
    with llm.tape(path, "replay", "a"):
        assert [piece.text for piece in llm.stream("three words here")] == pieces


def test_what_was_used_is_replayed(server: ModelServer, path: Path) -> None:
    server.delay = 0.05
    with llm.tape(path, "record", "a") as first:
        llm.chat("hello")
        list(llm.stream("hello"))
    with llm.tape(path, "replay", "a") as second:
        llm.chat("hello")
        list(llm.stream("hello"))
    assert second.usage.metrics() == first.usage.metrics()
    assert second.usage.latency == pytest.approx(first.usage.latency, abs=0.002)
    assert second.usage.latency > 0.1


def test_failures_are_replayed_without_waiting(
    server: ModelServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "FIRST_DELAY", 0.01)
    server.faults.extend([429, "hang up", 500, "malformed", "cut"])
    server.retry_after = "0.1"
    assert record(path, SYNC["own"], "hi") == ["you said: hi"]
    assert len(load(path, "a") or ()) == 6
    monkeypatch.setattr(attempts, "FIRST_DELAY", 1000.0)
    for line in path.read_text().splitlines():  # as if the server had asked for hours
        path.write_text(path.read_text().replace('"retry-after":"0.1"', '"retry-after":"9999"'))
        assert line
    with llm.tape(path, "replay", "a"), llm.Client(patience=10**6) as client:
        assert client.chat("hi").text == "you said: hi"


def test_the_openai_sdk_waits_little_for_a_replayed_refusal(
    server: ModelServer, path: Path
) -> None:
    server.faults.append(429)
    server.retry_after = "0.2"
    assert record(path, SYNC["openai"], "hi") == ["you said: hi"]
    path.write_text(path.read_text().replace('"retry-after":"0.2"', '"retry-after":"100"'))
    assert replay(path, SYNC["openai"], "hi") == ["you said: hi"]


def test_an_error_is_replayed_as_it_was(server: ModelServer, path: Path) -> None:
    server.faults.append(404)
    texts = []
    for mode in ("record", "replay"):
        with pytest.raises(ModelError) as raised, llm.tape(path, mode, "a"):  # type: ignore[arg-type]
            llm.chat("hi")
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", SYNC)
def test_a_changed_prompt_fails_its_cell_and_shows_the_difference(
    server: ModelServer, path: Path, name: str
) -> None:
    record(path, SYNC[name], "what is the weather in Oslo?")
    with pytest.raises(NotRecorded) as raised:
        replay(path, SYNC[name], "what is the weather in Rome?")
    text = str(raised.value)
    assert '-         "content": "what is the weather in Oslo?"' in text
    assert '+         "content": "what is the weather in Rome?"' in text
    assert str(path) in text
    assert "cell 'a'" in text
    assert len(server.requests) == 1


def test_a_call_that_was_not_recorded_fails_its_cell_even_if_that_is_caught(
    server: ModelServer, path: Path
) -> None:
    record(path, SYNC["own"], "one")
    with pytest.raises(NotRecorded), llm.tape(path, "replay", "a"):
        try:
            llm.chat("another")
        except Exception:
            llm.chat("one")


def test_a_call_more_than_was_recorded(server: ModelServer, path: Path) -> None:
    record(path, SYNC["own"], "one", "one")
    with pytest.raises(NotRecorded, match="has this request 2 times, and now it was sent again"):
        replay(path, SYNC["own"], "one", "one", "one")


def test_a_cell_that_is_not_on_the_tape(server: ModelServer, path: Path) -> None:
    record(path, SYNC["own"], "one", cell="a")
    record(path, SYNC["own"], cell="none")
    with pytest.raises(NotRecorded, match=r"has no cell 'c'; its cells are 'a', 'none'"):
        replay(path, SYNC["own"], "one", cell="c")
    with pytest.raises(NotRecorded, match=r"cell 'none' .* made no request"):
        replay(path, SYNC["own"], "one", cell="none")
    assert replay(path, SYNC["own"], cell="none") == []


def test_a_tape_that_is_missing(path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"), llm.tape(path, "replay", "a"):
        pass


def test_recording_a_cell_again_replaces_it(server: ModelServer, path: Path) -> None:
    for cell in ("b", "a", "10", "9"):
        record(path, SYNC["own"], "one", "two", cell=cell)
    record(path, SYNC["own"], "three", cell="b")
    cells = [json.loads(line)["cell"] for line in path.read_text().splitlines()]
    assert cells == ["9", "9", "10", "10", "a", "a", "b"]
    assert replay(path, SYNC["own"], "three", cell="b") == ["you said: three"]


def test_an_interrupted_cell_keeps_its_earlier_recording(server: ModelServer, path: Path) -> None:
    record(path, SYNC["own"], "one")
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), llm.tape(path, "record", "a"):
        llm.chat("two")
        raise KeyboardInterrupt
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", SYNC)
def test_no_secret_is_on_the_tape(server: ModelServer, path: Path, name: str) -> None:
    import httpx

    question = f"my key is {KEY}, keep it"
    record(path, SYNC[name], question)
    with llm.tape(path, "record", "b"):
        httpx.get(
            f"{server.url}/things?page=2&api_key=query-secret-1&key=query-2",
            headers={"x-api-key": "header-secret-2", "cookie": "session=cookie-secret-3"},
        )
    text = path.read_text()
    for secret in (KEY, "secret-1", "query-2", "secret-2", "secret-3", "cookie-of-the-server"):
        assert secret not in text
    assert "page=2" in text
    with llm.tape(path, "replay", "b"):
        httpx.get(f"{server.url}/things?page=2&api_key=other&key=other")


def test_a_thread_of_a_pool_belongs_to_the_open_cell(server: ModelServer, path: Path) -> None:
    with ThreadPoolExecutor(1) as old:
        old.submit(int).result()  # a thread from before the cell
        for mode in ("record", "replay"):
            with llm.tape(path, mode, "a"):  # type: ignore[arg-type]
                assert old.submit(SYNC["openai"], "hi").result() == "you said: hi"
    assert len(server.requests) == 1


def test_a_thread_that_could_belong_to_several_cells_sends_nothing(
    server: ModelServer, path: Path
) -> None:
    record(path, SYNC["own"], "hi", cell="a")
    record(path, SYNC["own"], "hi", cell="b")
    with ThreadPoolExecutor(1) as old, llm.tape(path, "replay", "a"), llm.tape(path, "replay", "b"):
        with pytest.raises(UsageError, match="belongs to none of the cells"):
            old.submit(SYNC["httpx"], "hi").result()
    assert len(server.requests) == 2


def test_a_cancelled_call_waits_to_be_cancelled_again(server: ModelServer, path: Path) -> None:
    async def first_of_two(mode: llm.Mode) -> str:
        with llm.tape(path, mode, "a"):
            slow = asyncio.create_task(llm.achat("slow"))
            while mode == "record" and not server.requests:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            fast = (await llm.achat("fast")).text
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            return fast

    server.faults.append("stall")
    assert asyncio.run(first_of_two("record")) == "you said: fast"
    assert asyncio.run(first_of_two("replay")) == "you said: fast"


def test_outside_a_tape_nothing_changes(server: ModelServer) -> None:
    assert SYNC["openai"]("hi") == "you said: hi"
    assert SYNC["httpx"]("hi") == "you said: hi"


def test_live_counts_and_records_nothing(server: ModelServer, tmp_path: Path) -> None:
    with llm.tape(mode="live") as tape:
        SYNC["openai"]("hi")
        SYNC["openai streaming"]("hi")
    assert tape.usage.calls == 2
    assert tape.usage.tokens == 8
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize(("path", "mode"), [(None, "replay"), (None, "record"), ("x", "rec")])
def test_a_tape_that_cannot_be(path: str | None, mode: Any) -> None:
    with pytest.raises(UsageError):
        llm.tape(path, mode)


def test_a_call_after_the_cell_has_ended(server: ModelServer, path: Path) -> None:
    async def late() -> None:
        with llm.tape(path, "record", "a"):
            task = asyncio.create_task(llm.achat("late"))
        await task

    with pytest.raises(UsageError, match="after the tape of cell 'a' was closed"):
        asyncio.run(late())


def _unshares() -> bool:
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and not subprocess.run([unshare, "-n", "true"], capture_output=True, check=False).returncode
    )


@pytest.mark.skipif(not _unshares(), reason="needs the right to use `unshare -n`")
def test_a_replay_needs_no_network(server: ModelServer, path: Path) -> None:
    helpers = Path(__file__).parents[2] / "helpers"
    script = (
        "import sys, asyncio; sys.path.insert(0, sys.argv[1])\n"
        "from llm_clients import ASYNC, SYNC\n"
        "from runyard import llm\n"
        "async def cell(number):\n"
        "    with llm.tape(sys.argv[2], sys.argv[3], f'cell {number}'):\n"
        "        names = ['own', 'openai', 'langchain streaming', 'httpx']\n"
        "        return [await ASYNC[name](f'{name} {number}') for name in names]\n"
        "async def main():\n"
        "    return await asyncio.gather(*map(cell, range(50)))\n"
        "print(asyncio.run(main()))\n"
        "with llm.tape(sys.argv[2], sys.argv[3], 'sync'):\n"
        "    print([ask('hello') for ask in SYNC.values()])\n"
    )

    def run(mode: str, *prefix: str) -> str:
        line = [*prefix, sys.executable, "-c", script, str(helpers), str(path), mode]
        done = subprocess.run(line, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    recorded = run("record")
    sent = len(server.requests)
    assert run("replay", "unshare", "-n") == recorded
    assert len(server.requests) == sent


@pytest.mark.parametrize("backend", ["serial", "threads", "async", "processes"])
def test_a_recorded_batch_replays_to_the_same_digest(
    server: ModelServer, tmp_path: Path, backend: str
) -> None:
    from llm_tasks import asked

    tape = str(tmp_path / "batch.jsonl")

    def run(mode: str, backend: str) -> ry.Result:
        params = {"tape": tape, "mode": mode}
        batch = ry.grid(asked, question=["a", "b c"], params=params, replicates=10, seed=1)
        return ry.run(batch, backend=backend, workers=4, yard=tmp_path / f"{mode}-{backend}")

    recorded = run("record", backend)
    assert recorded.stats.failed == 0
    sent = len(server.requests)
    replayed = run("replay", backend)
    assert replayed.digest == recorded.digest
    assert len(server.requests) == sent == 40
    assert (
        run("replay", "serial" if backend == "processes" else "processes").digest == replayed.digest
    )


def test_processes_that_record_at_once_lose_nothing(server: ModelServer, path: Path) -> None:
    script = (
        "import sys; from runyard import llm\n"
        "for number in range(20):\n"
        "    with llm.tape(sys.argv[1], 'record', f'{sys.argv[2]}-{number}'):\n"
        "        llm.chat(f'{sys.argv[2]} {number}')\n"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(n)], env=os.environ)
        for n in range(4)
    ]
    assert [worker.wait(100) for worker in workers] == [0] * 4
    cells = [json.loads(line)["cell"] for line in path.read_text().splitlines()]
    assert sorted(cells) == sorted(f"{w}-{n}" for w in range(4) for n in range(20))

"""The client against a real server: what it sends, what it tries again, what it says in the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from llm_server import ModelServer

from runyard import llm
from runyard.errors import ModelError, UsageError
from runyard.llm import attempts

KEY = "sk-test-0123456789abcdef"
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "FIRST_DELAY", 0.01)


def streamed(*args: Any, **options: Any) -> llm.Answer:
    pieces = list(llm.stream(*args, **options))
    answer = pieces[-1].answer
    assert answer is not None
    assert "".join(piece.text for piece in pieces) == answer.text
    return answer


async def _astreamed(*args: Any, **options: Any) -> llm.Answer:
    pieces = [piece async for piece in llm.astream(*args, **options)]
    answer = pieces[-1].answer
    assert answer is not None
    assert "".join(piece.text for piece in pieces) == answer.text
    return answer


def achat(*args: Any, **options: Any) -> llm.Answer:
    return asyncio.run(llm.achat(*args, **options))


def astreamed(*args: Any, **options: Any) -> llm.Answer:
    return asyncio.run(_astreamed(*args, **options))


WAYS = [llm.chat, achat, streamed, astreamed]
way = pytest.mark.parametrize("ask", WAYS, ids=["sync", "async", "stream", "async stream"])


@way
def test_a_question_is_answered(server: ModelServer, ask: Any) -> None:
    answer = ask("hello there", temperature=0.5, system="Be brief.")
    assert answer.text.strip() == "you said: hello there"
    assert (answer.finish, answer.model, answer.tool_calls) == ("stop", "gpt-4o-mini", [])
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (4, 4)
    assert answer.usage.cached_tokens == 1
    assert answer.usage.usd == pytest.approx((3 * 0.15 + 0.075 + 4 * 0.60) / 1e6)
    request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert request["body"]["temperature"] == 0.5
    assert [each["role"] for each in request["body"]["messages"]] == ["system", "user"]


@way
def test_a_tool_is_called_and_its_result_sent_back(server: ModelServer, ask: Any) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "rain?"}]
    answer = ask(messages, tools=[WEATHER])
    [call] = answer.tool_calls
    assert (call.id, call.name, call.parsed()) == ("call_1", "weather", {"city": "Oslo"})
    assert answer.finish == "tool_calls"
    messages += [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "yes"}]
    assert ask(messages, tools=[WEATHER]).text.strip() == "you said: yes"


@way
@pytest.mark.parametrize(
    "fault", [500, 502, 503, 504, 529, 429, "malformed", "cut early", "hang up"]
)
def test_a_failure_is_tried_again(server: ModelServer, ask: Any, fault: Any) -> None:
    server.faults.append(fault)
    answer = ask("hi")
    assert answer.text.strip() == "you said: hi"
    assert len(server.requests) == 2
    assert answer.usage.calls == 1
    assert answer.usage.waited > 0


@way
def test_what_retry_after_says_is_waited_for(server: ModelServer, ask: Any) -> None:
    server.faults.append(429)
    server.retry_after = "0.4"
    begin = time.monotonic()
    answer = ask("hi")
    assert time.monotonic() - begin >= 0.4
    assert answer.usage.waited > 0.3  # from when the refusal was read
    assert answer.usage.latency < answer.usage.waited


@way
def test_a_silent_server_is_given_up(server: ModelServer, ask: Any) -> None:
    server.faults.append("stall")
    with llm.Client(timeout=0.2, retries=0) as client, pytest.raises(ModelError) as raised:
        if ask in (llm.chat, streamed):
            list(client.stream("hi")) if ask is streamed else client.chat("hi")
        else:
            asyncio.run(client.achat("hi"))
    assert "ReadTimeout" in raised.value.message


def test_a_call_may_have_a_timeout_of_its_own(server: ModelServer) -> None:
    server.faults.extend(["stall", "stall"])
    with llm.Client(retries=0) as client:
        for call in (client.chat, lambda *a, **k: list(client.stream(*a, **k))):
            with pytest.raises(ModelError, match="ReadTimeout"):
                call("hi", timeout=0.2)
    assert "timeout" not in server.requests[0]["body"]


def test_a_stream_that_breaks_after_its_first_piece_is_an_error(server: ModelServer) -> None:
    server.faults.append("cut")
    stream = llm.stream("a stream of many words that is cut in the middle")
    assert next(stream).text == "you "
    with pytest.raises(ModelError) as raised:
        list(stream)
    assert "RemoteProtocolError" in raised.value.message
    assert len(server.requests) == 1


@way
@pytest.mark.parametrize("fault", [400, 401, 403, 404, 402])
def test_an_error_that_retrying_does_not_mend(server: ModelServer, ask: Any, fault: int) -> None:
    server.faults.append(fault)  # 402 stands for an account without money
    with pytest.raises(ModelError) as raised:
        ask("hi")
    assert len(server.requests) == 1
    text = str(raised.value)
    assert f"gpt-4o-mini at {server.url}: HTTP {429 if fault == 402 else fault}" in text
    assert KEY not in text
    assert "[redacted]" in text
    assert fault != 401 or "OPENAI_API_KEY" in text


def test_an_endpoint_that_keeps_failing_is_given_up(server: ModelServer) -> None:
    server.faults.extend([500] * 3)
    with llm.Client(retries=2) as client, pytest.raises(ModelError, match="3 attempts"):
        client.chat("hi")


def test_an_endpoint_that_asks_to_wait_too_long_is_given_up(server: ModelServer) -> None:
    server.faults.append(429)
    server.retry_after = "3600"
    with llm.Client(patience=10) as client, pytest.raises(ModelError) as raised:
        client.chat("hi")
    assert "asks to wait 3600 s" in raised.value.message


def test_an_endpoint_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        llm.Client("http://127.0.0.1:9/v1", model="m", retries=0) as client,
        pytest.raises(ModelError, match=r"m at http://127\.0\.0\.1:9/v1: ConnectError"),
    ):
        client.chat("hi")


def test_embeddings_come_in_the_order_of_the_texts(server: ModelServer) -> None:
    texts, model = ["a", "bbb"], "text-embedding-3-small"
    assert llm.embed(texts, model=model) == [[1.0, 0.5], [3.0, 0.5]]
    assert asyncio.run(llm.aembed(texts, model=model)) == [[1.0, 0.5], [3.0, 0.5]]


def test_moderation_gives_a_score_for_each_category(server: ModelServer, tmp_path: Path) -> None:
    with llm.tape(tmp_path / "tape.jsonl", "record", budget=1.0) as recorded:
        scores = llm.moderate("how pathetic")
        assert asyncio.run(llm.amoderate("how pathetic")) == scores
    assert scores == {"harassment": 0.9, "violence": 0.0}
    assert (recorded.usage.calls, recorded.usage.usd) == (2, 0.0)
    with llm.tape(tmp_path / "tape.jsonl"):
        assert llm.moderate("how pathetic") == scores
    server.faults.extend(["malformed"] * 2)
    with llm.Client(retries=0) as client, pytest.raises(ModelError, match="not JSON"):
        client.moderate("hello")


def test_no_key_is_sent_where_none_is_set(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    llm.chat("hi")
    assert "authorization" not in {name.lower() for name in server.requests[0]["headers"]}


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/y", "file:///etc"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UsageError, match="not the address of an endpoint"):
        llm.Client(url)


def test_a_key_that_is_none_is_not_shown() -> None:
    with pytest.raises(UsageError) as raised:
        llm.Client(api_key="sk-\u2013secret")
    assert "secret" not in str(raised.value)


def test_no_model_is_named(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_MODEL")
    with pytest.raises(UsageError, match="no model is named"):
        llm.chat("hi")


def test_the_client_is_light() -> None:

    code = (
        "import runyard, runyard.llm, sys; print({'httpx', 'openai', 'tomllib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

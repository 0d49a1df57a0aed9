"""Requests and answers as tapes have them: comparable, readable, and without secrets."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.llm.nearest import MOST_LINES, difference
from runyard.llm.request import Call, events, pieces, readable, recorded_answer, retry_after

TEXT = "text/event-stream"
SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8, max_size=40)


def call(body: Any, path: str = "/v1/chat/completions", **headers: str) -> Call:
    return Call.of("POST", path, httpx.Headers(headers), json.dumps(body).encode())


def test_the_order_of_fields_does_not_matter() -> None:
    assert call({"a": 1, "b": [1, 2]}).key == call({"b": [1, 2], "a": 1}).key
    assert call({"b": [1, 2]}).key != call({"b": [2, 1]}).key


def test_ids_of_tool_calls_count_only_by_what_they_join() -> None:
    def asked(*made: str, answered: str) -> str:
        calls = [{"id": each, "type": "function"} for each in made]
        answer = {"role": "tool", "content": "4", "tool_call_id": answered}
        return call({"messages": [{"role": "assistant", "tool_calls": calls}, answer]}).key

    assert asked("a", "b", answered="b") == asked("x", "y", answered="y")
    assert asked("a", "b", answered="b") != asked("x", "y", answered="x")
    assert call({"id": "a"}).key != call({"id": "b"}).key


@given(SECRETS, st.sampled_from(["Bearer {}", "{}", "Basic {}", "a=1; session={}"]))
def test_a_secret_is_in_no_part_of_what_is_recorded(secret: str, form: str) -> None:
    header = form.format(f"s3cr{secret}")
    secret = f"s3cr{secret}"
    path = f"/v1/x?n=1&api-key={secret}"
    for name in ("authorization", "api-key", "x-goog-api-key", "cookie", "x-auth-token"):
        made = call({"prompt": f"it is {secret}."}, path, **{name: header})
        response = httpx.Response(
            401, headers={"set-cookie": secret, "x-id": secret}, json={"error": f"bad {secret}"}
        )
        answer = recorded_answer(response, response.content, made.secrets)
        assert secret not in json.dumps([made.recorded(), answer])


@pytest.mark.parametrize(
    "body",
    [
        b'{"client_secret": "s3cret", "grant": "x"}', b"grant=x&client_secret=s3cret&y=1",
        b'{"inner": [{"access_token": "s3cret"}]}', b"password=s3cret",
    ],
)  # fmt: skip
def test_fields_that_hold_secrets_are_redacted(body: bytes) -> None:
    assert "s3cret" not in json.dumps(Call.of("POST", "/token", httpx.Headers(), body).recorded())


def test_fields_that_only_sound_like_secrets_are_kept() -> None:
    body = {"max_tokens": 5, "logprobs": [{"token": "hello"}], "key": "c-sharp"}
    assert call(body).body == body


def test_the_boundary_of_a_form_does_not_matter() -> None:
    forms = [
        httpx.Request("POST", "http://x/", files={"file": b"content"}, data={"a": "b"})
        for _ in range(2)
    ]
    calls = [Call.of("POST", "/", each.headers, each.read()) for each in forms]
    assert calls[0].key == calls[1].key


@given(
    st.binary() | st.sampled_from([b'"hi"', b" 5", b"null", b'{"base64": "aGk="}', b"[]", b"[1]"]),
    st.sampled_from([TEXT, "application/json"]),
)
def test_any_content_is_replayed(content: bytes, kind: str) -> None:
    response = httpx.Response(200, headers={"content-type": kind})
    replayed = b"".join(pieces(recorded_answer(response, content, ())))
    assert replayed == content or json.loads(replayed) == json.loads(content)


@given(st.lists(st.text(st.characters(exclude_characters="\r\n"), min_size=1)))
def test_a_stream_is_replayed_event_by_event(lines: list[str]) -> None:
    parts = [f"data: {line}\n\n" for line in lines]
    assert events("".join(parts)) == parts


def test_a_compressed_answer_is_readable() -> None:

    response = httpx.Response(
        200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"")
    )
    content = gzip.compress(b'{"a": 1}')
    assert recorded_answer(response, content, ()) == {"status": 200, "json": {"a": 1}}
    broken = recorded_answer(response, b"not gzip", ())
    assert broken == {
        "status": 200, "headers": {"content-encoding": "gzip"}, "text": "not gzip",
    }  # fmt: skip


def test_numbers_that_are_not_json_stay_text() -> None:
    assert readable(b'{"a": NaN}') == '{"a": NaN}'


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0), ({"retry-after": "0.5"}, 0.5), ({}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25), ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None), ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)  # fmt: skip
def test_how_long_an_answer_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(httpx.Headers(headers)) == seconds


def test_a_difference_is_short_and_shows_where_long_lines_differ() -> None:
    prompt = "word " * 1000
    sent = {"body": {"messages": [{"content": f"{prompt}Rome {prompt}"}]}}
    near = {"body": {"messages": [{"content": f"{prompt}Oslo {prompt}"}]}}
    far = {"body": {"messages": [{"content": "hello"}], "tools": [1, 2, 3]}}
    shown = difference(sent, [far, near])
    assert "Oslo" in shown
    assert "Rome" in shown
    assert len(shown) < 1000


@given(st.dictionaries(st.text(), st.text()), st.lists(st.dictionaries(st.text(), st.text())))
def test_any_difference_can_be_shown(sent: Any, recorded: Any) -> None:
    assert len(difference(sent, recorded).splitlines()) <= 10 * MOST_LINES

"""Which lines the MCP server refuses before its library sees them, and how."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")

from hypothesis import given
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from runyard.doors.agent.server import wire
from runyard.doors.agent.server.wire import INVALID_REQUEST, PARSE_ERROR, refusal

PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


@pytest.mark.parametrize(
    "line",
    [
        b"{bad", b"\xff", b"nothing", b'{"id":1', b"[" * 100_000, b'"\x01"', b"\xef\xbb\xbf{}",
        PING.replace(b"7", b"9" * 5000), PING.replace(b"ping", b"pi\0ng"), PING + PING,
        PING.replace(b"ping", b"\xff"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_a_parse_error_without_an_id(line: bytes) -> None:
    answer = json.loads(refusal(line + b"\n") or "null")
    assert (answer["id"], answer["error"]["code"]) == (None, PARSE_ERROR)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"\\ud800"}', 7),
        (b'{"jsonrpc":"2.0","id":"\\udfff","method":"ping"}', "\udfff"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"\\ud800":1}}', 7),
        (PING[:-1] + b',"params":' + b'{"a":' * 300 + b"1" + b"}" * 301, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', 7),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', "a"),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 1.5),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', None),
        (b'{"id":7}', 7),
        (b"[" + PING + b"]", None),
        (b"[]", None),
        (b"3", None),
    ],
)  # fmt: skip
def test_a_message_that_is_no_request_is_refused_with_its_id(line: bytes, number: object) -> None:
    text = refusal(line + b"\n")
    assert text is not None
    assert text.isascii()
    assert text.endswith("}\n")
    answer = json.loads(text)
    assert (answer["id"], answer["error"]["code"]) == (number, INVALID_REQUEST)


@pytest.mark.parametrize(
    "line",
    [
        PING, PING + b"\r\n", b"\n", b"  \n", PING.replace(b"7", b"7" * 30),
        '{"jsonrpc":"2.0","id":"é","method":"\\ud83d\\ude00"}'.encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"id":1,"result":3}',
    ],
)  # fmt: skip
def test_requests_and_what_has_no_answer_pass(line: bytes) -> None:
    assert refusal(line) is None


def test_a_line_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_LINE", 100)
    assert refusal(PING + b" " * 30 + b"\n") is None
    assert "at most 100 bytes" in str(refusal(PING + b" " * 100))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_passes_can_be_read_by_the_library(line: bytes) -> None:
    if refusal(line) is None and line.strip() and b"result" not in line and b"error" not in line:
        jsonrpc_message_adapter.validate_json(line, by_name=False)

"""States as recorded values."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from runyard.doors.workbench.run.values import Recorder, revived
from runyard.spec.codec import decode, encode


class Shade(enum.Enum):
    DARK = "dark"


class Model(BaseModel):
    name: str
    parts: list[str] = []


@dataclass
class Data:
    x: int


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": [1, (2, 3)]}, {"a": [1, (2, 3)]}),
        ({"s": {"b", "a"}}, {"s": ["a", "b"]}),
        (Shade.DARK, "dark"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (ValueError("no"), "ValueError: no"),
        (Data(3), Data(3)),
    ],
)
def test_values_are_recorded_as_plain_ones(value: Any, found: Any) -> None:
    assert decode(encode(Recorder().plain(value))) == found


def test_messages_come_back_as_messages_with_numbered_ids() -> None:
    def record() -> bytes:
        first, second = str(uuid.uuid4()), f"lc_run--{uuid.uuid4()}"
        messages = [HumanMessage("a", id=first), AIMessage("b", id=second), HumanMessage("c")]
        return encode(Recorder().plain({"messages": messages, "again": [messages[1]]}))

    assert record() == record()
    found = revived(decode(record()))
    assert found["messages"] == [
        HumanMessage("a", id="message-0"), AIMessage("b", id="message-1"), HumanMessage("c")
    ]  # fmt: skip
    assert found["again"][0].id == "message-1"


def test_tool_calls_that_were_drawn_at_random_are_numbered_where_they_are_answered_too() -> None:
    def record() -> bytes:
        drawn = str(uuid.uuid4())
        calls = [{"name": "f", "args": {}, "id": each} for each in (drawn, "call_1")]
        answer = ToolMessage("4", tool_call_id=drawn)
        return encode(Recorder().plain([AIMessage("", tool_calls=calls), answer]))

    assert record() == record()
    asked, answer = revived(decode(record()))
    assert [each["id"] for each in asked.tool_calls] == ["call-0", "call_1"]
    assert answer.tool_call_id == "call-0"


def test_an_id_that_was_given_stays() -> None:
    plain = Recorder().plain(HumanMessage("a", id="mine"))
    assert revived(decode(encode(plain))).id == "mine"


def test_models_are_read_by_their_fields() -> None:
    found = revived(decode(encode(Recorder().plain([Model(name="n"), Document("text")]))))
    assert found[0].name == "n"
    assert found[1].page_content == "text"

"""What a model answers, whole or in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from runyard.errors import ModelError
from runyard.llm.costs import Usage


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool that the model asks for."""

    id: str
    name: str
    arguments: str  # JSON as the model wrote it, which may be malformed

    def parsed(self) -> Any:
        """The arguments as a value."""
        try:
            return json.loads(self.arguments or "{}")
        except ValueError as error:
            raise ModelError(
                f"the model called {self.name} with arguments that are not JSON: {error}",
                hint=f"it wrote {self.arguments[:200]!r}",
            ) from error


class Answer(msgspec.Struct, frozen=True):
    """A whole answer."""

    text: str
    tool_calls: list[ToolCall]
    finish: str | None  # why the model stopped: "stop", "length", "tool_calls", …
    model: str
    usage: Usage
    message: dict[str, Any]  # append it to the messages to continue the conversation


class Piece(msgspec.Struct, frozen=True):
    """A piece of a streamed answer. The last one has no text, but the whole answer."""

    text: str = ""
    answer: Answer | None = None


class Unusable(Exception):
    """An answer is not what the API promises."""


def read_answer(document: Any, usage: Usage) -> Answer:
    """The answer of a chat completion."""
    try:
        choice = document["choices"][0]
        message = choice["message"]
        calls = [_tool_call(each) for each in message.get("tool_calls") or ()]
        text = message.get("content") or ""
        finish, model = choice.get("finish_reason"), document.get("model") or ""
        if not isinstance(text, str):
            raise TypeError
    except (LookupError, TypeError, AttributeError) as error:
        raise Unusable("the answer has no message") from error
    return Answer(text, calls, finish, model, usage, message)


def read_vectors(document: Any, _usage: Usage) -> list[list[float]]:
    """The answer of embeddings, in the order of the texts."""
    try:
        rows = sorted(document["data"], key=lambda row: row.get("index", 0))
        return [[float(number) for number in row["embedding"]] for row in rows]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unusable("the answer has no embeddings") from error


def read_scores(document: Any, _usage: Usage) -> dict[str, float]:
    """The answer of a moderation endpoint: the score of each category."""
    try:
        scores = document["results"][0]["category_scores"]
        return {name: float(score) for name, score in scores.items() if score is not None}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unusable("the answer has no scores") from error


class Assembly:
    """A streamed answer as it comes in."""

    def __init__(self) -> None:
        self.is_done = False
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish: str | None = None
        self._model = ""

    def feed(self, line: str) -> Iterator[Piece]:
        """Take a line of the stream; yields the text that it brings."""
        if not line.startswith("data:"):
            return
        data = line[5:].strip()
        if data == "[DONE]":
            self.is_done = True
            return
        try:
            chunk = json.loads(data)
            if "error" in chunk:
                raise Unusable(f"the stream ended with an error: {chunk['error']}")
            self._model = chunk.get("model") or self._model
            for choice in chunk.get("choices") or ():
                yield from self._add(choice)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Unusable(f"the stream is malformed: {data[:200]!r}") from error

    def answer(self, usage: Usage) -> Answer:
        """The whole answer; raises if the stream was cut."""
        if not self.is_done and self._finish is None:
            raise Unusable(f"the stream was cut after {len(''.join(self._text)):,} characters")
        text = "".join(self._text)
        calls = [self._calls[number] for number in sorted(self._calls)]
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": each["id"],
                    "type": "function",
                    "function": {"name": each["name"], "arguments": each["arguments"]},
                }
                for each in calls
            ]
        tools = [ToolCall(**each) for each in calls]
        return Answer(text, tools, self._finish, self._model, usage, message)

    def _add(self, choice: dict[str, Any]) -> Iterator[Piece]:
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta") or {}
        for part in delta.get("tool_calls") or ():
            function = part.get("function") or {}
            call = self._calls.setdefault(
                part.get("index", 0), {"id": "", "name": "", "arguments": ""}
            )
            call["id"] = part.get("id") or call["id"]
            call["name"] += function.get("name") or ""
            call["arguments"] += function.get("arguments") or ""
        if delta.get("content"):
            self._text.append(delta["content"])
            yield Piece(delta["content"])


def _tool_call(call: dict[str, Any]) -> ToolCall:
    function = call["function"]
    return ToolCall(call.get("id") or "", function["name"], function.get("arguments") or "")

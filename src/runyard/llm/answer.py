"""What a model answers."""

from __future__ import annotations

from typing import Any

import msgspec

from runyard.llm.usage import Usage


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool that the model asks for."""

    id: str
    name: str
    arguments: str  # JSON, as the model wrote it; it may be malformed

    def parsed(self) -> Any:
        """The arguments, read as JSON."""
        return msgspec.json.decode(self.arguments or "{}")


class Answer(msgspec.Struct, frozen=True):
    """A whole answer."""

    text: str
    tool_calls: list[ToolCall]
    finish: str | None  # why the model stopped: "stop", "length", "tool_calls", …
    model: str
    usage: Usage
    message: dict[str, Any]  # append it to the messages to continue the conversation


class Piece(msgspec.Struct, frozen=True):
    """A piece of a streamed answer; the last one has the whole answer."""

    text: str = ""
    answer: Answer | None = None

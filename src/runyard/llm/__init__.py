"""Language models: a client for OpenAI-compatible endpoints, limits, costs, record and replay.

from runyard import llm

def ask(question: str) -> dict:
    with llm.tape("answers.jsonl", mode="replay") as tape:    # or "record", or "live"
        answer = llm.chat(question, model="gpt-4o-mini")
    return {"answer": answer.text, **tape.usage.metrics()}

Every request of a cell goes through one place, from any client:

    llm.chat ─┐                        ┌─ replay: the tape ──▶ answer
    openai ───┼─▶ httpx's transport ─▶ │
    httpx ────┘      (wire.py)         └─ limit ─▶ network ─▶ usage ─▶ the tape ──▶ answer
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runyard.llm.answer import Answer, Piece, ToolCall
    from runyard.llm.cell import Mode, Tape, tape, usage
    from runyard.llm.client import (
        Client,
        achat,
        aembed,
        amoderate,
        astream,
        chat,
        embed,
        moderate,
        stream,
    )
    from runyard.llm.costs import Usage
    from runyard.llm.prices import Price, Prices
    from runyard.llm.tapefile import tidy

__all__ = [  # noqa: RUF022  grouped: asking, what comes back, a cell's record and costs
    "chat", "achat", "stream", "astream", "embed", "aembed", "moderate", "amoderate", "Client",
    "Answer", "Piece", "ToolCall",
    "tape", "Tape", "Mode", "tidy", "usage", "Usage", "Prices", "Price",
]  # fmt: skip

_HOMES = {
    "runyard.llm.answer": ("Answer", "Piece", "ToolCall"),
    "runyard.llm.cell": ("Mode", "Tape", "tape", "usage"),
    "runyard.llm.client": (
        "Client",
        "chat",
        "achat",
        "stream",
        "astream",
        "embed",
        "aembed",
        "moderate",
        "amoderate",
    ),
    "runyard.llm.prices": ("Price", "Prices"),
    "runyard.llm.tapefile": ("tidy",),
    "runyard.llm.costs": ("Usage",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'runyard.llm' has no attribute {name!r}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

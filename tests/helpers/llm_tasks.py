"""Tasks that ask a model; worker processes find them here by import."""

from __future__ import annotations

from typing import Any

import runyard as ry
from runyard import llm


def asked(question: str, tape: str, mode: llm.Mode) -> dict[str, Any]:
    """Ask the same question in two ways; the tape's cell is the task's number."""
    import openai

    with llm.tape(tape, mode) as cell:
        text = llm.chat(question, model="gpt-4o-mini").text
        with openai.OpenAI() as client:
            again = client.chat.completions.create(
                model="gpt-4o-mini", messages=[{"role": "user", "content": question}]
            )
    return {"text": text, "again": again.choices[0].message.content, **cell.usage.metrics()}


def spending(calls: int, ctx: ry.Context) -> dict[str, Any]:
    """Some calls, one after the other; what they have used as metrics."""
    for number in range(calls):
        llm.chat(f"call {number} of task {ctx.task}", model="gpt-4o-mini")
    return llm.usage().metrics()


def timed(ctx: ry.Context, calls: int) -> dict[str, float]:
    """How long calls took, and how long they waited to be sent."""
    for number in range(calls):
        llm.chat(f"call {number} of task {ctx.task}", model="gpt-4o-mini")
    used = llm.usage()
    return {"latency": used.latency, "waited": used.waited, "calls": used.calls}

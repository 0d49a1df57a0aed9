"""A reply to a complaint that a person has to approve.

    draft (a language model) ──▶ approve (waits for a person) ──▶ send
      ▲                             │                       └───▶ drop
      └──────── "change" ───────────┘

The person's answers are scripted in the cases: "send", "drop", or what to change. A case without
enough answers ends `interrupted`, neither passed nor failed. The tape, approval_tape.jsonl, holds
the drafts of SmolLM2-135M.

    runyard workbench run examples/workbench/approval.toml
"""

from typing import Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from recorded_model import ask


class State(TypedDict, total=False):
    complaint: str
    wish: str
    text: str
    drafts: int
    sent: bool


def short(state: State) -> State:
    """A draft in one sentence."""
    return _drafted(state, "Reply to this complaint in one short sentence.")


def sorry(state: State) -> State:
    """A draft that begins with an apology."""
    return _drafted(state, "Reply to this complaint in one short sentence. Say sorry first.")


def approve(state: State) -> Command[Literal["draft", "send", "drop"]]:
    """Ask a person."""
    answer = interrupt({"send this?": state["text"]})
    if answer in ("send", "drop"):
        return Command(goto=answer)
    return Command(goto="draft", update={"wish": answer})


def send(state: State) -> State:
    """Send it."""
    return {"sent": True}


def drop(state: State) -> State:
    """Send nothing."""
    return {"sent": False}


def build() -> StateGraph:
    """The graph."""
    builder = StateGraph(State)
    builder.add_node("draft", short)
    builder.add_node("approve", approve)
    builder.add_node("send", send)
    builder.add_node("drop", drop)
    builder.add_edge(START, "draft")
    builder.add_edge("draft", "approve")
    builder.add_edge("send", END)
    builder.add_edge("drop", END)
    return builder


def _drafted(state: State, task: str) -> State:
    wish = f" {state['wish']}" if "wish" in state else ""
    prompt = f"{task}{wish}\nComplaint: {state['complaint']}\nReply:"
    text = ask("approval_tape.jsonl", prompt, max_tokens=32)
    return {"text": text, "drafts": state.get("drafts", 0) + 1}

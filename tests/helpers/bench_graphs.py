"""Graphs that the tests of the workbench run. Workers import this module."""

from __future__ import annotations

import operator
import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt


class QA(TypedDict, total=False):
    query: str
    docs: list[str]
    answer: str


def retrieve(state: QA) -> dict[str, Any]:
    return {"docs": [f"about {state['query']}"]}


def answer(state: QA) -> dict[str, Any]:
    return {"answer": f"baseline: {state['docs'][0]}"}


def answer_a(state: QA) -> dict[str, Any]:
    return {"answer": f"A: {state['docs'][0]}"}


def answer_b(state: QA) -> dict[str, Any]:
    return {"answer": f"B: {state['docs'][0]}"}


def answer_c(state: QA) -> dict[str, Any]:
    return {"answer": f"C: {state['docs'][0]}"}


def qa(node: str = "node") -> StateGraph:
    """retrieve ──▶ node"""
    builder = StateGraph(QA)
    builder.add_node("retrieve", retrieve)
    builder.add_node(node, answer)
    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", node)
    builder.add_edge(node, END)
    return builder


class Line(TypedDict, total=False):
    start: str
    steps: Annotated[list[str], operator.add]


def step(name: str) -> Any:
    def run(state: Any) -> dict[str, Any]:
        return {"steps": [name]}

    run.__name__ = run.__qualname__ = f"step_{name}"
    return run


def other(state: Any) -> dict[str, Any]:
    return {"steps": ["other"]}


def join() -> StateGraph:
    """first ──▶ left, right ──▶ both join ──▶ last"""
    builder = StateGraph(Line)
    for name in ("first", "left", "right", "joined", "last"):
        builder.add_node(name, step(name))
    builder.add_edge(START, "first")
    builder.add_edge("first", "left")
    builder.add_edge("first", "right")
    builder.add_edge(["left", "right"], "joined")
    builder.add_edge("joined", "last")
    builder.add_edge("last", END)
    return builder


def fan_out() -> StateGraph:
    """plan ──▶ work × 3 (Send) ──▶ collect"""

    def spread(state: Line) -> list[Send]:
        return [Send("work", {"start": str(n), "steps": []}) for n in range(3)]

    def work(state: Line) -> dict[str, Any]:
        return {"steps": [f"work {state['start']}"]}

    builder = StateGraph(Line)
    builder.add_node("plan", step("plan"))
    builder.add_node("work", work)
    builder.add_node("collect", step("collect"))
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", spread, ["work"])
    builder.add_edge("work", "collect")
    return builder


def asking() -> StateGraph:
    """before ──▶ sub (prepare ──▶ ask, which interrupts) ──▶ after"""

    def ask(state: Line) -> dict[str, Any]:
        return {"steps": [f"answer {interrupt('go on?')}"]}

    inner = StateGraph(Line)
    inner.add_node("prepare", step("prepare"))
    inner.add_node("ask", ask)
    inner.add_edge(START, "prepare")
    inner.add_edge("prepare", "ask")
    builder = StateGraph(Line)
    builder.add_node("before", step("before"))
    builder.add_node("sub", inner.compile())
    builder.add_node("after", step("after"))
    builder.add_edge(START, "before")
    builder.add_edge("before", "sub")
    builder.add_edge("sub", "after")
    return builder


def added(state: list[str], writes: list[Any]) -> list[str]:
    return [*state, *(each for write in writes for each in write)]


class Delta(TypedDict, total=False):
    start: str
    steps: Annotated[list[str], DeltaChannel(added)]


def delta() -> StateGraph:
    """one ──▶ two ──▶ three, with a state that checkpoints hold in pieces"""
    builder = StateGraph(Delta)
    names = ("one", "two", "three")
    for name in names:
        builder.add_node(name, step(name))
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", "three")
    return builder


def router() -> StateGraph:
    """A graph whose node goes where it says."""

    def route(state: Line) -> Command[Literal["left", "right"]]:
        return Command(goto=state["start"], update={"steps": ["route"]})

    builder = StateGraph(Line)
    builder.add_node("route", route)
    builder.add_node("left", step("left"))
    builder.add_node("right", step("right"))
    builder.add_edge(START, "route")
    return builder


def trouble(state: QA) -> dict[str, Any]:
    """Raises, hangs or crashes where the query says so."""
    match state["query"]:
        case "raise":
            raise ValueError("as asked")
        case "hang":
            time.sleep(8)
        case "crash":
            os._exit(9)
    return {"answer": f"fine: {state['query']}"}


def slow(state: QA) -> dict[str, Any]:
    time.sleep(0.05)
    return {"answer": f"slow: {state['docs'][0]}"}


async def awaited(state: QA) -> dict[str, Any]:
    import asyncio

    await asyncio.sleep(0.01)
    return {"answer": f"awaited: {state['docs'][0]}"}


def noted(state: QA) -> dict[str, Any]:
    """Notes each execution; its query has a number and a file. Slow enough to be killed."""
    number, place = state["query"].split()
    with Path(place).open("a") as file:
        file.write(f"{number}\n")
    time.sleep(0.02)
    return {"answer": f"noted: {state['docs'][0]}"}


def killed_once(state: QA) -> dict[str, Any]:
    """Kills its process at the first execution of one case; its query has a number and a file."""
    number, file = state["query"].split()
    mark = Path(file)
    if number == "7" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), 9)
    return {"answer": f"noted: {state['docs'][0]}"}


def four_variants() -> dict[str, Any]:
    """The bench that is killed: 4 variants × 25 cases."""
    return {
        "graph": "bench_graphs:qa",
        "variants": [
            {},
            {"node": "bench_graphs:answer_a"},
            {"node": "bench_graphs:noted"},
            {"node": "bench_graphs:answer_c"},
        ],
        "cases": [{"query": f"{n} {os.environ['BENCH_NOTES']}"} for n in range(25)],
        "name": "four",
    }

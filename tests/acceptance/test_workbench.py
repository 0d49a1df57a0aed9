"""The workbench as the design document calls it: word for word, but for the import."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import threading
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
from runyard.doors.workbench import Workbench
from runyard.events import Event, Notice

class State(TypedDict, total=False):
    query: str
    answer: str
    thread: int

def plain(state: State) -> State:
    return {"answer": state["query"], "thread": threading.get_ident()}

def shout(state: State) -> State:
    return {"answer": state["query"].upper()}

def whisper(state: State) -> State:
    return {"answer": state["query"].lower()}

builder = StateGraph(State)
builder.add_node("node", plain)
builder.add_edge(START, "node")
builder.add_edge("node", END)
graph = builder.compile()

bench = Workbench()
bench.variant("node", "A", shout)
bench.variant("node", "B", whisper)
bus, AnotherEvent = bench.bus, lambda: Notice(batch="", text="another")

result = bench.run(graph, initial_state={"query": "test"})
results = bench.run_batch(
    graph,
    variants=[{"node": "A"}, {"node": "B"}],
    test_cases=[{"query": "Q1"}, {"query": "Q2"}],
)
def handler(event):
    bus.publish(AnotherEvent())  # Won't deadlock

subscription = bus.subscribe(Event, handler)
bus.publish(Notice(batch="", text="first"))
subscription.unsubscribe()
assert result.output["answer"] == "test"
assert result.state["thread"] == threading.get_ident()
assert [cell.output["answer"] for cell in results] == ["Q1", "Q2", "q1", "q2"]
assert [each.variant for each in results] == ["node=A", "node=A", "node=B", "node=B"]
"""


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="no Ray")
def test_the_documents_calls_run_as_they_stand(tmp_path: Path, ray_head: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=110,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / ".runyard" / "yard.db").exists()

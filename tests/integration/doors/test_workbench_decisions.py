"""Each decision of the bench's table, and what LangGraph does silently made loud or right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import bench_graphs as graphs
import pytest
from bench_kit import answers, bench
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, RetryPolicy, Send

from runyard.doors.workbench import Case, Variant, Workbench, load_cases
from runyard.errors import BadSpec
from runyard.events import Notice

__all__ = ["bench"]

Q = [{"query": "q"}]


def one(bench: Workbench, graph: Any, variant: Any = None, case: Any = None, **more: Any) -> Any:
    """The only cell of a batch."""
    variants = None if variant is None else [variant]
    [cell] = bench.run_batch(graph, variants, [case or {"query": "q"}], **more)
    return cell


# Variants


def test_a_node_is_a_registered_name_a_reference_or_an_object(bench: Workbench) -> None:
    bench.variant("node", "A", graphs.answer_a)

    @bench.variant("node", "C")
    def third(state: graphs.QA) -> dict[str, Any]:
        return {"answer": "C"}

    chain = RunnableLambda(lambda state: {"answer": "chained"})
    variants = [
        {"node": "A"}, {"node": "bench_graphs:answer_b"}, {"node": "C"}, {"node": chain},
        {"node": graphs.answer_c},
    ]  # fmt: skip
    result = bench.run_batch(graphs.qa, variants, Q)
    assert answers(result) == ["A: about q", "B: about q", "C", "chained", "C: about q"]
    assert result.variants[0] == "node=A"
    assert result.variants[4] == "node=answer_c"


@pytest.mark.parametrize("name", ["Z", "bench_graphs:missing", "no_such_module:f"])
def test_an_unknown_implementation_lists_those_there_are(bench: Workbench, name: str) -> None:
    bench.variant("node", "A", graphs.answer_a)
    with pytest.raises(BadSpec, match=r"(?s)no implementation.*retrieve, node \(A\)"):
        one(bench, graphs.qa, {"node": name})


def test_an_unknown_node_is_refused(bench: Workbench) -> None:
    with pytest.raises(BadSpec, match="no node 'nod'; did you mean 'node'"):
        one(bench, graphs.qa, {"nod": graphs.answer_a})


@pytest.mark.parametrize("name", ["config", "context", "graph", "name"])
def test_nodes_with_the_names_of_fields_need_a_variant(bench: Workbench, name: str) -> None:
    graph = graphs.qa(name)
    with pytest.raises(BadSpec, match="could be the node"):
        one(bench, graph, {name: graphs.answer_a})
    cell = one(bench, graph, Variant(nodes={name: graphs.answer_a}))
    assert cell.output["answer"] == "A: about q"
    assert cell.variant == f"{name}=answer_a"


def test_variants_that_do_the_same_are_refused(bench: Workbench) -> None:
    assert one(bench, graphs.qa, {}).variant == "baseline"
    bench.variant("node", "A", graphs.answer_a)
    same = [{"node": "A"}, {"node": graphs.answer_a}]
    with pytest.raises(BadSpec, match="do the same"):
        bench.run_batch(graphs.qa, same, Q)
    with pytest.raises(BadSpec, match="do the same"):
        bench.run_batch(graphs.qa, [{}, {"node": graphs.answer}], Q)
    with pytest.raises(BadSpec, match="two variants are called"):
        bench.run_batch(graphs.qa, [{}, {}], Q)


def test_a_swap_that_adds_to_the_state_is_refused(bench: Workbench) -> None:
    class Wider(graphs.QA):
        more: str

    def wide(state: Wider) -> dict[str, Any]:
        return {"answer": "x"}

    wide.__annotations__ = {"state": Wider}
    with pytest.raises(BadSpec, match="adds 'more' to the state"):
        one(bench, graphs.qa, {"node": wide})


def test_a_swapped_node_keeps_its_options(bench: Workbench) -> None:
    tried = []

    def flaky(state: graphs.QA) -> dict[str, Any]:
        tried.append(1)
        if len(tried) < 3:
            raise ConnectionError("not yet")
        return {"answer": "at last"}

    builder = StateGraph(graphs.QA)
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=ConnectionError)
    builder.add_node("node", graphs.answer, retry_policy=policy)
    builder.add_edge(START, "node")
    cell = one(bench, builder, {"node": flaky})
    assert cell.output["answer"] == "at last"
    assert cell.retries == 2


def test_a_default_error_handler_survives_a_swap(bench: Workbench) -> None:
    def broken(state: graphs.QA) -> dict[str, Any]:
        raise ValueError("broken")

    def handler(state: graphs.QA) -> dict[str, Any]:
        return {"answer": "handled"}

    builder = graphs.qa()
    builder.set_node_defaults(error_handler=handler)
    graph = builder.compile()
    bench.run_batch(graph, [{}, {"node": graphs.answer_a}], Q)
    assert one(bench, graph, {"node": broken}).output["answer"] == "handled"
    assert graph.invoke({"query": "q"})["answer"] == "baseline: about q"


def test_the_users_graph_is_never_changed(bench: Workbench) -> None:
    saver = InMemorySaver()
    graph = graphs.qa().compile(checkpointer=saver, interrupt_before=["node"])
    nodes = dict(graph.builder.nodes)
    cell = one(bench, graph, {"node": graphs.answer_a}, breakpoints="ignore")
    assert cell.status == "completed"
    assert graph.builder.nodes == nodes
    assert graph.interrupt_before_nodes == ["node"]
    assert not saver.storage


def test_whole_graphs_configurations_and_contexts_vary(bench: Workbench) -> None:
    class Context(TypedDict):
        tone: str

    def node(state: graphs.QA, config: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        tone = (runtime.context or {}).get("tone", "none")
        return {"answer": f"{config['configurable'].get('k')} {tone}"}

    node.__annotations__ = {}
    builder = StateGraph(graphs.QA, context_schema=Context)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    variants = [
        {}, {"config": {"configurable": {"k": 3}}}, {"context": {"tone": "kind"}},
        Variant(graph=graphs.qa(), name="whole"),
    ]  # fmt: skip

    def typed(state: graphs.QA, config: Any) -> dict[str, Any]:
        return {}

    result = bench.run_batch(builder, variants, Q)
    assert result.variants == ["baseline", "k=3", "tone=kind", "whole"]
    assert answers(result)[2:] == ["None kind", "baseline: about q"]


def test_a_functional_graph_has_no_nodes_to_replace(bench: Workbench) -> None:
    @entrypoint()
    def work(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"answer": inputs["query"].upper()}

    with pytest.raises(BadSpec, match="no node 'node'"):
        one(bench, work, {"node": graphs.answer_a})
    cell = one(bench, work)
    assert cell.output == {"answer": "Q"}


def test_a_remote_graph_is_run_as_it_is(bench: Workbench) -> None:
    from langgraph.pregel.remote import RemoteGraph

    class Remote(RemoteGraph):
        def __init__(self) -> None:
            super().__init__("assistant", url="http://localhost:1")

        def stream(self, input: Any, config: Any = None, **_: Any) -> Any:  # noqa: A002
            yield "tasks", {"id": "1", "name": "far", "input": input}
            yield "tasks", {"id": "1", "name": "far", "result": {}, "error": None}
            yield "values", {"answer": input["query"].upper()}

    with pytest.raises(BadSpec, match="no node 'node'"):
        one(bench, Remote, {"node": graphs.answer_a})
    cell = one(bench, Remote)
    assert (cell.output, cell.trajectory) == ({"answer": "Q"}, ["far"])
    assert cell.checkpoints() == []


# Cases


def test_cases_are_inputs_or_descriptions(bench: Workbench) -> None:
    cases = [
        {"query": "a"}, Case({"query": "b"}, expected="B", id="second", tags=["x"]),
        {"inputs": {"query": "c"}, "expected": "C"},
    ]  # fmt: skip
    result = bench.run_batch(graphs.qa, None, cases)
    assert [c.case for c in result] == ["case-0", "second", "case-2"]
    assert [c.expected for c in result] == [None, "B", "C"]
    assert [c.inputs["query"] for c in result] == ["a", "b", "c"]
    assert result.cell(variant="baseline", case="second").tags == ["x"]


def test_a_graph_with_an_input_called_inputs(bench: Workbench) -> None:
    class State(TypedDict, total=False):
        inputs: str
        answer: str

    builder = StateGraph(State)
    builder.add_node("node", lambda state: {"answer": state["inputs"]})
    builder.add_edge(START, "node")
    assert one(bench, builder, case={"inputs": "mine"}).output["answer"] == "mine"


def test_an_unknown_input_is_refused_before_anything_runs(bench: Workbench) -> None:
    with pytest.raises(BadSpec, match="no input 'quary'; did you mean 'query'"):
        one(bench, graphs.qa, case={"quary": "q"})
    assert not list(bench.yard.status())


def test_cases_come_from_files(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("query,expected\na,A\nb,B\n")
    (tmp_path / "c.jsonl").write_text('{"query": "a"}\n\n{"inputs": {"query": "b"}}\n')
    (tmp_path / "c.json").write_text('[{"query": "a"}, {"query": "b"}]')
    (tmp_path / "c.yaml").write_text("- query: a\n- {inputs: {query: b}, id: second}\n")
    for suffix in ("csv", "jsonl", "json", "yaml"):
        result = bench.run_batch(graphs.qa, None, tmp_path / f"c.{suffix}", name=suffix)
        assert answers(result) == ["baseline: about a", "baseline: about b"], suffix
    (tmp_path / "c.txt").write_text("")
    with pytest.raises(BadSpec, match="can't be read from this kind"):
        load_cases(tmp_path / "c.txt")


def test_messages_are_inputs_and_outputs(bench: Workbench) -> None:
    def reply(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {state['messages'][-1].content}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", reply)
    builder.add_edge(START, "node")
    for _ in range(2):
        result = bench.run_batch(builder, None, [{"messages": [HumanMessage("hi")]}])
        assert [m.content for m in result[0].state["messages"]] == ["hi", "you said hi"]
        assert isinstance(result[0].state["messages"][1], AIMessage)
    assert len(bench.yard.status()) == 1
    first, second = (
        bench.run_batch(builder, None, [{"messages": [("user", "hi")]}], name=name)
        for name in ("one", "two")
    )
    assert first.digest == second.digest


# What LangGraph does silently


def test_unknown_keys_fail_the_cell(bench: Workbench) -> None:
    def sloppy(state: graphs.QA) -> dict[str, Any]:
        return {"answer": "x", "anwser": "y"}

    cell = one(bench, graphs.qa, {"node": sloppy})
    assert cell.status == "failed"
    assert "'anwser'" in cell.error
    with pytest.warns(UserWarning, match="'anwser'"):
        assert one(bench, graphs.qa, {"node": sloppy}, strict=False).status == "completed"


@pytest.mark.parametrize(
    "way", ["goto", "goto with Send", "edge", "edge with Send", "update by Command"]
)
def test_a_step_to_nowhere_fails_the_cell(bench: Workbench, way: str) -> None:
    def node(state: graphs.Line) -> Any:
        if way == "update by Command":
            return Command(update={"nothing": 1}, goto=END)
        if way.startswith("goto"):
            return Command(goto=Send("nowhere", {}) if way.endswith("Send") else "nowhere")
        return {"steps": ["node"]}

    def path(state: graphs.Line) -> Any:
        if way.startswith("edge"):
            return Send("nowhere", {}) if way.endswith("Send") else "nowhere"
        return END

    builder = StateGraph(graphs.Line)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", path)
    cell = one(bench, builder, case={"start": "x"})
    assert cell.status == "failed"
    assert "Dropped" in cell.error
    assert ("nothing" if way == "update by Command" else "nowhere") in cell.error


def test_an_unknown_key_inside_a_subgraph_fails_the_cell(bench: Workbench) -> None:
    inner = StateGraph(graphs.Line)
    inner.add_node("node", lambda state: {"stepz": []})
    inner.add_edge(START, "node")
    builder = StateGraph(graphs.Line)
    builder.add_node("sub", inner.compile())
    builder.add_edge(START, "sub")
    assert "'stepz'" in one(bench, builder, case={"start": "x"}).error


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
def test_a_fixed_breakpoint_ends_the_cell_interrupted(bench: Workbench, when: str) -> None:
    node = "node" if when == "interrupt_before" else "retrieve"
    graph = graphs.qa().compile(**{when: [node]})  # type: ignore[arg-type]
    cell = one(bench, graph)
    assert cell.status == "interrupted"
    assert cell.trajectory == ["retrieve"]
    assert one(bench, graph, case=Case({"query": "q"}, answers=[None])).status == "completed"
    assert one(bench, graph, breakpoints="ignore").trajectory == ["retrieve", "node"]
    off = one(bench, graph, checkpoints="off")
    assert off.status == "interrupted"


def test_an_interrupt_ends_the_cell_interrupted_unless_it_is_answered(bench: Workbench) -> None:
    asks = one(bench, graphs.asking, case={"start": "x"})
    assert (asks.status, asks.interrupts) == ("interrupted", ["go on?"])
    assert asks.error is None
    answered = one(bench, graphs.asking, case=Case({"start": "x"}, answers=["yes"]))
    assert answered.status == "completed"


def test_several_interrupts_at_once_are_answered_in_order(bench: Workbench) -> None:
    from langgraph.types import interrupt

    def asks(name: str) -> Any:
        return lambda state: {"steps": [f"{name} {interrupt(name)}"]}

    builder = StateGraph(graphs.Line)
    for name in ("a", "b"):
        builder.add_node(name, asks(name))
        builder.add_edge(START, name)
    cell = one(bench, builder, case={"start": "x"})
    assert sorted(cell.interrupts) == ["a", "b"]
    both = bench.resume(cell, [f"to {name}" for name in cell.interrupts])
    assert sorted(both.state["steps"]) == ["a to a", "b to b"]
    half = one(bench, builder, case=Case({"start": "x"}, answers=["1"]))
    assert (half.status, len(half.interrupts)) == ("interrupted", 1)


def test_inputs_are_copied_for_each_cell(bench: Workbench) -> None:
    class Box:
        def __init__(self) -> None:
            self.items: list[int] = []

    class State(TypedDict, total=False):
        box: Any
        names: list[str]
        count: int

    def greedy(state: State) -> dict[str, Any]:
        state["names"].append("more")
        return {"count": len(state["names"])}

    builder = StateGraph(State)
    builder.add_node("node", greedy)
    builder.add_edge(START, "node")
    shared = ["one"]
    cases = [{"names": shared}]
    result = bench.run_batch(builder, None, cases, repetitions=3)
    assert [cell.output["count"] for cell in result] == [2, 2, 2]
    assert shared == ["one"]


def test_the_users_cache_is_off_or_each_variants_own(bench: Workbench) -> None:
    def make(text: str) -> Any:
        def implementation(state: graphs.QA) -> dict[str, Any]:  # of equal qualified names
            ran.append(text)
            return {"answer": text}

        return implementation

    builder = StateGraph(graphs.QA)
    builder.add_node("node", make("base"), cache_policy=CachePolicy())
    builder.add_edge(START, "node")
    graph = builder.compile(cache=InMemoryCache())
    variants = [{}, Variant({"node": make("other")}, name="other")]
    cases = [{"query": "q"}, Case({"query": "q"}, id="again")]

    ran: list[str] = []
    off = bench.run_batch(graph, variants, cases, name="off")
    assert answers(off) == ["base", "base", "other", "other"]
    assert ran == ["base", "base", "other", "other"]
    ran.clear()
    each = bench.run_batch(graph, variants, cases, cache="per-variant", name="each")
    assert answers(each) == ["base", "base", "other", "other"]
    assert ran == ["base", "other"]


def test_each_cell_has_a_fresh_store(bench: Workbench) -> None:
    def node(state: graphs.QA, runtime: Runtime) -> dict[str, Any]:
        store = runtime.store
        assert store is not None
        store.put(("seen",), state["query"], {"x": 1})
        return {"answer": str(len(store.search(("seen",))))}

    node.__annotations__ = {"runtime": Runtime}
    mine = InMemoryStore()
    builder = StateGraph(graphs.QA)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    result = bench.run_batch(builder.compile(store=mine), None, [{"query": "a"}, {"query": "b"}])
    assert answers(result) == ["1", "1"]
    assert not mine.search(("seen",))

    def filled() -> InMemoryStore:
        store = InMemoryStore()
        store.put(("seen",), "before", {"x": 0})
        return store

    assert one(bench, builder, store=filled).output["answer"] == "2"
    with pytest.raises(BadSpec, match="can't be shared"):
        one(bench, builder, store=mine)


def test_a_failed_graph_is_never_a_success(bench: Workbench) -> None:
    cell = one(bench, graphs.qa, {"node": graphs.trouble}, {"query": "raise"})
    assert cell.status == "failed"
    assert cell.error == "ValueError: as asked"
    assert cell.output is None
    assert cell.trajectory == ["retrieve", "node"]


def test_a_graph_that_never_ends_fails_after_a_hundred_steps(bench: Workbench) -> None:
    builder = StateGraph(graphs.Line)
    builder.add_node("node", graphs.step("node"))
    builder.add_edge(START, "node")
    builder.add_edge("node", "node")
    cell = one(bench, builder, case={"start": "x"})
    assert cell.status == "failed"
    assert "GraphRecursionError" in cell.error
    assert len(cell.trajectory) == 100
    short = one(bench, builder, case={"start": "x"}, recursion_limit=5)
    assert len(short.trajectory) == 5


def test_the_digest_covers_output_and_state_alone(bench: Workbench) -> None:
    first = bench.run_batch(graphs.join, None, [{"start": "x"}], name="one")
    second = bench.run_batch(graphs.join, None, [{"start": "x"}], name="two")
    assert first.digest == second.digest
    assert first[0].latency != second[0].latency
    assert first[0].checkpoints()[0].id != second[0].checkpoints()[0].id


def test_tokens_are_seen_even_when_a_node_ignores_its_config(bench: Workbench) -> None:
    from langchain_core.language_models import GenericFakeChatModel

    def node(state: graphs.QA) -> dict[str, Any]:
        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        message = AIMessage("hi", usage_metadata=usage, response_metadata={"model_name": "m"})
        return {"answer": GenericFakeChatModel(messages=iter([message])).invoke("x").content}

    assert one(bench, graphs.qa, {"node": node}).tokens == 7


def test_a_timeout_that_can_not_end_a_node_is_announced(bench: Workbench) -> None:
    bench.run_batch(graphs.qa, None, Q, backend="threads", timeout=20)
    assert any("time limit" in each.text for each in bench.bus.history(Notice))


def test_without_ray_a_bench_is_serial_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runyard.doors.workbench.bench import workbench as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    bench = Workbench(yard=tmp_path / "yard")
    result = bench.run_batch(graphs.qa, None, Q)
    assert result[0].status == "completed"
    assert any("Ray is not installed" in each.text for each in bench.bus.history(Notice))
    bench.yard.close()


def test_importing_the_bench_does_not_import_langgraph() -> None:
    code = (
        "import sys, runyard.doors.workbench as w; w.Workbench, w.Case, w.Variant;"
        "assert not any(m.startswith(('langgraph', 'langchain')) for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_classes_of_a_script_are_rebuilt_or_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    for _ in range(2):  # the second time, nothing runs
        subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path, timeout=100)
    code = (
        "from runyard.doors.workbench.tape.file import read_rows\n"
        "from runyard.doors.workbench.tape.saver import TapeSaver\n"
        "from pathlib import Path\n"
        "[path] = Path('yard/batches/script/tapes').glob('*.sqlite')\n"
        "tape = TapeSaver('script/0/0')\n"
        "tape.load(read_rows(path, 'script/0/0'))\n"
        "list(tape.list(None))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "NotRebuilt" in done.stderr
    assert "the class Doc of a script" in done.stderr


_SCRIPT = """
import operator
from dataclasses import dataclass
from typing import Annotated, TypedDict
from langgraph.graph import START, StateGraph
from runyard.doors.workbench import Workbench

@dataclass
class Doc:
    text: str

class State(TypedDict, total=False):
    query: str
    docs: Annotated[list[Doc], operator.add]

def find(state):
    return {"docs": [Doc(state["query"])]}

builder = StateGraph(State)
builder.add_node("find", find)
builder.add_node("again", find)
builder.add_edge(START, "find")
builder.add_edge("find", "again")
bench = Workbench("processes", workers=1, yard="yard")
[cell] = bench.run_batch(builder.compile(), None, [{"query": "q"}], name="script")
assert cell.status == "completed", cell.error
assert cell.state["docs"] == [Doc("q"), Doc("q")], cell.state
assert cell.checkpoints()[-1].values["docs"] == [Doc("q"), Doc("q")]
assert bench.fork(cell, -2).state["docs"] == [Doc("q"), Doc("q")]
"""

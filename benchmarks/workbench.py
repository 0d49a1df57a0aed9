"""The workbench: cells a second, beside plain LangGraph loops that record nothing.

The graph has two trivial nodes, so that what is measured is LangGraph and what the bench adds.
Every rate of the bench is of a batch whose cells are all recorded; workers are warm.
"""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import Callable
from statistics import median
from typing import Annotated, Any, TypedDict

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread

CELLS, LONG_CELLS, WARM_UP = 1000, 400, 40
WAITING, WAIT = 200, 0.05
CPU = 0.005
PREFIX_CASES = 20


class State(TypedDict, total=False):
    """The state of every graph here."""

    query: str
    steps: Annotated[list[str], operator.add]


def measure(rounds: int) -> list[Figure]:
    """Cells a second: without checkpoints, with a tape, awaited, on two processes, on Ray."""
    contestants: tuple[Callable[[str], float], ...] = (
        invoke, serial, sqlite, memory, tape, gather, awaited, waiting, waiting_bare, cpu_one,
        cpu_two, processes, ray, prefix,
    )  # fmt: skip
    here = {each.__name__: _in_fresh(each.__name__) for each in contestants}
    found = in_rounds("workbench", here, rounds)

    def ratio(
        what: str, above: str, below: str, limit: float, check: Callable[[float], Any] = at_least
    ) -> Figure:
        one, other = found[above], found[below]
        note = f"{median(one):,.0f} and {median(other):,.0f} cells/s, {spread(one, other)}"
        return Figure("workbench", what, median_ratio(one, other), "×", check(limit), note)

    shared = median(found["prefix"])
    return [
        ratio("serial without checkpoints, beside plain invoke", "serial", "invoke", 0.6),
        ratio("serial with tape, beside SqliteSaver", "tape", "sqlite", 1.5),
        ratio("serial with tape, beside InMemorySaver", "tape", "memory", 0.8),
        ratio("async, beside gather(ainvoke)", "awaited", "gather", 0.7),
        Figure("workbench", f"{WAITING} cells of {WAIT * 1000:.0f} ms waiting, beside gather",
               median_ratio(found["waiting"], found["waiting_bare"]), "×", at_most(3.0),
               f"{median(found['waiting']):.2f} and {median(found['waiting_bare']):.2f} s"),
        ratio("two processes on 5 ms of computing, beside serial", "cpu_two", "cpu_one", 1.7),
        ratio("warm Ray, beside processes", "ray", "processes", 0.8),
        Figure("workbench", "a shared prefix, beside the ideal", shared, "×", at_least(0.8),
               "4 variants behind a node of 50 ms"),
    ]  # fmt: skip


def _in_fresh(name: str) -> Callable[[int], float]:
    return lambda _: float(fresh(f"{__name__}:{name}"))


def one(state: State) -> dict[str, Any]:
    """The first node."""
    return {"steps": ["one"]}


def two(state: State) -> dict[str, Any]:
    """The second node."""
    return {"steps": ["two"]}


async def one_awaited(state: State) -> dict[str, Any]:
    """The first node, awaited."""
    return {"steps": ["one"]}


async def two_awaited(state: State) -> dict[str, Any]:
    """The second node, awaited."""
    return {"steps": ["two"]}


async def waits(state: State) -> dict[str, Any]:
    """A node that waits for a network."""
    await asyncio.sleep(WAIT)
    return {"steps": ["waited"]}


def computes(state: State) -> dict[str, Any]:
    """A node that computes."""
    until = time.process_time() + CPU
    while time.process_time() < until:
        pass
    return {"steps": ["computed"]}


def slow(state: State) -> dict[str, Any]:
    """A node in front of those that differ."""
    time.sleep(WAIT)
    return {"steps": ["slow"]}


def other_a(state: State) -> dict[str, Any]:
    """A variant of the second node."""
    return {"steps": ["a"]}


def other_b(state: State) -> dict[str, Any]:
    """Another one."""
    return {"steps": ["b"]}


def other_c(state: State) -> dict[str, Any]:
    """A third one."""
    return {"steps": ["c"]}


def _graph(*nodes: Callable[..., Any]) -> Any:
    from langgraph.graph import START, StateGraph

    builder = StateGraph(State)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    return builder


def pair() -> Any:
    """The graph of two trivial nodes."""
    return _graph(one, two)


def pair_awaited() -> Any:
    """The same, awaited."""
    return _graph(one_awaited, two_awaited)


def waiting_graph() -> Any:
    """A graph that waits."""
    return _graph(waits)


def computing() -> Any:
    """A graph that computes."""
    return _graph(computes)


def behind() -> Any:
    """A slow node, then one that has variants."""
    return _graph(slow, two)


def _loop(saver: Any = None) -> float:
    """Cells a second of a plain loop."""
    graph = pair().compile(checkpointer=saver)

    def play(start: int, count: int) -> None:
        for number in range(start, start + count):
            given = {"configurable": {"thread_id": str(number)}} if saver else None
            graph.invoke({"query": str(number)}, given)

    play(0, WARM_UP)
    begun = time.perf_counter()
    play(WARM_UP, CELLS)
    return CELLS / (time.perf_counter() - begun)


def invoke(folder: str) -> float:
    """A plain loop that records nothing."""
    return _loop()


def memory(folder: str) -> float:
    """The same with InMemorySaver."""
    from langgraph.checkpoint.memory import InMemorySaver

    return _loop(InMemorySaver())


def sqlite(folder: str) -> float:
    """The same with SqliteSaver, as it comes."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(f"{folder}/checkpoints.sqlite") as saver:
        return _loop(saver)


def gather(folder: str) -> float:
    """All cells at once on one event loop, nothing recorded."""
    return _gathered(pair_awaited(), CELLS)


def _gathered(builder: Any, cells: int) -> float:
    graph = builder.compile()

    async def play(count: int) -> float:
        begun = time.perf_counter()
        await asyncio.gather(*(graph.ainvoke({"query": str(n)}) for n in range(count)))
        return count / (time.perf_counter() - begun)

    asyncio.run(play(WARM_UP))
    return asyncio.run(play(cells))


def _bench(
    folder: str, graph: Callable[[], Any], backend: str, cells: int | None = None, **more: Any
) -> float:
    """Cells a second of a recorded batch, workers warm."""
    from runyard.doors.workbench import Workbench
    from runyard.yard import Yard

    cells = cells or CELLS
    options = {"progress": False, "backend": backend, **more}
    for name, count in (("warm", WARM_UP), ("yard", cells)):
        with Yard(f"{folder}/{name}") as yard:
            cases = [{"query": str(number)} for number in range(count)]
            found = Workbench(yard=yard).run_batch(graph, None, cases, **options)
            seconds = found.result.stats.seconds
            if found.result.stats.completed != count:
                raise RuntimeError(found.result.summary())
    return cells / seconds


def serial(folder: str) -> float:
    """The bench without checkpoints."""
    return _bench(folder, pair, "serial", checkpoints="off")


def tape(folder: str) -> float:
    """The bench with checkpoints."""
    return _bench(folder, pair, "serial")


def awaited(folder: str) -> float:
    """The bench on one event loop."""
    return _bench(folder, pair_awaited, "async", checkpoints="off")


def waiting(folder: str) -> float:
    """The seconds of cells that wait, all at once."""
    rate = _bench(folder, waiting_graph, "async", WAITING, workers=WAITING, checkpoints="off")
    return WAITING / rate


def waiting_bare(folder: str) -> float:
    """The same as a plain gather, which records nothing."""
    return WAITING / _gathered(waiting_graph(), WAITING)


def cpu_one(folder: str) -> float:
    """Cells that compute, one after another."""
    return _bench(folder, computing, "serial", LONG_CELLS)


def cpu_two(folder: str) -> float:
    """Cells that compute, on two processes."""
    return _bench(folder, computing, "processes", LONG_CELLS, workers=2)


def processes(folder: str) -> float:
    """Trivial cells on two processes."""
    return _bench(folder, pair, "processes", workers=2)


def ray(folder: str) -> float:
    """Trivial cells on two actors of a warm Ray."""
    return _bench(folder, pair, "ray", workers=2)


def prefix(folder: str) -> float:
    """The ideal time of variants that share a slow node, beside the bench's."""
    from runyard.doors.workbench import Workbench
    from runyard.yard import Yard

    variants = [{}, *({"two": f"{__name__}:other_{name}"} for name in "abc")]
    cases = [{"query": str(number)} for number in range(PREFIX_CASES)]
    with Yard(f"{folder}/yard") as yard:
        bench = Workbench("serial", yard=yard)
        bench.run_batch(behind, variants, cases[:1], progress=False, name="warm")
        apart = bench.run_batch(behind, variants, cases, progress=False)
        shared = bench.run_batch(behind, variants, cases, share_prefix=True, progress=False)
        saved = 3 * PREFIX_CASES * WAIT
        ideal = apart.result.stats.seconds - saved
        return ideal / shared.result.stats.seconds

"""A graph, given in any of its forms, opened as something that variants are made of."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableBinding
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.managed.base import is_managed_value
from langgraph.pregel import Pregel
from langgraph.pregel.protocol import PregelProtocol

from runyard.attempt.load import load_object
from runyard.doors.workbench.graph.checking import add_checks
from runyard.doors.workbench.graph.copying import (
    attributes,
    compile_arguments,
    copy_builder,
    flag_of,
    settle,
)
from runyard.doors.workbench.graph.swapping import swap_nodes
from runyard.errors import BadSpec, BadTarget

_FORMS = "a StateGraph, a compiled graph, a function that builds one, or 'module:factory'"


class Opened:
    """A graph that was given, as parts that `build` puts together."""

    def __init__(self, graph: Any) -> None:
        self._plain: Any = None  # a graph without a builder
        self._builder: StateGraph[Any, Any, Any, Any] | None = None
        self._arguments: dict[str, Any] = {}
        self._after: dict[str, Any] = {}
        if isinstance(graph, StateGraph):
            self._builder = graph
        elif isinstance(graph, CompiledStateGraph):
            self._builder = graph.builder
            self._arguments, self._after = compile_arguments(graph), attributes(graph)
        else:
            self._plain = graph

    @property
    def name(self) -> str:
        """Its name, if it has one of its own."""
        found = self._arguments.get("name") or getattr(self._plain, "name", None)
        return "" if found in (None, "LangGraph") else str(found)

    @property
    def builder(self) -> StateGraph[Any, Any, Any, Any] | None:
        """Its builder; None for the functional API and for remote graphs."""
        return self._builder

    @property
    def nodes(self) -> list[str]:
        """The nodes that a variant can replace."""
        if self._builder is None:
            return []
        return [name for name, spec in self._builder.nodes.items() if not spec.is_error_handler]

    @property
    def input_keys(self) -> Sequence[str] | None:
        """The keys of an input; None where anything is accepted."""
        return None if self._builder is None else _keys(self._builder, self._builder.input_schema)

    def runnable_of(self, node: str) -> Any:
        """What a node runs."""
        assert self._builder is not None
        return self._builder.nodes[node].runnable

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What it was compiled with."""
        return self._arguments

    def build(self, nodes: Mapping[str, Any], *, strict: bool) -> Any:
        """A compiled copy, with other implementations for some nodes."""
        if self._builder is None:
            if nodes:
                raise BadSpec(
                    "this graph has no builder, so that its nodes can't be replaced",
                    hint="vary its config or context, or give another graph: Variant(graph=…)",
                )
            return self._plain.copy() if isinstance(self._plain, Pregel) else self._plain
        return _built(self._builder, self._arguments, self._after, nodes, strict=strict)


def open_graph(given: Any) -> Opened:
    """A graph from what people pass."""
    return Opened(_found(given))


def _found(given: Any, depth: int = 0) -> Any:
    if isinstance(given, StateGraph | Pregel):
        return given
    if isinstance(given, RunnableBinding) and isinstance(given.bound, Pregel):
        return given.bound.with_config(given.config)
    if depth > 2:
        raise BadTarget(f"{given!r} is not a graph", hint=f"give {_FORMS}")
    if isinstance(given, str):
        return _found(load_object(given, os.getcwd()), depth + 1)
    if isinstance(given, PregelProtocol):  # a remote one
        return given
    if callable(given):
        try:
            made = given()
        except TypeError as error:
            if depth == 0 and "argument" in str(error):
                raise BadTarget(
                    f"{_name(given)} can't be called without arguments: {error}",
                    hint=f"give {_FORMS}",
                ) from error
            raise
        return _found(made, depth + 1)
    raise BadTarget(f"{given!r:.80} is not a graph", hint=f"give {_FORMS}")


def _built(
    builder: StateGraph[Any, Any, Any, Any],
    arguments: Mapping[str, Any],
    after: Mapping[str, Any],
    nodes: Mapping[str, Any],
    *,
    strict: bool,
    checkpointer: bool | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    own = copy_builder(builder)
    swap_nodes(own, nodes)
    for spec in own.nodes.values():
        inner = spec.runnable
        if isinstance(inner, CompiledStateGraph):
            spec.runnable = _built(
                inner.builder, compile_arguments(inner), attributes(inner), {}, strict=strict,
                checkpointer=flag_of(inner),
            )  # fmt: skip
    compiled = own.compile(checkpointer=checkpointer, **arguments)
    settle(compiled, after)
    add_checks(compiled, strict=strict)
    return compiled


def _keys(builder: StateGraph[Any, Any, Any, Any], schema: Any) -> list[str] | None:
    found = [k for k, each in builder.schemas[schema].items() if not is_managed_value(each)]
    return None if found == ["__root__"] else found


def is_async(graph: Any) -> bool:
    """Whether some node of a compiled graph can only be awaited."""
    nodes = getattr(graph, "nodes", {})
    for node in nodes.values():
        parts = [node.bound, *node.writers]
        if any(map(_only_async, parts)) or any(map(is_async, node.subgraphs)):
            return True
    return False


def _only_async(part: Any) -> bool:
    path = getattr(getattr(part, "func", None), "__self__", None)  # of a conditional edge
    own = getattr(path, "path", None)
    return any(
        getattr(each, "func", True) is None and getattr(each, "afunc", None) is not None
        for each in (part, own)
    )


def has_subgraphs(graph: Any) -> bool:
    """Whether a node of a compiled graph is a graph itself."""
    return any(node.subgraphs for node in getattr(graph, "nodes", {}).values())


def has_breakpoints(graph: Any) -> bool:
    """Whether a compiled graph, or one inside it, pauses at fixed nodes."""
    if getattr(graph, "interrupt_before_nodes", None) or getattr(
        graph, "interrupt_after_nodes", None
    ):
        return True
    nodes = getattr(graph, "nodes", {}).values()
    return any(has_breakpoints(inner) for node in nodes for inner in node.subgraphs)


def without_breakpoints(graph: Any) -> None:
    """Let a compiled copy, and those inside it, run through its fixed pauses."""
    if isinstance(graph, Pregel):
        graph.interrupt_before_nodes = graph.interrupt_after_nodes = []
        for node in graph.nodes.values():
            if isinstance(node.bound, CompiledStateGraph):  # other subgraphs are the user's own
                without_breakpoints(node.bound)


def _name(given: Any) -> str:
    return getattr(given, "__qualname__", repr(given))

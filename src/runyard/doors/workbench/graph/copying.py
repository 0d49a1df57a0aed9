"""Copies of a builder and of a compiled graph, which can be changed without changing the original.

`compile()` changes the builder's specs in place, and refuses a builder whose default error handler
it has already added; a copy starts from before that.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.store.memory import InMemoryStore

DEFAULT_HANDLER = "__default_error_handler__"
HAS_STORE = "has a store"

Change = Callable[[str, Any], Any]
"""From a node's name and runnable to the runnable that is to be used."""


def copy_builder(builder: StateGraph[Any, Any, Any, Any]) -> StateGraph[Any, Any, Any, Any]:
    """A builder that shares nothing changeable with the original."""
    found = copy.copy(builder)
    found.compiled = False
    found.nodes = {
        name: dataclasses.replace(spec)
        for name, spec in builder.nodes.items()
        if name != DEFAULT_HANDLER
    }
    for spec in found.nodes.values():
        if spec.error_handler_node == DEFAULT_HANDLER:
            spec.error_handler_node = None
    found.edges = set(builder.edges)
    found.waiting_edges = set(builder.waiting_edges)
    found.branches = defaultdict(dict, {key: dict(each) for key, each in builder.branches.items()})
    found.schemas = {key: dict(each) for key, each in builder.schemas.items()}
    found.channels = dict(builder.channels)
    found.managed = dict(builder.managed)
    return found


def compile_arguments(graph: CompiledStateGraph[Any, Any, Any, Any]) -> dict[str, Any]:
    """What `compile` got for this graph, but for the saver, the cache and the store."""
    return {
        "interrupt_before": graph.interrupt_before_nodes,
        "interrupt_after": graph.interrupt_after_nodes,
        "debug": graph.debug,
        "name": graph.name,
        "transformers": graph.stream_transformers or None,
    }


def attributes(graph: CompiledStateGraph[Any, Any, Any, Any]) -> dict[str, Any]:
    """What was set on a graph after `compile`, as by `with_config`, and whether it has a store.

    The store itself is the user's: cells get their own.
    """
    names = ("config", "step_timeout", "retry_policy", "cache_policy", "stream_mode")
    return {HAS_STORE: graph.store is not None} | {name: getattr(graph, name) for name in names}


def settle(graph: CompiledStateGraph[Any, Any, Any, Any], after: Mapping[str, Any]) -> None:
    """Set on a copied graph what `attributes` found on another."""
    for name, value in after.items():
        if name == HAS_STORE:
            graph.store = InMemoryStore() if value else None
        else:
            setattr(graph, name, value)


def rebuild(
    builder: StateGraph[Any, Any, Any, Any],
    arguments: dict[str, Any],
    after: dict[str, Any],
    checkpointer: bool | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile a copy of the builder as another graph was."""
    compiled = copy_builder(builder).compile(checkpointer=checkpointer, **arguments)
    settle(compiled, after)
    return compiled


def flag_of(graph: CompiledStateGraph[Any, Any, Any, Any]) -> bool | None:
    """Whether a subgraph wants its own checkpoints; a saver of the user's counts as no wish."""
    found = graph.checkpointer
    return found if found is None or isinstance(found, bool) else None

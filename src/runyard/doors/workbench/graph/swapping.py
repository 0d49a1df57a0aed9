"""Other implementations for nodes of a graph, with everything else as it was."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, get_type_hints

from langchain_core.runnables import Runnable
from langgraph.graph.state import StateGraph

from runyard.errors import BadSpec


def swap_nodes(builder: StateGraph[Any, Any, Any, Any], nodes: Mapping[str, Any]) -> None:
    """Replace nodes of a copied builder; their options, edges and order stay."""
    order = list(builder.nodes)
    for name, implementation in nodes.items():
        _swap(builder, name, implementation)
    builder.nodes = {name: builder.nodes[name] for name in order}


def _swap(builder: StateGraph[Any, Any, Any, Any], name: str, implementation: Any) -> None:
    if not isinstance(implementation, Runnable) and not callable(implementation):
        raise BadSpec(
            f"{implementation!r} can't be the node {name!r}", hint="use a function or a Runnable"
        )
    old = builder.nodes.pop(name)
    channels = {*builder.channels, *builder.managed}
    try:
        builder.add_node(
            name, implementation, defer=old.defer, metadata=old.metadata,
            retry_policy=old.retry_policy, cache_policy=old.cache_policy, timeout=old.timeout,
        )  # fmt: skip
    except ValueError as error:
        raise BadSpec(f"{_name(implementation)} can't be the node {name!r}: {error}") from error
    new = builder.nodes[name]
    added = sorted({*builder.channels, *builder.managed} - channels)
    if added:
        raise BadSpec(
            f"{_name(implementation)} as node {name!r} adds {', '.join(map(repr, added))} to the "
            "state, which other variants don't have",
            hint="add it to the state of the graph itself",
        )
    if not _says_its_input(implementation):
        new.input_schema = old.input_schema
    new.ends = new.ends or old.ends
    new.error_handler_node = old.error_handler_node
    new.trace_policy = old.trace_policy


def _says_its_input(implementation: Any) -> bool:
    """Whether a function's first parameter is annotated with a state class."""
    try:
        hints = get_type_hints(implementation) or get_type_hints(implementation.__call__)
        first = next(iter(inspect.signature(implementation).parameters), "")
        found = hints.get(first)
        return isinstance(found, type) and bool(get_type_hints(found))
    except (NameError, TypeError, ValueError, AttributeError):
        return False


def _name(implementation: Any) -> str:
    return getattr(implementation, "__qualname__", None) or type(implementation).__name__

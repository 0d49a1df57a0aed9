"""Fingerprints of graphs and implementations: equal in every process that has the same code."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from langchain_core.load import dumpd
from langchain_core.runnables import Runnable
from langgraph._internal._runnable import RunnableCallable
from langgraph.graph.state import CompiledStateGraph, StateGraph

from runyard.doors.workbench.graph.copying import DEFAULT_HANDLER, compile_arguments
from runyard.doors.workbench.graph.opening import Opened
from runyard.spec.fingerprint import fingerprint

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def print_of(implementation: Any) -> str:
    """The fingerprint of what a node runs."""
    if isinstance(implementation, CompiledStateGraph):
        return _hash(
            _builder(implementation.builder), repr(compile_arguments(implementation)["name"])
        )
    if isinstance(implementation, RunnableCallable):
        return print_of(implementation.func or implementation.afunc)
    if isinstance(implementation, StateGraph):
        return _hash(_builder(implementation))
    if isinstance(implementation, Runnable):
        return _hash(_ADDRESS.sub("", json.dumps(dumpd(implementation), sort_keys=True)))
    return fingerprint(implementation)


def print_of_graph(opened: Opened) -> str:
    """The fingerprint of a graph."""
    if opened.builder is None:
        plain = opened.build({}, strict=True)
        nodes = {name: print_of(node.bound) for name, node in getattr(plain, "nodes", {}).items()}
        return _hash(type(plain).__qualname__, opened.name, nodes)
    arguments = {k: v for k, v in opened.arguments.items() if k.startswith("interrupt")}
    return _hash(_builder(opened.builder), sorted(arguments.items()))


def _builder(builder: StateGraph[Any, Any, Any, Any]) -> list[Any]:
    nodes = [
        (
            name,
            print_of(spec.runnable),
            spec.defer,
            _policy(spec.retry_policy),
            _schema(spec.input_schema),
        )
        for name, spec in builder.nodes.items()
        if name != DEFAULT_HANDLER
    ]
    branches = [
        (start, name, print_of(branch.path), branch.ends and sorted(map(str, branch.ends.items())))
        for start, each in builder.branches.items()
        for name, branch in each.items()
    ]
    edges = sorted(builder.edges), sorted(map(repr, builder.waiting_edges))
    schemas = [
        _schema(each)
        for each in (builder.state_schema, builder.input_schema, builder.output_schema)
    ]
    channels = [(name, type(each).__name__) for name, each in builder.channels.items()]
    reducers = [
        print_of(operator) if callable(operator := getattr(each, "operator", None)) else None
        for each in builder.channels.values()
    ]
    return [nodes, branches, edges, schemas, channels, reducers]


def _schema(schema: Any) -> Any:
    hints = getattr(schema, "__annotations__", {})
    name = getattr(schema, "__qualname__", repr(schema))
    return name, [(key, _ADDRESS.sub("", str(value))) for key, value in hints.items()]


def _policy(policy: Any) -> str:
    attempts = [getattr(each, "max_attempts", None) for each in _listed(policy)]
    return repr(attempts)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _hash(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode(errors="backslashreplace")).hexdigest()[:16]

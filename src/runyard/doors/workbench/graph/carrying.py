"""Sending graphs to other processes.

A pickled compiled graph loads and then fails, since its channels and writers refer to each other by
identity; a plain builder travels well. So a compiled graph, also one that is a node of another, is
pickled as its builder and what `compile` got. Savers, caches and stores never travel.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from runyard.doors.workbench.graph.copying import (
    attributes,
    compile_arguments,
    copy_builder,
    flag_of,
    rebuild,
)


def _reduce(graph: CompiledStateGraph[Any, Any, Any, Any]) -> tuple[Callable[..., Any], Any]:
    return rebuild, (
        copy_builder(graph.builder), compile_arguments(graph), attributes(graph), flag_of(graph)
    )  # fmt: skip


def let_graphs_travel() -> None:
    """From now on a compiled graph can be pickled."""
    copyreg.pickle(CompiledStateGraph, _reduce)

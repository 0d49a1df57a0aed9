"""A variant's graph, compiled, and what a cell needs to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from langgraph.pregel import Pregel

from runyard.doors.workbench.describe.settings import CellSettings
from runyard.doors.workbench.graph.opening import (
    has_breakpoints,
    has_subgraphs,
    is_async,
    open_graph,
    without_breakpoints,
)


@dataclass(frozen=True)
class Prepared:
    """A compiled graph of the bench's own."""

    graph: Any
    is_async: bool
    has_subgraphs: bool
    has_breakpoints: bool

    @classmethod
    def of(cls, given: Any, nodes: Mapping[str, Any], settings: CellSettings) -> Self:
        """Open a graph and replace some of its nodes."""
        graph = open_graph(given).build(nodes, strict=settings.strict)
        if settings.breakpoints == "ignore":
            without_breakpoints(graph)
        return cls(graph, is_async(graph), has_subgraphs(graph), has_breakpoints(graph))

    @property
    def is_local(self) -> bool:
        """Whether the graph runs here, with checkpoints; not so a remote one."""
        return isinstance(self.graph, Pregel)

    def fresh(self, parts: Mapping[str, Any]) -> Any:
        """The graph with a saver, a store and a cache of one cell; itself if there are none."""
        return self.graph.copy(update=dict(parts)) if self.is_local and parts else self.graph

    @property
    def nodes(self) -> list[str]:
        """The nodes that a variant can replace."""
        return open_graph(self.graph).nodes

    @property
    def state_keys(self) -> Any:
        """The channels of the state."""
        return self.graph.stream_channels_asis

    def output_of(self, state: Any) -> Any:
        """The part of a state that the graph returns."""
        keys = self.graph.output_channels if self.is_local else ""
        if isinstance(keys, str) or not isinstance(state, dict):
            return state
        return {key: state[key] for key in keys if key in state}

"""Checks at the end of every node, for what LangGraph drops without a word.

They are writers of the compiled node, after its own ones, so that nothing of the node changes:

    node ──▶ its writers ──▶ Check: unknown keys returned? a step to a node that does not exist?
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel._write import ChannelWrite
from langgraph.types import Command, Send

from runyard.errors import TaskError

WATCH = "__runyard_watch"
"""The key in a run's `configurable` under which the cell is told of retries."""

_SEND, _RUNTIME, _TASKS, _BRANCH = (
    "__pregel_send", "__pregel_runtime", "__pregel_tasks", "branch:to:"
)  # fmt: skip


class Dropped(TaskError):
    """LangGraph would silently ignore a part of what a node returned."""


class DroppedWarning(UserWarning):
    """The same, where `strict=False`."""


class Check(Runnable[Any, Any]):
    """A writer that writes nothing."""

    def __init__(
        self, node: str, keys: Collection[str] | None, nodes: Collection[str], *, strict: bool
    ) -> None:
        self.name = f"check of {node}"
        self._node = node
        self._keys = keys
        self._nodes = nodes
        self._strict = strict

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Check what a node has returned and written; returns it as it is."""
        inside: dict[str, Any] = {} if config is None else config.get("configurable", {})
        if self._keys is not None and input is not None:
            self._check_keys(input, self._keys)
        send = inside.get(_SEND)
        if send is not None:
            self._check_steps(getattr(send, "__self__", ()))
        runtime, watch = inside.get(_RUNTIME), inside.get(WATCH)
        info = getattr(runtime, "execution_info", None)
        if watch is not None and info is not None and info.node_attempt > 1:
            watch.retried(self._node, info.node_attempt - 1)
        return input

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """The same."""
        return self.invoke(input, config)

    def _check_keys(self, value: Any, keys: Collection[str]) -> None:
        if type(value) is dict:
            if not value.keys() <= keys:  # type: ignore[operator]
                self._tell_keys(key for key in value if key not in keys)
        elif isinstance(value, Command):
            if value.graph != Command.PARENT and value.update is not None:
                self._tell_keys(k for k, _ in value._update_as_tuples() if k not in keys)
        elif isinstance(value, list | tuple):
            for each in value:
                if isinstance(each, dict | Command):
                    self._check_keys(each, keys)

    def _tell_keys(self, unknown: Iterable[Any]) -> None:
        found = [repr(key) for key in unknown if key != "__root__"]
        if found:
            self._tell(
                f"the node {self._node!r} returned {', '.join(found)}, which the state does not "
                "have; LangGraph drops it silently",
                f"the state has: {', '.join(sorted(self._keys or ()))}",
            )

    def _check_steps(self, writes: Iterable[tuple[str, Any]]) -> None:
        for channel, value in writes:
            if channel == _TASKS and isinstance(value, Send):
                goal = value.node
            elif channel.startswith(_BRANCH):
                goal = channel.removeprefix(_BRANCH)
            else:
                continue
            if goal not in self._nodes and goal != END:
                self._tell(
                    f"the node {self._node!r} goes to {goal!r}, which does not exist; LangGraph "
                    "ends there silently",
                    f"the nodes are: {', '.join(self._nodes)}",
                )

    def _tell(self, message: str, hint: str) -> None:
        if self._strict:
            raise Dropped(message, hint=hint)
        warnings.warn(f"{message}; {hint}", DroppedWarning, stacklevel=2)


class CheckedWrite(ChannelWrite):
    """A node's last write and its check in one, since each step of a node takes time."""

    def __init__(self, writes: Sequence[Any], check: Check) -> None:
        super().__init__(writes)
        self._check = check

    def _write(self, input: Any, config: RunnableConfig) -> Any:  # noqa: A002
        super()._write(input, config)
        return self._check.invoke(input, config)

    async def _awrite(self, input: Any, config: RunnableConfig) -> Any:  # noqa: A002
        super()._write(input, config)
        return self._check.invoke(input, config)


def add_checks(graph: CompiledStateGraph[Any, Any, Any, Any], *, strict: bool) -> None:
    """Add a check to each node of a compiled copy."""
    builder = graph.builder
    keys = frozenset((*builder.channels, *builder.managed))
    nodes = tuple(builder.nodes)
    for name, node in graph.nodes.items():
        if name == START and not builder.branches.get(START):
            continue
        # What a subgraph keeps for itself is dropped on purpose.
        is_free = name == START or "__root__" in keys or node.subgraphs
        check = Check(name, None if is_free else keys, nodes, strict=strict)
        writers = list(node.flat_writers)
        last = writers[-1] if writers else None
        if type(last) is ChannelWrite:
            writers[-1] = CheckedWrite(last.writes, check)
        else:  # a conditional edge
            writers.append(check)
        node.writers = writers
        for computed in ("flat_writers", "node"):
            vars(node).pop(computed, None)

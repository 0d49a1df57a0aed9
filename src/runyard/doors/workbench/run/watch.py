"""What a cell has done: the nodes it visited, their times, retries and tokens."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any, Final

from langchain_core.callbacks import UsageMetadataCallbackHandler

BETWEEN: Final = ":"
"""Between a subgraph's name and that of a node in it; LangGraph allows it in no name."""


class _Usage(UsageMetadataCallbackHandler):
    """Counts tokens where they are told, without a thread for each event of LangGraph's."""

    run_inline = True

    @property
    def ignore_chain(self) -> bool:
        return True

    @property
    def ignore_retriever(self) -> bool:
        return True


class Visit:
    """One execution of a node."""

    __slots__ = ("inner", "name", "seconds", "started")

    def __init__(self, name: str, started: float) -> None:
        self.name = name
        self.started = started
        self.seconds: float | None = None  # None: it did not end, or came from a cache
        self.inner: list[Visit] = []


class CellWatch:
    """Follows a run by its stream."""

    def __init__(self) -> None:
        self._begin = perf_counter()
        self._visits: list[Visit] = []
        self._by_task: dict[str, Visit] = {}
        self.usage = _Usage()
        self.retries: dict[str, int] = {}
        self.latency = 0.0
        self._done: set[str] = set()  # tasks that have ended well
        self._before: dict[str, Any] = {}  # the record of a shared prefix

    def begin(self) -> None:
        """The graph is about to run."""
        self._begin = perf_counter()

    def skip(self, tasks: Iterable[str]) -> None:
        """These tasks had ended before: the stream names them, but they do not run."""
        self._done.update(tasks)

    def follow(self, record: dict[str, Any]) -> None:
        """The cell goes on from what is recorded here."""
        self._before = record

    def see(self, namespace: tuple[str, ...], task: dict[str, Any]) -> None:
        """Take in an entry of the stream `tasks`: a node begins, or has ended."""
        now = perf_counter() - self._begin
        if "result" in task or "error" in task:
            found = self._by_task.get(task["id"])
            if found is not None:
                found.seconds = now - found.started
            if not task.get("error") and not task.get("interrupts"):
                self._done.add(task["id"])
            return
        if task["id"] in self._done:
            return
        visit = Visit(task["name"], now)
        self._by_task[task["id"]] = visit
        parent = self._by_task.get(namespace[-1].rpartition(":")[2]) if namespace else None
        (self._visits if parent is None else parent.inner).append(visit)

    def retried(self, node: str, times: int) -> None:
        """LangGraph ran a node again."""
        self.retries[node] = self.retries.get(node, 0) + times

    def end(self) -> None:
        """The run is over."""
        self.latency = perf_counter() - self._begin

    def record(self) -> dict[str, Any]:
        """What is recorded beside the value."""
        before = self._before
        nodes = [*before.get("nodes", ()), *map(list, _flat(self._visits, ""))]
        seen = self.usage.usage_metadata.items()
        usage: dict[str, dict[str, Any]] = {model: dict(each) for model, each in seen}
        tokens = sum(int(each.get("total_tokens", 0)) for each in usage.values())
        found = {
            "trajectory": [name for name, _, _ in nodes],
            "nodes": nodes,
            "latency": self.latency + before.get("latency", 0.0),
            "tokens": tokens + before.get("tokens", 0),
            "usage": before.get("usage", {}) | usage,
            "retries": before.get("retries", {}) | self.retries,
        }
        if before:
            found["shared"] = len(before["nodes"])
        return found


def _flat(visits: list[Visit], prefix: str) -> Any:
    """Visits with those inside them, as parallel branches would come in any order."""
    for visit in visits:
        name = prefix + visit.name
        yield name, visit.started, visit.seconds
        yield from _flat(visit.inner, name + BETWEEN)

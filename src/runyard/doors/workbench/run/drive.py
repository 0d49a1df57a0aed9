"""Driving a graph: from its input, over interrupts that have scripted answers, to its end.

input ──▶ stream ──▶ paused? ──▶ next answer ──▶ stream ──▶ …
                        └──▶ no answer left: the cell ends interrupted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.types import Command, Interrupt

from runyard.doors.workbench.run.prepared import Prepared
from runyard.doors.workbench.run.watch import CellWatch

_PAUSE = "__interrupt__"


class Drive:
    """One run of a graph, in as many passes as it has pauses."""

    def __init__(
        self,
        prepared: Prepared,
        graph: Any,
        watch: CellWatch,
        *,
        first: Any,
        config: dict[str, Any],
        context: Any,
        answers: Sequence[Any],
        durability: str | None,
    ) -> None:
        self._prepared = prepared
        self._graph = graph
        self._watch = watch
        self._next = first
        self._config = config
        self._answers = list(answers)
        self._options: dict[str, Any] = {"stream_mode": ["tasks", "values"]}
        if prepared.is_local:
            self._options["output_keys"] = prepared.state_keys
        if prepared.has_breakpoints:
            self._options["stream_mode"].append("updates")
        if prepared.has_subgraphs:
            self._options["subgraphs"] = True
        if context is not None:
            self._options["context"] = context
        if durability is not None:
            self._options["durability"] = durability
        self.state: Any = None
        self.has_state = False
        self.questions: dict[str, Any] = {}  # of the pause that it is at, by id
        self.paused = False
        self._stopped = False

    def begin(self, state: Any) -> None:
        """Go on from a checkpoint, at which the state is this."""
        self._next, self.state, self.has_state = None, state, True

    def stop(self, *, paused: bool, questions: Mapping[str, Any] | None = None) -> None:
        """Stay where the checkpoint is."""
        self._stopped, self.paused, self.questions = True, paused, dict(questions or {})

    def answer(self) -> None:
        """Answer what the checkpoint asks for, if there is an answer."""
        self._stopped = not self._goes_on()

    def run(self) -> None:
        """Run to the end, or to a pause without an answer."""
        self._watch.begin()
        while not self._stopped:
            self._begin()
            for chunk in self._graph.stream(self._next, self._config, **self._options):
                self._see(chunk)
            self._stopped = not self._goes_on()

    async def arun(self) -> None:
        """The same on an event loop."""
        self._watch.begin()
        while not self._stopped:
            self._begin()
            async for chunk in self._graph.astream(self._next, self._config, **self._options):
                self._see(chunk)
            self._stopped = not self._goes_on()

    def _begin(self) -> None:
        self.paused, self.questions = False, {}

    def _see(self, chunk: Any) -> None:
        namespace, mode, content = chunk if len(chunk) == 3 else ((), *chunk)
        if mode == "tasks":
            self._watch.see(namespace, content)
        elif namespace:
            return
        elif mode == "values":
            if isinstance(content, dict) and _PAUSE in content:
                self._pause(content[_PAUSE])
                content = {key: value for key, value in content.items() if key != _PAUSE}
                if not content and self.has_state:
                    return
            self.state, self.has_state = content, True
        elif mode == "updates" and _PAUSE in content:
            self._pause(content[_PAUSE])

    def _pause(self, asked: Sequence[Interrupt]) -> None:
        self.paused = True
        self.questions |= {each.id: each.value for each in asked}

    def _goes_on(self) -> bool:
        """Whether there is an answer to go on with."""
        if not self.paused or not self._answers:
            return False
        if not self.questions:  # a fixed breakpoint, which asks for nothing
            del self._answers[0]
            self._next = None
            return True
        given = dict(zip(self.questions, self._answers, strict=False))
        del self._answers[: len(given)]
        self._next = Command(resume=given)
        return True

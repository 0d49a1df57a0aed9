"""A cell of a bench: one variant on one case, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.doors.workbench.tape.file import ThreadRows, places, read_rows
from runyard.reports.result import Outcome
from runyard.spec.outcome import ErrorInfo
from runyard.spec.status import Status

if TYPE_CHECKING:
    from runyard.doors.workbench.run.prepared import Prepared
    from runyard.doors.workbench.run.program import CellProgram


@dataclass(frozen=True)
class Checkpoint:
    """A state of a graph between two steps."""

    id: str
    next: tuple[str, ...]  # the nodes that run after it
    values: Any
    step: int  # -1 for the input
    metadata: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Source:
    """Where a cell comes from: what is needed to read its checkpoints, and to fork it."""

    folder: Path  # of the batch
    program: CellProgram
    params: dict[str, Any]


class Cell:
    """What came out of a cell. Reading it never runs anything."""

    def __init__(self, outcome: Outcome, source: Source, repetition: int, record: Any) -> None:
        from runyard.doors.workbench.run.session import thread_of

        self.id = outcome.id
        self.task = outcome.task
        self.attempt = outcome.attempt
        self.worker = outcome.worker
        self.source = source
        self.variant: str = outcome.params["variant"]
        self.case: str = outcome.params["case"]
        self.repetition = repetition
        self.thread_id = thread_of(outcome.batch, outcome.task, outcome.attempt)
        self.failure: ErrorInfo | None = outcome.error
        self.seconds = outcome.seconds  # of the whole attempt
        self.scores: dict[str, float | None] = {}
        self.reasons: dict[str, str] = {}
        value = outcome.value if isinstance(outcome.value, dict) else {}
        self._value: dict[str, Any] = value
        self._engine_status = outcome.status
        self._record: dict[str, Any] = record or {}

    @property
    def status(self) -> str:
        """completed, failed, interrupted or cancelled."""
        if self._engine_status is Status.COMPLETED:
            return str(self._value["status"])
        return str(self._engine_status.value)

    @property
    def inputs(self) -> Any:
        """What the graph started from."""
        return self.source.program.unpacked(self.source.params["inputs"])

    @property
    def content(self) -> Any:
        """What it was given and returned, as it is recorded."""
        given = self.source.params
        return [given["inputs"], given.get("expected"), self._value, self.trajectory]

    @property
    def expected(self) -> Any:
        """What the case expects."""
        return self.source.program.unpacked(self.source.params.get("expected"))

    @property
    def tags(self) -> list[str]:
        """The tags of the case."""
        return list(self.source.params.get("tags", ()))

    @property
    def output(self) -> Any:
        """What the graph returned; None if it failed."""
        return self._revived("output")

    @property
    def recorded_output(self) -> Any:
        """The same as it is recorded: plain data, also where no class can be found."""
        return self._value.get("output")

    @property
    def state(self) -> Any:
        """The graph's state at the end; of a cell that failed, that of its last checkpoint."""
        if "state" in self._value:
            return self._revived("state")
        found = self.checkpoints()
        return found[-1].values if found else None

    @property
    def interrupts(self) -> list[Any]:
        """What an interrupted cell asks for."""
        return self._revived("interrupts") or []

    @property
    def trajectory(self) -> list[str]:
        """The nodes in the order they ran; those of a subgraph as `subgraph:node`."""
        return list(self._record.get("trajectory", ()))

    @property
    def nodes(self) -> list[tuple[str, float, float | None]]:
        """The same with the second at which each started, and how long it took."""
        return [(name, start, seconds) for name, start, seconds in self._record.get("nodes", ())]

    @property
    def tokens(self) -> int:
        """The tokens that language models were sent and returned."""
        return int(self._record.get("tokens", 0))

    @property
    def usage(self) -> dict[str, Any]:
        """The same by model and kind."""
        return dict(self._record.get("usage", {}))

    @property
    def cost(self) -> float | None:
        """What the models cost in dollars; None without one, or if a price is unknown."""
        from runyard.doors.workbench.evaluate.costs import cost_of

        return cost_of(self.usage)

    @property
    def latency(self) -> float:
        """The seconds that the graph ran."""
        return float(self._record.get("latency", self.seconds))

    @property
    def retries(self) -> int:
        """How often nodes and the cell itself were run again after errors."""
        return self.attempt + sum(map(int, self._record.get("retries", {}).values()))

    @property
    def error(self) -> str | None:
        """Why it failed."""
        return None if self.failure is None else f"{self.failure.kind}: {self.failure.message}"

    def checkpoints(self) -> list[Checkpoint]:
        """The states between its steps, oldest first; empty with `checkpoints="off"`."""
        from runyard.doors.workbench.bench.forking import checkpoints

        return checkpoints(self)

    @property
    def rows(self) -> ThreadRows:
        """Its checkpoints as they are stored."""
        for place in places(self.source.folder, self.task, self.attempt, self.worker):
            found = read_rows(place, self.thread_id)
            if found.checkpoints:
                return found
        return ThreadRows([], [])

    @property
    def prepared(self) -> Prepared:
        """The graph of its variant."""
        params = self.source.params
        return self.source.program.prepared(params["graph"], params["nodes"])

    def _revived(self, key: str) -> Any:
        from runyard.doors.workbench.run.values import revived

        return revived(self._value.get(key))

    def __repr__(self) -> str:
        return f"<Cell {self.id}: {self.variant} on {self.case}, {self.status}>"

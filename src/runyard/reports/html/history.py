"""What happened to a batch, read once from its audit log: its runs, retries, lost workers, alerts.

The log may hold millions of lines; what is kept of them here is bounded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runyard.errors import RunyardError
from runyard.events import read
from runyard.format import cut

MOST_ALERTS = 200
MOST_MOMENTS = 5000
EXAMPLES = 3
LONGEST = 500  # characters of a message
LOUD = frozenset({"warning", "error", "critical", "alert"})
"""Levels of events from tasks that become alerts."""


@dataclass
class RunRecord:
    """One run of the batch: from its start to its end, if known."""

    number: int
    engine: int
    started: float
    backend: str
    workers: int
    ended: float | None = None
    reason: str = ""  # why it ended; "" if unknown
    done: int | None = None  # tasks with an outcome at its end
    described: dict[str, Any] = field(default_factory=dict)


@dataclass
class Alert:
    """A message that a person should read, and how often it occurred."""

    kind: str
    level: str
    text: str
    first: float
    count: int = 0
    tasks: list[int] = field(default_factory=list)  # the first few, each once


@dataclass
class RunHistory:
    """What happened, in the order of the log."""

    runs: list[RunRecord] = field(default_factory=list)
    alerts: dict[tuple[str, str, str], Alert] = field(default_factory=dict)
    more_alerts: int = 0  # beyond `MOST_ALERTS`
    retries: Counter[str] = field(default_factory=Counter)  # by error class
    retried: list[tuple[int, float]] = field(default_factory=list)  # engine, when; the first ones
    lost: list[tuple[int, float, int, str]] = field(default_factory=list)  # ... worker, why
    trouble: str = ""  # what is wrong with the log, and where, in a sentence

    def take(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        match event.get("event"):
            case "BatchStarted":
                names = ("engine", "at", "backend", "workers")
                self.runs.append(RunRecord(len(self.runs) + 1, *(event[name] for name in names)))
            case "RunDescribed":
                if (run := self.run_of(event["engine"])) is not None:
                    run.described = event
            case "BatchFinished" | "BatchStopped":
                if (run := self.run_of(event["engine"])) is not None:
                    run.ended = event["at"]
                    run.reason = event.get("reason", "finished")
                    run.done = event["completed"] + event["failed"] + event["cancelled"]
            case "TaskRetried":
                self.retries[event["error"]] += 1
                if len(self.retried) < MOST_MOMENTS:
                    self.retried.append((event["engine"], event["at"]))
            case _:
                self._take_alert(event)

    def _take_alert(self, event: dict[str, Any]) -> None:
        match event.get("event"):
            case "WorkerLost":
                if len(self.lost) < MOST_MOMENTS:
                    lost = event["engine"], event["at"], event["worker"], event["reason"]
                    self.lost.append(lost)
                self._alert(event, "lost worker", "warning", event["reason"])
            case "Notice":
                self._alert(event, "notice", event["level"], event["text"])
            case "CodeChanged":
                self._alert(event, "changed code", event["level"], event["text"])
            case "TaskEmitted":
                self._emitted(event)

    def _emitted(self, event: dict[str, Any]) -> None:
        data = event.get("data") or {}
        level = str(data.get("level", "")).lower()
        if event["kind"] == "alert" or level in LOUD:
            message = [str(data["message"])] if "message" in data else []
            rest = [f"{k}={v}" for k, v in data.items() if k not in ("level", "message")]
            self._alert(event, event["kind"], level or "warning", " ".join(message + rest))

    def _alert(self, event: dict[str, Any], kind: str, level: str, text: str) -> None:
        """Record a message; a repeated one is counted."""
        key = cut(kind, LONGEST), cut(level, LONGEST), cut(text, LONGEST)
        if key not in self.alerts and len(self.alerts) >= MOST_ALERTS:
            self.more_alerts += 1
            return
        found = self.alerts.setdefault(key, Alert(*key, event["at"]))
        found.count += 1
        task = event.get("task")
        if task is not None and task not in found.tasks and len(found.tasks) < EXAMPLES:
            found.tasks.append(task)

    def run_of(self, engine: int) -> RunRecord | None:
        """The run of this engine, if its start is on record."""
        return next((run for run in reversed(self.runs) if run.engine == engine), None)


def read_history(path: Path) -> RunHistory:
    """Read the history, as far as the log is intact."""
    history = RunHistory()
    try:
        for event in read(path):
            history.take(event)
    except RunyardError as error:
        history.trouble = f"Some of the history is missing: {error.message}"
    return history

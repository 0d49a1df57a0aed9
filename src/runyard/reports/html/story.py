"""The story of a batch, read once from its audit log: its runs, retries, lost workers, alerts.

The log may hold millions of lines; what is kept of them here is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runyard.errors import RunyardError
from runyard.events import read
from runyard.reports.html.blocks import cut

MOST_ALERTS = 200
MOST_MOMENTS = 5000
EXAMPLES = 3
LONGEST = 500  # characters of what was said
LOUD = frozenset({"warning", "error", "critical", "alert"})
"""Levels of what a task says that a person should read."""


@dataclass
class Run:
    """One run of the batch: from its start to its end, or as far as is known."""

    number: int
    engine: int
    started: float
    backend: str
    workers: int
    ended: float | None = None
    reason: str = ""  # why it ended; "" while that is not known
    done: int | None = None  # tasks with an outcome at its end
    described: dict[str, Any] = field(default_factory=dict)


@dataclass
class Alert:
    """Something that a person should read, and how often it was said."""

    kind: str
    level: str
    text: str
    first: float
    count: int = 0
    tasks: list[int] = field(default_factory=list)  # the first few


@dataclass
class Story:
    """What happened, in the order of the log."""

    runs: list[Run] = field(default_factory=list)
    alerts: dict[tuple[str, str, str], Alert] = field(default_factory=dict)
    more_alerts: int = 0  # that found no room
    retries: Counter[str] = field(default_factory=Counter)  # by error class
    retried: list[tuple[int, float]] = field(default_factory=list)  # engine, when; the first ones
    lost: list[tuple[int, float, int, str]] = field(default_factory=list)  # ... worker, why
    trouble: str = ""  # what is wrong with the log itself

    def take(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        reader = _READERS.get(str(event.get("event")))
        if reader is not None:
            reader(self, event)

    def alert(self, event: dict[str, Any], kind: str, level: str, text: str) -> None:
        """Note something that a person should read; what is said again is counted."""
        key = cut(kind, LONGEST), cut(level, LONGEST), cut(text, LONGEST)
        if key not in self.alerts:
            if len(self.alerts) >= MOST_ALERTS:
                self.more_alerts += 1
                return
            self.alerts[key] = Alert(*key, event["at"])
        found = self.alerts[key]
        found.count += 1
        task = event.get("task")
        if task is not None and len(found.tasks) < EXAMPLES:
            found.tasks.append(task)

    def run_of(self, engine: int) -> Run | None:
        """The run of this engine, if its start is on record."""
        return next((run for run in reversed(self.runs) if run.engine == engine), None)


def read_story(path: Path) -> Story:
    """The story as far as the log can be read."""
    story = Story()
    try:
        for event in _events(path):
            story.take(event)
    except RunyardError as error:
        story.trouble = error.message
    return story


def _events(path: Path) -> Iterable[dict[str, Any]]:
    found: Iterator[dict[str, Any]] = read(path) if path.exists() else iter(())
    return found


def _started(story: Story, event: dict[str, Any]) -> None:
    number = len(story.runs) + 1
    run = Run(number, event["engine"], event["at"], event["backend"], event["workers"])
    story.runs.append(run)


def _described(story: Story, event: dict[str, Any]) -> None:
    run = story.run_of(event["engine"])
    if run is not None:
        run.described = event


def _ended(story: Story, event: dict[str, Any]) -> None:
    run = story.run_of(event["engine"])
    if run is not None:
        run.ended = event["at"]
        run.reason = event.get("reason", "finished")
        run.done = event["completed"] + event["failed"] + event["cancelled"]


def _retried(story: Story, event: dict[str, Any]) -> None:
    story.retries[event["error"]] += 1
    if len(story.retried) < MOST_MOMENTS:
        story.retried.append((event["engine"], event["at"]))


def _lost(story: Story, event: dict[str, Any]) -> None:
    if len(story.lost) < MOST_MOMENTS:
        story.lost.append((event["engine"], event["at"], event["worker"], event["reason"]))
    story.alert(event, "lost worker", "warning", event["reason"])


def _notice(story: Story, event: dict[str, Any]) -> None:
    story.alert(event, "notice", event["level"], event["text"])


def _code_changed(story: Story, event: dict[str, Any]) -> None:
    story.alert(event, "changed code", event["level"], event["text"])


def _emitted(story: Story, event: dict[str, Any]) -> None:
    data = event.get("data") or {}
    level = str(data.get("level", "")).lower()
    if event["kind"] == "alert" or level in LOUD:
        rest = {key: value for key, value in data.items() if key not in ("level", "message")}
        said = [str(data["message"])] if "message" in data else []
        text = " ".join(said + [f"{key}={value}" for key, value in rest.items()])
        story.alert(event, event["kind"], level or "warning", text)


_READERS = {
    "BatchStarted": _started,
    "RunDescribed": _described,
    "BatchFinished": _ended,
    "BatchStopped": _ended,
    "TaskRetried": _retried,
    "WorkerLost": _lost,
    "Notice": _notice,
    "CodeChanged": _code_changed,
    "TaskEmitted": _emitted,
}

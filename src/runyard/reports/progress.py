"""Progress for people: a live bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from runyard.events import (
    BatchStarted,
    BatchStopped,
    Event,
    EventBus,
    Notice,
    TaskEmitted,
    TaskFailed,
    TaskRetried,
    WorkerLost,
)
from runyard.events import Progress as ProgressEvent

Progress = bool | Callable[[ProgressEvent], None] | None
"""None: where stderr is a terminal. A function gets each progress event."""

PLAIN_SECONDS = 2.0
"""Time between two plain lines; it doubles up to a minute on long runs."""

ALERT_KIND = "alert"
"""A task that emits an event of this kind has its `message` shown on the alert line."""


class View(Protocol):
    """Something that shows events."""

    def handle(self, event: Event) -> None:
        """Something happened."""

    def close(self) -> None:
        """Leave the terminal as it was."""


@contextlib.contextmanager
def show(bus: EventBus, progress: Progress, name: str, notices: list[str]) -> Iterator[None]:
    """Show a run's progress while this lasts."""
    view = _view(progress, name)
    if view is None:
        yield
        return
    for text in notices:
        view.handle(Notice(batch=name, text=text))
    subscription = bus.subscribe(Event, view.handle)
    try:
        yield
    finally:
        subscription.flush()
        subscription.unsubscribe()
        view.close()


def _view(progress: Progress, name: str) -> View | None:
    if callable(progress):
        return _Callback(progress)
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if progress is False or (progress is None and not is_terminal):
        return None
    dumb = os.environ.get("TERM") == "dumb"
    return LiveView(name) if is_terminal and not dumb else PlainView()


class _Callback:
    def __init__(self, function: Callable[[ProgressEvent], None]) -> None:
        self._function = function

    def handle(self, event: Event) -> None:
        if isinstance(event, ProgressEvent):
            self._function(event)

    def close(self) -> None:
        """Nothing to leave."""


class PlainView:
    """A line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._pause = PLAIN_SECONDS
        self._next = time.monotonic() + self._pause

    def handle(self, event: Event) -> None:
        """Say what is worth a line."""
        text = alert(event)
        if isinstance(event, ProgressEvent) and time.monotonic() >= self._next:
            self._pause = min(60.0, self._pause * 1.5)
            self._next = time.monotonic() + self._pause
            text = progress_line(event)
        elif isinstance(event, BatchStarted):
            text = f"{event.total:,} tasks on {event.workers} {event.backend} workers, seed {event.seed}"
        if text is not None:
            print(f"{event.batch}: {text}", file=sys.stderr, flush=True)  # noqa: T201

    def close(self) -> None:
        """Nothing to leave."""


class LiveView:
    """A bar with counts, rate, ETA and workers, and under it the latest alert."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        self._text = Text
        self._console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[counts]}"),
            console=self._console,
        )
        self._task = self._bar.add_task(name, total=None, counts="starting")
        self._alert = Text("")
        self._live = Live(self._group(), console=self._console, refresh_per_second=10)
        self._live.start()

    def handle(self, event: Event) -> None:
        """Redraw what changed."""
        if isinstance(event, ProgressEvent):
            done = event.completed + event.failed + event.cancelled
            self._bar.update(
                self._task, total=event.total, completed=done, counts=progress_line(event)
            )
        text = alert(event)
        if text is not None:
            self._alert = self._text(text, style="yellow", overflow="ellipsis", no_wrap=True)
            self._live.update(self._group())
        if isinstance(event, BatchStopped) and event.reason == "interrupted":
            self._live.update(self._group())

    def close(self) -> None:
        """Leave the last state of the bar standing."""
        self._live.stop()

    def _group(self) -> Any:
        from rich.console import Group

        return Group(self._bar, self._alert) if self._alert.plain else self._bar


def progress_line(event: ProgressEvent) -> str:
    """Where a batch stands, in one line."""
    done = event.completed + event.failed + event.cancelled
    share = 100 * done / event.total if event.total else 100.0
    parts = [f"{done:,}/{event.total:,} ({share:.0f}%)"]
    for name in ("failed", "cancelled", "retrying"):
        if getattr(event, name):
            parts.append(f"{getattr(event, name):,} {name}")
    parts.append(f"{event.rate:,.0f}/s" if event.rate >= 10 else f"{event.rate:.2g}/s")
    if event.eta is not None and done < event.total:
        parts.append(f"eta {duration(event.eta)}")
    parts.append(f"{event.workers} workers")
    return " · ".join(parts)


def alert(event: Event) -> str | None:
    """What of an event a person should see at once."""
    if isinstance(event, TaskFailed):
        return f"task {event.task} failed: {event.error}: {_first_line(event.message)}"
    if isinstance(event, WorkerLost):
        at = "" if event.task is None else f" at task {event.task}"
        return f"worker {event.worker} {event.reason}{at}; replaced"
    if isinstance(event, TaskRetried):
        return f"task {event.task} will be retried: {event.error}: {_first_line(event.message)}"
    if isinstance(event, Notice):
        return event.text
    if isinstance(event, TaskEmitted) and event.kind == ALERT_KIND:
        return str(event.data.get("message", event.data))
    return None


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
